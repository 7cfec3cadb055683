//! Reports of Envoys, by backend.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use limpet_api::{ObjectName, Text};
use limpet_core::census::report::{BackendReport, Report, RestartReport};
use limpet_core::census::{Backend, Sketch, is_alive};
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::DestinationId;
use limpet_xds::RequestLoad;

use crate::settling::SETTLING;

use super::account::{ACCOUNT, MANY, SessionAccount, WINDOW};
use super::places::{self, BackendPlaces, ClusterId, HostKey, ReportedBackend};
use super::replica::{HostAccount, HostLoad, IncompleteHost, ReplicaKnowledge};

/// Bytes of all sketches. Half as much again is for namespaces below their share, so that the sessions of one namespace
/// are not uncounted because of another. A pod with many sessions has six windows of 3 KB for each idle bound and
/// Gateway: room for 7,000 such pods, or 40,000 with 100 sessions each. The chart's memory limit is four times as much.
const MEMORY: usize = 128 << 20;
/// Bytes of sketches in one answer to another replica, about.
const TELLING: usize = 4 << 20;
/// The most ended streams of load reports that count. Beyond that, the Gateway with most of them loses its first, in
/// the namespace with most.
const ENDED: usize = 1024;

/// The least time between two searches for expired backends when room is lacking.
const FORGETTING: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct SessionLedger {
    accounts: HashMap<HostKey, HostAccounts>,
    /// The size of the accounts, about.
    bytes: usize,
    /// By the namespace of the Services.
    by_namespace: HashMap<Text, usize>,
    /// The limit of `bytes`.
    room: usize,
    /// When expired backends were forgotten last, which visits all accounts.
    forgot: Timestamp,
    /// The hosts with uncounted sessions, and until when those may live.
    incomplete: HashMap<HostKey, Timestamp>,
    /// By stream of load reports.
    loads: HashMap<u64, HashMap<HostKey, u64>>,
    /// Ended streams of load reports that still count, with their group and end.
    ended: BTreeMap<u64, (Arc<str>, Timestamp)>,
    /// By replica.
    loads_of_others: HashMap<String, HashMap<HostKey, u64>>,
    /// Moved sessions by reason.
    moves: BTreeMap<String, u64>,
    /// By replica. Ended replicas stay: a counter does not go down.
    moves_of_others: BTreeMap<String, BTreeMap<String, u64>>,
    /// The number of the last change of any account.
    changes: u64,
}

/// By idle bound and group of Envoys: one Gateway's reports do not count for others.
type HostAccounts = BTreeMap<(u32, Arc<str>), SessionAccount>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HostSummary {
    /// Distinct living sessions.
    pub(super) sessions: u64,
    /// Whether there may be more.
    pub(super) incomplete: bool,
    pub(super) requests: u64,
    pub(super) last_use: Option<Timestamp>,
    pub(super) oldest: Option<Timestamp>,
}

impl SessionLedger {
    pub(super) fn new() -> Self {
        Self::with_room(MEMORY)
    }

    pub(super) fn with_room(room: usize) -> Self {
        Self {
            accounts: HashMap::new(),
            bytes: 0,
            by_namespace: HashMap::new(),
            room,
            forgot: Timestamp::default(),
            incomplete: HashMap::new(),
            loads: HashMap::new(),
            ended: BTreeMap::new(),
            loads_of_others: HashMap::new(),
            moves: BTreeMap::new(),
            moves_of_others: BTreeMap::new(),
            changes: 0,
        }
    }

    /// Returns the sessions that moved, by the host that they left.
    pub(super) fn receive(
        &mut self,
        group: &str,
        report: Report,
        places: &BackendPlaces,
        now: Timestamp,
    ) -> Vec<(HostKey, u64)> {
        let mut rebalanced = Vec::new();
        for change in report.backends {
            let Some(backend) = change.backend() else { continue };
            // An Envoy knows only the clusters that it was given, so it cannot lie about the pods of others.
            let found = places.resolve(group, backend, now);
            let Some(ReportedBackend { standing, .. }) = found.first() else {
                continue;
            };
            if change.departed > 0 {
                self.count_moves(standing.reason(), change.departed);
            }
            let left = change.rebalanced.iter().map(|window| window.sessions);
            let left = left.fold(0, u64::saturating_add);
            if left > 0 {
                self.count_moves(RequestOutcome::Rebalanced.as_str(), left);
            }
            for found in found {
                if left > 0 {
                    rebalanced.push((found.host, left));
                }
                // Used until now but expired: this Envoy's clock is slow, and its sessions do not count.
                if change.requests > 0 && !is_alive(backend.live_for, last_use(&change, &found), found.used_by) {
                    self.record_uncounted(&found, backend.live_for, now);
                }
                if let Some(account) = self.account(&found, &change, now) {
                    account.requests = account.requests.saturating_add(change.requests);
                    account.record_rebalanced(backend.live_for, &change.rebalanced, now);
                }
            }
        }
        for restart in report.restarts {
            if let Some(reason) = places::known_reason(&restart.reason) {
                self.count_moves(reason, restart.sessions);
            }
        }
        rebalanced
    }

