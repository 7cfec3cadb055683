//! The table of clients in Envoy's shared data, which all workers have in common.
//!
//! Shared data is never given back, and Envoy outlives configurations. So all policies share one set of names, and each
//! uses as many as its entries need.

use std::time::Duration;

use limpet_core::source::{EntryBucket, EntryKey, SourceRules, SourceTable};
use limpet_core::time::Timestamp;
use limpet_core::token::Claims;
use limpet_core::view::ViewError;
use proxy_wasm::hostcalls;
use proxy_wasm::types::Status;

use crate::host;

/// How often a change is retried after another worker's.
const ATTEMPTS: usize = 16;

const SEED: &str = "limpet.source.seed";

/// Begins all workers' hashes, so that outsiders do not know which clients share a place.
pub(crate) type HashSeed = [u8; 16];

/// Takes the seed of another worker, or sets one.
pub(crate) fn seed() -> Result<HashSeed, ViewError> {
    let kept = || {
        let (kept, _) = hostcalls::get_shared_data(SEED).ok()?;
        HashSeed::try_from(kept?).ok()
    };
    if let Some(seed) = kept() {
        return Ok(seed);
    }
    let mut seed = HashSeed::default();
    getrandom::fill(&mut seed).map_err(|_| host::failed("random bytes")(Status::InternalFailure))?;
    // Envoy tries a configuration on its main thread first, so no worker sets another seed meanwhile.
    hostcalls::set_shared_data(SEED, Some(&seed), None).map_err(host::failed("shared data"))?;
    Ok(seed)
}

#[derive(Debug)]
pub(crate) struct BucketTable {
    rules: SourceRules,
    seed: HashSeed,
}

impl BucketTable {
    pub(crate) fn new(rules: SourceRules, seed: HashSeed) -> Self {
        Self { rules, seed }
    }

    fn number(&self, key: &EntryKey) -> u32 {
        EntryBucket::number(&self.rules, &self.seed, key)
    }

    /// Changes the entries of a name. `change` returns whether anything has changed, and its result.
    fn change<T>(number: u32, change: impl Fn(&mut EntryBucket) -> (bool, T)) -> Result<T, ViewError> {
        let failed = host::failed("shared data");
        let name = format!("limpet.source.{number}");
        let mut left = ATTEMPTS;
        loop {
            let (bytes, version) = hostcalls::get_shared_data(&name).map_err(&failed)?;
            let mut places = EntryBucket::read(bytes.unwrap_or_default());
            let (has_changed, result) = change(&mut places);
            if !has_changed {
                return Ok(result);
            }
            left -= 1;
            // Envoy has no call that keeps two workers from being the first of a name. Then one of their entries is
            // lost: the client gets another one with its next request.
            match hostcalls::set_shared_data(&name, Some(places.bytes()), version) {
                Ok(()) => return Ok(result),
                Err(Status::CasMismatch) if left > 0 => {}
                Err(status) => return Err(failed(status)),
            }
        }
    }
}

impl SourceTable for BucketTable {
    fn find(
        &self,
        key: &EntryKey,
        now: Timestamp,
        is_alive: &dyn Fn(&Claims) -> bool,
    ) -> Result<Option<Claims>, ViewError> {
        let number = self.number(key);
        Self::change(number, |places| {
            let found = places.find(key);
            let lags = |claims: &Claims| now.since(claims.last_seen).max(claims.last_seen.since(now)) >= self.lag();
            let used = found.filter(|claims| lags(claims) && is_alive(claims));
            if let Some(claims) = used {
                places.insert(key, &claims.used_at(now), &self.rules, number);
            }
            (used.is_some(), found)
        })
    }

    fn put(&self, key: &EntryKey, claims: &Claims) -> Result<bool, ViewError> {
        let number = self.number(key);
        Self::change(number, |places| (true, places.insert(key, claims, &self.rules, number)))
    }

    fn remove(&self, key: &EntryKey) -> Result<(), ViewError> {
        Self::change(self.number(key), |places| (places.remove(key), ()))
    }

    fn lag(&self) -> Duration {
        EntryBucket::lag(&self.rules)
    }
}
