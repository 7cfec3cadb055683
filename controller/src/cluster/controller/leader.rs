//! Leader election: of several replicas, the one that holds a Lease writes; all of them serve.
//!
//! It works as in client-go: a Lease that did not change for `leaseDurationSeconds` is free, by this process's own
//! clock. It is our own because the crates for it compare the times in the Lease with the clock of the machine, and
//! clocks may differ.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Error};
use tokio::sync::watch;

use crate::cluster::config::LeaderConfig;

/// How long a Lease lasts without being renewed.
const LEASE: Duration = Duration::from_secs(15);
/// A holder that could not renew its Lease for this long stops writing, well before another replica may start.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the Lease is renewed, or read.
const RETRY: Duration = Duration::from_secs(2);
/// The timeout of one call.
const CALL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    enabled: bool,
    leads: watch::Sender<bool>,
    /// The Lease as it was last seen, and since when it has not changed.
    seen: Option<(LeaseSpec, Instant)>,
    renewed: Option<Instant>,
}

/// Who holds the Lease.
enum Turn {
    Ours,
    Theirs,
}

impl Candidate {
    /// The receiver tells whether the replica `identity` leads.
    pub(crate) fn new(client: &Client, config: &LeaderConfig, identity: String) -> (Self, watch::Receiver<bool>) {
        let (leads, receiver) = watch::channel(!config.enabled);
        let candidate = Self {
            leases: Api::namespaced(client.clone(), config.namespace(client)),
            name: config.name.clone(),
            identity,
            enabled: config.enabled,
            leads,
            seen: None,
            renewed: None,
        };
        (candidate, receiver)
    }

    /// Takes part until `shutdown`, and then releases the Lease, so that another replica need not wait until it
    /// expires.
    pub(crate) async fn run(mut self, mut shutdown: watch::Receiver<bool>) {
        if !self.enabled {
            let _ = shutdown.wait_for(|ends| *ends).await;
            return;
        }
        loop {
            let turn = match tokio::time::timeout(CALL, self.turn()).await {
                Ok(Ok(turn)) => Some(turn),
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, %error, "leader election failed");
                    None
                }
                Err(_) => {
                    tracing::warn!(lease = self.name, "leader election failed: no answer");
                    None
                }
            };
            match turn {
                Some(Turn::Ours) => {
                    self.renewed = Some(Instant::now());
                    self.set(true);
                }
                Some(Turn::Theirs) => {
                    self.renewed = None;
                    self.set(false);
                }
                None if self.renewed.is_none_or(|renewed| renewed.elapsed() > RENEW_DEADLINE) => {
                    self.set(false);
                }
                None => {}
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                _ = shutdown.wait_for(|ends| *ends) => break,
            }
        }
        if self.set(false) {
            let released = tokio::time::timeout(CALL, self.release()).await;
            if !matches!(released, Ok(Ok(()))) {
                tracing::warn!(lease = self.name, "the Lease could not be released");
            }
        }
    }

    /// Returns whether that is a change.
    fn set(&self, leads: bool) -> bool {
        let changed = self
            .leads
            .send_if_modified(|known| std::mem::replace(known, leads) != leads);
        if changed {
            tracing::info!(lease = self.name, leads, "leader election");
        }
        changed
    }

    /// Renews the Lease, or takes it if it is free.
    async fn turn(&mut self) -> Result<Turn, Error> {
        let post = PostParams::default();
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            };
            let spec = Some(self.taken(None));
            let lease = Lease { metadata, spec };
            return Self::wrote(self.leases.create(&post, &lease).await);
        };
        let spec = lease.spec.unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() && !self.has_expired(&spec) {
            return Ok(Turn::Theirs);
        }
        let is_own = holder == self.identity;
        let mut taken = self.taken(is_own.then_some(&spec));
        taken.lease_transitions = Some(spec.lease_transitions.unwrap_or_default() + i32::from(!is_own));
        lease.spec = Some(taken);
        // By its resourceVersion: of two replicas, the second gets a conflict.
        Self::wrote(self.leases.replace(&self.name, &post, &lease).await)
    }

    fn wrote(result: Result<Lease, Error>) -> Result<Turn, Error> {
        match result {
            Ok(_) => Ok(Turn::Ours),
            // Another replica was faster.
            Err(Error::Api(status)) if status.code == 409 => Ok(Turn::Theirs),
            Err(error) => Err(error),
        }
    }

    fn has_expired(&mut self, spec: &LeaseSpec) -> bool {
        let since = match &self.seen {
            Some((seen, since)) if seen == spec => *since,
            _ => {
                let now = Instant::now();
                self.seen = Some((spec.clone(), now));
                now
            }
        };
        let held = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        since.elapsed() >= held.map_or(LEASE, Duration::from_secs)
    }

    /// The Lease with us as its holder. `own` is the Lease if we hold it already.
    fn taken(&self, own: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
            acquire_time: own
                .and_then(|own| own.acquire_time.clone())
                .or_else(|| Some(now.clone())),
            renew_time: Some(now),
            ..own.cloned().unwrap_or_default()
        }
    }

    async fn release(&self) -> Result<(), Error> {
        let mut lease = self.leases.get(&self.name).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&*self.identity) {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }
}