    /// Adds to the host's account and returns it; `None` if there is no room, so it stays unknown.
    fn account(
        &mut self,
        found: &ReportedBackend,
        change: &BackendReport,
        now: Timestamp,
    ) -> Option<&mut SessionAccount> {
        let live_for = change.live_for;
        let key = (live_for, Arc::clone(&found.group));
        let is_known = self
            .accounts
            .get(&found.host)
            .is_some_and(|known| known.contains_key(&key));
        if !found.has_bound || !self.has_room(change, &found.namespace, is_known, now) {
            self.record_uncounted(found, live_for, now);
            return None;
        }
        let accounts = self.accounts.entry(found.host).or_default();
        let account = accounts
            .entry(key)
            .or_insert_with(|| SessionAccount::of(&found.namespace));
        let before = account.bytes();
        let is_new = account.merge(live_for, change, last_use(change, found), now);
        let of_namespace = self.by_namespace.entry(found.namespace.clone()).or_default();
        for bytes in [&mut self.bytes, of_namespace] {
            *bytes = bytes.saturating_sub(before).saturating_add(account.bytes());
        }
        // Only changes are sent on, or replicas would exchange the same for ever.
        if is_new || change.requests > 0 || !change.rebalanced.is_empty() {
            self.changes += 1;
            account.changed = self.changes;
        }
        Some(account)
    }

    /// Notes that sessions used just now are not counted.
    fn record_uncounted(&mut self, found: &ReportedBackend, live_for: u32, now: Timestamp) {
        let seconds = u64::from(live_for.min(found.longest));
        let until = found.used_by.after(Duration::from_secs(seconds));
        if until > now {
            let known = self.incomplete.entry(found.host).or_default();
            *known = until.max(*known);
        }
    }

    /// Whether there is room for this, as if all of it were new. Makes some if not.
    fn has_room(&mut self, change: &BackendReport, namespace: &Text, is_known: bool, now: Timestamp) -> bool {
        let windows = change
            .windows
            .iter()
            .map(|window| WINDOW + window.sketch.len().saturating_mul(2).min(MANY));
        let added = windows.fold(if is_known { 0 } else { ACCOUNT }, usize::saturating_add);
        let was_just_now = self.forgot <= now && now.since(self.forgot) < FORGETTING;
        if !self.fits(added, namespace) && !was_just_now {
            self.forget(now);
        }
        self.fits(added, namespace)
    }

    fn fits(&self, added: usize, namespace: &Text) -> bool {
        let of_namespace = self.by_namespace.get(namespace);
        let namespaces = self.by_namespace.len() + usize::from(of_namespace.is_none());
        let share = (self.room / 2).checked_div(namespaces).unwrap_or_default();
        let of_namespace = of_namespace.copied().unwrap_or_default();
        let bytes = self.bytes.saturating_add(added);
        let has_share = of_namespace.saturating_add(added) <= share && bytes <= self.room + self.room / 2;
        added == 0 || bytes <= self.room || has_share
    }

    pub(super) fn receive_load(
        &mut self,
        group: &str,
        stream: u64,
        loads: Vec<RequestLoad>,
        places: &BackendPlaces,
        now: Timestamp,
    ) {
        if loads.is_empty() {
            self.loads.remove(&stream);
            return;
        }
        let mut of_stream = HashMap::new();
        for load in loads {
            let backend = Backend {
                destination: load.destination,
                host: load.host,
                live_for: 0,
            };
            // As in `receive`: no lies about the pods of others.
            for found in places.resolve(group, backend, now) {
                let sum = of_stream.entry(found.host).or_insert(0_u64);
                *sum = sum.saturating_add(load.in_flight);
            }
        }
        self.loads.insert(stream, of_stream);
    }

