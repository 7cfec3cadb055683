//! What the sessions of islands have in common with those of others although nothing joins them: cookies of which a
//! client keeps one alone, and the first digits of the hashes of policies.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use limpet_api::Text;

use super::partition::Island;
use crate::few::FewMap;
use crate::graph::Hostname;
use crate::sessions::Elsewhere;
use crate::sessions::{InCommon, PolicyId, WrittenCookie, wider};

/// Of all islands.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// How many digits a short name of a policy has.
    digits: usize,
    /// By name and path.
    cookies: HashMap<(String, String), BTreeMap<Hostname, Writers>>,
    /// By short name, the digests, and who has such a policy.
    policies: HashMap<Text, BTreeMap<String, BTreeSet<Island>>>,
}

/// Who writes a cookie for a host.
#[derive(Debug, Default)]
struct Writers {
    /// The scopes for this very host, each since when, and how often.
    here: FewMap<(String, String), usize>,
    /// Those for hosts that are a part of these.
    within: FewMap<(String, String), usize>,
    /// Who writes here, and how often.
    islands: FewMap<Island, usize>,
}

/// What differs after some islands were built.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// How often each cookie was added, less how often it was removed.
    cookies: BTreeMap<WrittenCookie, isize>,
    /// Whether the policies with a short name were several.
    policies: BTreeMap<Text, bool>,
}

impl Common {
    pub(super) fn new(digits: usize) -> Self {
        Self {
            digits,
            ..Self::default()
        }
    }

    pub(super) fn put_in(&mut self, island: Island, all: &InCommon, difference: &mut Difference) {
        for (cookie, _) in &all.cookies {
            self.count(island, cookie, true);
            *difference.cookies.entry(cookie.clone()).or_default() += 1;
        }
        for (id, _) in &all.policies {
            let short = id.with_digits(self.digits);
            difference.note(&short, self.is_crowded(&short));
            let of_digest = self.policies.entry(short).or_default().entry(id.digest.clone());
            of_digest.or_default().insert(island);
        }
    }

    pub(super) fn take_out(&mut self, island: Island, all: &InCommon, difference: &mut Difference) {
        for (cookie, _) in &all.cookies {
            self.count(island, cookie, false);
            *difference.cookies.entry(cookie.clone()).or_default() -= 1;
        }
        for (id, _) in &all.policies {
            let short = id.with_digits(self.digits);
            difference.note(&short, self.is_crowded(&short));
            let Some(digests) = self.policies.get_mut(&short) else {
                continue;
            };
            if let Some(islands) = digests.get_mut(&id.digest) {
                islands.remove(&island);
                if islands.is_empty() {
                    digests.remove(&id.digest);
                }
            }
            if digests.is_empty() {
                self.policies.remove(&short);
            }
        }
    }

    fn is_crowded(&self, short: &str) -> bool {
        self.policies.get(short).is_some_and(|digests| digests.len() > 1)
    }

    fn count(&mut self, island: Island, cookie: &WrittenCookie, more: bool) {
        let key = (cookie.name.clone(), cookie.path.clone());
        let hosts = self.cookies.entry(key.clone()).or_default();
        for host in wider(&cookie.host) {
            let writers = hosts.entry(host.clone()).or_default();
            step(&mut writers.within, &cookie.since, more);
            if writers.is_empty() {
                hosts.remove(&host);
            }
        }
        let writers = hosts.entry(cookie.host.clone()).or_default();
        step(&mut writers.here, &cookie.since, more);
        step(&mut writers.islands, &island, more);
        if writers.is_empty() {
            hosts.remove(&cookie.host);
        }
        if hosts.is_empty() {
            self.cookies.remove(&key);
        }
    }

    /// Whether what these sessions have in common with others is still what it was when they were built.
    pub(super) fn agrees(&self, all: &InCommon) -> bool {
        let own: BTreeSet<&str> = all.cookies.iter().map(|(cookie, _)| &*cookie.since.1).collect();
        let is_same = |(cookie, known): &(WrittenCookie, Option<(String, String)>)| {
            known.as_ref() == self.oldest(cookie, |scope| !own.contains(scope))
        };
        let is_named = |(id, name): &(PolicyId, Text)| {
            let short = id.with_digits(self.digits);
            (*name == short) != self.is_crowded(&short)
        };
        all.cookies.iter().all(is_same) && all.policies.iter().all(is_named)
    }

    /// The oldest of such scopes that writes the cookie and is older than its own.
    fn oldest<'s>(&'s self, cookie: &WrittenCookie, is_one: impl Fn(&str) -> bool) -> Option<&'s (String, String)> {
        let hosts = self.cookies.get(&(cookie.name.clone(), cookie.path.clone()))?;
        // The oldest come first.
        let first = |scopes: &'s FewMap<(String, String), usize>| {
            let mut older = scopes.keys().take_while(|since| **since < cookie.since);
            older.find(|since| is_one(&since.1))
        };
        let here = hosts.get(&cookie.host);
        let here = here
            .into_iter()
            .flat_map(|writers| [first(&writers.here), first(&writers.within)]);
        let wider = wider(&cookie.host).filter_map(|host| hosts.get(&host));
        here.chain(wider.map(|writers| first(&writers.here))).flatten().min()
    }

    /// The islands for which the difference may mean something.
    pub(super) fn concerned(&self, difference: &Difference) -> BTreeSet<Island> {
        let mut concerned = BTreeSet::new();
        for (cookie, _) in difference.cookies.iter().filter(|(_, count)| **count != 0) {
            let key = (cookie.name.clone(), cookie.path.clone());
            let Some(hosts) = self.cookies.get(&key) else { continue };
            let mut add = |writers: &Writers| concerned.extend(writers.islands.keys());
            hosts.get(&cookie.host).into_iter().for_each(&mut add);
            wider(&cookie.host)
                .filter_map(|host| hosts.get(&host))
                .for_each(&mut add);
            if !matches!(cookie.host, Hostname::Exact(_)) {
                let within = hosts.iter().filter(|(host, _)| cookie.host.contains(host));
                within.for_each(|(_, writers)| add(writers));
            }
        }
        for (short, was_crowded) in &difference.policies {
            if self.is_crowded(short) != *was_crowded {
                let digests = self.policies.get(short).into_iter().flat_map(BTreeMap::values);
                concerned.extend(digests.flatten());
            }
        }
        concerned
    }
}

/// Who is being built is not among these.
impl Elsewhere for Common {
    fn older(&self, cookie: &WrittenCookie) -> Option<(String, String)> {
        self.oldest(cookie, |scope| scope != cookie.since.1).cloned()
    }

    fn has_policy(&self, short: &str, digest: &str) -> bool {
        let digests = self.policies.get(short).into_iter().flat_map(BTreeMap::keys);
        { digests }.any(|other| other != digest)
    }
}

impl Difference {
    fn note(&mut self, short: &str, is_crowded: bool) {
        if !self.policies.contains_key(short) {
            self.policies.insert(short.into(), is_crowded);
        }
    }
}

impl Writers {
    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.within.is_empty()
    }
}

fn step<K: Clone + Ord>(counts: &mut FewMap<K, usize>, key: &K, more: bool) {
    if more {
        counts.update(key, |count| *count += 1);
        return;
    }
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
