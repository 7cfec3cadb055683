//! What islands share although nothing joins them: cookies of which a client keeps only one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::partition::Island;
use crate::few::FewMap;
use crate::graph::Hostname;
use crate::sessions::CookieOwners;
use crate::sessions::{CookiePlace, SharedCookies, WrittenCookie, wider_places};

#[derive(Debug, Default)]
pub(super) struct CookieRegistry {
    /// By name and path.
    cookies: HashMap<(String, String), BTreeMap<CookiePlace, CookieScopes>>,
}

/// As `ScopeAge` in `shared_names.rs`.
type OwnedSince = (String, String);

/// The oldest first, each with how often it writes the cookie.
type ScopeCounts = FewMap<OwnedSince, usize>;

#[derive(Debug, Default)]
struct CookieScopes {
    /// For this very host.
    here: ScopeCounts,
    /// For hosts that are a part of these.
    within: ScopeCounts,
    /// Islands that write here, and how often.
    islands: FewMap<Island, usize>,
}

#[derive(Debug, Default)]
pub(super) struct CookieDifference {
    /// How often each cookie was added, less how often it was removed.
    cookies: BTreeMap<WrittenCookie, isize>,
}

impl CookieRegistry {
    pub(super) fn insert(&mut self, island: Island, all: &SharedCookies, difference: &mut CookieDifference) {
        for (cookie, _) in all {
            self.count(island, cookie, true);
            *difference.cookies.entry(cookie.clone()).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, island: Island, all: &SharedCookies, difference: &mut CookieDifference) {
        for (cookie, _) in all {
            self.count(island, cookie, false);
            *difference.cookies.entry(cookie.clone()).or_default() -= 1;
        }
    }

    fn count(&mut self, island: Island, cookie: &WrittenCookie, more: bool) {
        let key = (cookie.name.clone(), cookie.path.clone());
        let hosts = self.cookies.entry(key.clone()).or_default();
        for host in wider_places(&cookie.place) {
            let writers = hosts.entry(host.clone()).or_default();
            step(&mut writers.within, &cookie.since, more);
            if writers.is_empty() {
                hosts.remove(&host);
            }
        }
        let writers = hosts.entry(cookie.place.clone()).or_default();
        step(&mut writers.here, &cookie.since, more);
        step(&mut writers.islands, &island, more);
        if writers.is_empty() {
            hosts.remove(&cookie.place);
        }
        if hosts.is_empty() {
            self.cookies.remove(&key);
        }
    }

    /// Whether what these sessions have in common with others is as when they were built.
    pub(super) fn agrees(&self, all: &SharedCookies) -> bool {
        let own: HashSet<&str> = all.iter().map(|(cookie, _)| &*cookie.since.1).collect();
        self.agrees_without(|scope| own.contains(scope), all)
    }

    /// Each host's scopes are read once, however many of these sessions write there.
    fn agrees_without(&self, is_own: impl Fn(&str) -> bool, all: &SharedCookies) -> bool {
        let is_other = |since: &&OwnedSince| !is_own(&since.1);
        let mut others: HashMap<*const ScopeCounts, Option<&OwnedSince>> = HashMap::new();
        let mut is_same = |(cookie, known): &(WrittenCookie, Option<OwnedSince>)| {
            let oldest = self.oldest(cookie, |scopes| {
                *{ others.entry(scopes) }.or_insert_with(|| scopes.keys().find(is_other))
            });
            known.as_ref() == oldest
        };
        all.iter().all(&mut is_same)
    }

    fn oldest<'s>(
        &'s self,
        cookie: &WrittenCookie,
        mut oldest: impl FnMut(&'s ScopeCounts) -> Option<&'s OwnedSince>,
    ) -> Option<&'s OwnedSince> {
        let hosts = self.cookies.get(&(cookie.name.clone(), cookie.path.clone()))?;
        let here = hosts.get(&cookie.place).into_iter();
        let here = here.flat_map(|writers| [&writers.here, &writers.within]);
        let wider = wider_places(&cookie.place).filter_map(|host| Some(&hosts.get(&host)?.here));
        let all = here.chain(wider).filter_map(&mut oldest);
        all.filter(|since| **since < cookie.since).min()
    }

    pub(super) fn affected_islands(&self, difference: &CookieDifference) -> BTreeSet<Island> {
        let mut concerned = BTreeSet::new();
        // Changed hosts of which other hosts can be a part.
        let mut wide: HashMap<&(String, String), HashSet<&CookiePlace>> = HashMap::new();
        for (cookie, _) in difference.cookies.iter().filter(|(_, count)| **count != 0) {
            let key = (cookie.name.clone(), cookie.path.clone());
            let Some((key, hosts)) = self.cookies.get_key_value(&key) else {
                continue;
            };
            let wider = wider_places(&cookie.place).filter_map(|host| hosts.get(&host));
            for writers in hosts.get(&cookie.place).into_iter().chain(wider) {
                concerned.extend(writers.islands.keys());
            }
            if !matches!(cookie.place.1, Hostname::Exact(_)) {
                wide.entry(key).or_default().insert(&cookie.place);
            }
        }
        for (key, changed) in wide {
            let hosts = self.cookies.get(key).into_iter().flatten();
            let within = hosts.filter(|(host, _)| wider_places(host).any(|host| changed.contains(&host)));
            within.for_each(|(_, writers)| concerned.extend(writers.islands.keys()));
        }
        concerned
    }
}

/// Islands being built are not among these.
impl CookieOwners for CookieRegistry {
    fn older(&self, cookie: &WrittenCookie) -> Option<(String, String)> {
        let is_other = |since: &&OwnedSince| since.1 != cookie.since.1;
        self.oldest(cookie, |scopes| scopes.keys().find(is_other)).cloned()
    }
}

impl CookieScopes {
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn written(host: &str, scope: &str) -> WrittenCookie {
        WrittenCookie {
            name: "c".into(),
            path: "/".into(),
            place: (None, Hostname::Exact(host.into())),
            since: ("2026".into(), scope.into()),
        }
    }

    #[test]
    fn many_rules_with_one_cookie_each_read_the_scopes_of_all() {
        const RULES: usize = 500;
        let mut common = CookieRegistry::default();
        let mut all = SharedCookies::default();
        for rule in 0..RULES {
            all.push((written("a.example", &format!("m/{rule:04}")), None));
        }
        common.insert(1, &all, &mut CookieDifference::default());
        let reads = Cell::new(0);
        let is_own = |scope: &str| {
            reads.set(reads.get() + 1);
            scope.starts_with("m/")
        };
        assert!(common.agrees_without(is_own, &all));
        assert_eq!(reads.get(), RULES);
    }
}