    /// Counts an ended stream until its Envoy has had time to open another one: requests do not end with it.
    pub(super) fn end_load(&mut self, group: &str, stream: u64, now: Timestamp) {
        if !self.loads.contains_key(&stream) {
            return;
        }
        self.ended.insert(stream, (group.into(), now));
        if self.ended.len() <= ENDED {
            return;
        }
        let (mut of_namespace, mut of_group): (HashMap<_, usize>, HashMap<_, usize>) = Default::default();
        for (group, _) in self.ended.values() {
            *of_namespace.entry(ObjectName::namespace_in(group)).or_default() += 1;
            *of_group.entry(&**group).or_default() += 1;
        }
        let counts = |group: &str| (of_namespace.get(ObjectName::namespace_in(group)), of_group.get(group));
        let most = self.ended.values().map(|(group, _)| counts(group)).max();
        let mut oldest = self.ended.iter();
        let oldest = oldest.find(|(_, (group, _))| Some(counts(group)) == most);
        if let Some(stream) = oldest.map(|(stream, _)| *stream) {
            self.ended.remove(&stream);
            self.loads.remove(&stream);
        }
    }

    pub(super) fn forget_loads(&mut self, now: Timestamp) {
        let loads = &mut self.loads;
        self.ended.retain(|stream, (_, ended)| {
            let counts = now.since(*ended) < SETTLING;
            if !counts {
                loads.remove(stream);
            }
            counts
        });
    }

    /// The backends that changed after `changes`, up to the limit, and all the rest.
    pub(super) fn after(&self, changes: u64) -> ReplicaKnowledge {
        let accounts = self.accounts.iter().flat_map(|(host, accounts)| {
            let accounts = accounts.iter().filter(|(_, account)| account.changed > changes);
            accounts.map(|(of, account)| (account.changed, *host, of, account))
        });
        let mut accounts: Vec<_> = accounts.collect();
        accounts.sort_unstable_by_key(|(changed, ..)| *changed);
        let mut told = ReplicaKnowledge {
            changes: self.changes,
            ..ReplicaKnowledge::default()
        };
        let mut bytes = 0;
        for (changed, host, (live_for, group), account) in accounts {
            if bytes > TELLING {
                told.more = true;
                break;
            }
            bytes += account.bytes();
            told.changes = changed;
            told.accounts.push(HostAccount {
                cluster: host.0.0.to_vec(),
                group: group.to_string(),
                report: Some(account.to_report(backend(host, *live_for))),
            });
        }
        if !told.more {
            told.changes = self.changes;
        }
        told.moves = self
            .moves
            .iter()
            .map(|(reason, sessions)| RestartReport {
                reason: reason.clone(),
                sessions: *sessions,
            })
            .collect();
        let loads = streams(self.loads.values()).into_iter();
        let loads = loads.map(|(host, in_flight)| HostLoad {
            cluster: host.0.0.to_vec(),
            host: Some(BackendReport::new(backend(host, 0))),
            in_flight,
        });
        told.loads = loads.collect();
        let incomplete = self.incomplete.iter().map(|(host, until)| IncompleteHost {
            cluster: host.0.0.to_vec(),
            host: Some(BackendReport::new(backend(*host, 0))),
            until: until.unix_millis(),
        });
        told.incomplete = incomplete.collect();
        told
    }

    /// Adds another replica's knowledge, within what Envoys could report here. Returns whether that was all.
    pub(super) fn receive_replica(
        &mut self,
        name: &str,
        told: ReplicaKnowledge,
        places: &BackendPlaces,
        now: Timestamp,
    ) -> bool {
        let mut is_all = true;
        for (id, group, mut change) in told.accounts.into_iter().filter_map(HostAccount::read) {
            let Some(backend) = change.backend() else { continue };
            let Some(found) = places
                .resolve_in(id, &group, backend, now)
                .filter(|found| found.has_bound)
            else {
                is_all = false;
                continue;
            };
            let requests = std::mem::take(&mut change.requests);
            let rebalanced = std::mem::take(&mut change.rebalanced);
            let Some(account) = self.account(&found, &change, now) else {
                is_all = false;
                continue;
            };
            account.requests_of_others.insert(name.to_owned(), requests);
            let rebalanced = rebalanced.iter().map(|window| (window.number, window.sessions));
            account
                .rebalanced_of_others
                .insert(name.to_owned(), rebalanced.collect());
        }
        let moves = told.moves.into_iter().filter_map(|restart| {
            let reason = places::known_move(&restart.reason)?;
            Some((reason.to_owned(), restart.sessions))
        });
        self.moves_of_others.insert(name.to_owned(), moves.collect());
        let host = |cluster: &[u8], host: Option<BackendReport>| {
            let host = (ClusterId(cluster.try_into().ok()?), host?.backend()?.host);
            places.has(host).then_some(host)
        };
        let loads = told
            .loads
            .into_iter()
            .filter_map(|load| Some((host(&load.cluster, load.host)?, load.in_flight)));
        self.loads_of_others.insert(name.to_owned(), loads.collect());
        for incomplete in told.incomplete {
            let Some(host) = host(&incomplete.cluster, incomplete.host) else {
                continue;
            };
            let latest = now.after(Duration::from_secs(u64::from(places.longest(host.0))));
            let until = Timestamp::from_unix_millis(incomplete.until).min(latest);
            let known = self.incomplete.entry(host).or_default();
            *known = until.max(*known);
        }
        is_all
    }

    pub(super) fn forget_loads_of_others(&mut self, is_there: impl Fn(&str) -> bool) {
        self.loads_of_others.retain(|name, _| is_there(name));
    }

    fn count_moves(&mut self, reason: &str, sessions: u64) {
        let count = match self.moves.get_mut(reason) {
            Some(count) => count,
            None => self.moves.entry(reason.to_owned()).or_default(),
        };
        *count = count.saturating_add(sessions);
    }

    pub(super) fn forget(&mut self, now: Timestamp) {
        self.forgot = now;
        let mut by_namespace: HashMap<Text, usize> = HashMap::new();
        self.accounts.retain(|_, accounts| {
            accounts.retain(|(live_for, _), account| {
                let stays = account.is_alive(*live_for, now);
                if stays {
                    *by_namespace.entry(account.namespace.clone()).or_default() += account.bytes();
                }
                stays
            });
            !accounts.is_empty()
        });
        self.bytes = by_namespace.values().sum();
        self.by_namespace = by_namespace;
        self.incomplete.retain(|_, until| *until > now);
    }

    /// The clock was set. Nothing was used after now, and Envoys report uncounted sessions again.
    pub(super) fn set_clock(&mut self, now: Timestamp) {
        self.incomplete.clear();
        for account in self.accounts.values_mut().flat_map(BTreeMap::values_mut) {
            account.last_use = account.last_use.min(now);
        }
    }

    pub(super) fn summary(&self, host: HostKey, now: Timestamp) -> HostSummary {
        let mut summary = HostSummary {
            incomplete: self.incomplete.get(&host).is_some_and(|until| *until > now),
            ..HostSummary::default()
        };
        let mut all = Vec::new();
        for ((live_for, _), account) in self.accounts.get(&host).into_iter().flatten() {
            let (living, oldest) = account.living(*live_for, now);
            all.extend(living);
            summary.requests = summary.requests.saturating_add(account.requests());
            summary.last_use = summary.last_use.max(Some(account.last_use));
            summary.oldest = [summary.oldest, oldest].into_iter().flatten().min();
        }
        // A session may use several Gateways, and its idle bound may have changed.
        summary.sessions = Sketch::union(all).estimate() as u64;
        summary
    }

    /// The sessions of a host for this group, without moved ones, and the longest of their idle bounds.
    pub(super) fn staying(&self, host: HostKey, group: &str, now: Timestamp) -> (u64, Duration) {
        let accounts = self.accounts.get(&host).into_iter().flatten();
        let of_group = accounts.filter(|((_, of), _)| **of == *group);
        let (mut all, mut left, mut longest) = (Vec::new(), 0_u64, Duration::ZERO);
        for ((live_for, _), account) in of_group {
            all.extend(account.living(*live_for, now).0);
            left = left.saturating_add(account.left(*live_for, now));
            longest = longest.max(Duration::from_secs(u64::from(*live_for)));
        }
        let living = Sketch::union(all).estimate() as u64;
        (living.saturating_sub(left), longest)
    }

    pub(super) fn streams(&self) -> HashMap<HostKey, u64> {
        streams(self.loads.values().chain(self.loads_of_others.values()))
    }

    pub(super) fn streams_of(&self, host: HostKey) -> u64 {
        let loads = self.loads.values().chain(self.loads_of_others.values());
        let loads = loads.filter_map(|loads| loads.get(&host));
        loads.fold(0, |sum, in_flight| sum.saturating_add(*in_flight))
    }

    pub(super) fn moves(&self) -> BTreeMap<String, u64> {
        let mut all = self.moves.clone();
        for (reason, sessions) in self.moves_of_others.values().flatten() {
            let sum = all.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*sessions);
        }
        all
    }

    pub(super) fn hosts(&self) -> HashSet<HostKey> {
        let lived = self.accounts.keys().copied();
        let loads = self.loads.values().chain(self.loads_of_others.values());
        let busy = loads.flat_map(HashMap::keys).copied();
        let unknown = self.incomplete.keys().copied();
        lived.chain(busy).chain(unknown).collect()
    }
}

/// Bounded, so that no clock or lie keeps a backend busy for longer than its idle bound.
fn last_use(change: &BackendReport, found: &ReportedBackend) -> Timestamp {
    Timestamp::from_unix_millis(change.last_use).min(found.used_by)
}

/// As reports name a host. Replicas name the cluster besides.
fn backend((_, host): HostKey, live_for: u32) -> Backend {
    Backend {
        destination: DestinationId([0; 4]),
        host,
        live_for,
    }
}

fn streams<'a>(loads: impl Iterator<Item = &'a HashMap<HostKey, u64>>) -> HashMap<HostKey, u64> {
    let mut all = HashMap::new();
    for (host, in_flight) in loads.flatten() {
        let sum = all.entry(*host).or_insert(0_u64);
        *sum = sum.saturating_add(*in_flight);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_streams_that_told_nothing_took_the_place_of_others() {
        let mut ledger = SessionLedger::new();
        let now = Timestamp::from_unix_millis(1_000_000);
        let host: HostKey = (ClusterId([7; 16]), ([10, 0, 0, 1], 80).into());
        ledger.loads.insert(5000, HashMap::from([(host, 42)]));
        for stream in 0..=ENDED as u64 {
            ledger.end_load("shop/web", stream, now);
        }
        ledger.end_load("shop/web", 5000, now);
        assert_eq!(ledger.streams_of(host), 42);
    }

    fn host(last: u8) -> HostKey {
        (ClusterId([last; 16]), ([10, 0, 0, last], 80).into())
    }

    /// Ends a group's stream that reported a request at a host.
    fn end(ledger: &mut SessionLedger, stream: usize, group: &str, last: u8) {
        ledger.loads.insert(stream as u64, HashMap::from([(host(last), 1)]));
        ledger.end_load(group, stream as u64, Timestamp::from_unix_millis(1_000_000));
    }

    #[test]
    fn ended_streams_of_many_gateways_in_one_namespace_took_the_places_of_others() {
        let mut ledger = SessionLedger::new();
        for stream in 0..4 {
            end(&mut ledger, stream, "shop/web", 1);
        }
        for stream in 0..ENDED + 50 {
            end(&mut ledger, stream + 4, &format!("greedy/web-{stream}"), 2);
        }
        let counted = [1, 2].map(|last| ledger.streams_of(host(last)));
        assert_eq!(counted, [4, ENDED as u64 - 4]);
    }

    #[test]
    fn each_backend_without_room_went_through_all_accounts() {
        let mut ledger = SessionLedger::with_room(0);
        let now = Timestamp::from_unix_millis(1_000_000);
        let change = BackendReport {
            live_for: 600,
            ..BackendReport::default()
        };
        let mut looks_at = |now| {
            let before = ledger.forgot;
            assert!(!ledger.has_room(&change, &"shop".into(), false, now));
            ledger.forgot != before
        };
        let looks = [now, now.after(FORGETTING / 2), now.after(FORGETTING)].map(&mut looks_at);
        assert_eq!(looks, [true, false, true]);
        // The clock was set back.
        assert!(looks_at(now));
    }

    #[test]
    fn ended_streams_of_one_gateway_took_the_places_of_others() {
        let mut ledger = SessionLedger::new();
        end(&mut ledger, 0, "shop/early", 1);
        for stream in 0..ENDED + 50 {
            end(&mut ledger, stream + 1, "greedy/web", 2);
        }
        end(&mut ledger, 5000, "shop/late", 3);
        assert_eq!(ledger.ended.len(), ENDED);
        let counted = [1, 2, 3].map(|last| ledger.streams_of(host(last)));
        assert_eq!(counted, [1, ENDED as u64 - 2, 1]);
        ledger.forget_loads(Timestamp::from_unix_millis(1_000_000).after(SETTLING));
        assert!(ledger.ended.is_empty() && ledger.loads.is_empty());
    }
}
