//! What Envoys told, by backend.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use limpet_core::census::report::{BackendReport, RebalancedReport, Report, Restart, WindowReport};
use limpet_core::census::{Backend, SUB_WINDOWS, Sketch, is_alive, sub_window};
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::Destination;
use limpet_xds::Load;

use super::places::{self, Places};
use super::replica::{HostLoad, Replica};

/// How many idle bounds a host may have. An Envoy may say any number.
const IDLE_BOUNDS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By host and idle bound.
    accounts: HashMap<(Destination, SocketAddr), BTreeMap<u32, Account>>,
    /// By stream of load reports.
    loads: HashMap<u64, HashMap<(Destination, SocketAddr), u64>>,
    /// The same of other replicas, by their names.
    loads_of_others: HashMap<String, HashMap<(Destination, SocketAddr), u64>>,
    /// How many sessions did not go on where they were, by reason.
    moves: BTreeMap<String, u64>,
    /// The same of other replicas, by their names. Those that are gone stay: a counter does not go down.
    moves_of_others: BTreeMap<String, BTreeMap<String, u64>>,
    /// How often anything of an account has changed.
    changes: u64,
}

/// The sessions of one backend.
#[derive(Debug, Default)]
pub(super) struct Account {
    windows: BTreeMap<u64, Window>,
    last_use: Timestamp,
    /// Told by Envoys.
    requests: u64,
    /// Told by Envoys to other replicas, by their names.
    requests_of_others: BTreeMap<String, u64>,
    /// How many sessions began anew elsewhere, by the sub-window that they were last seen in. So long the sketches have
    /// them. Told by Envoys.
    rebalanced: BTreeMap<u64, u64>,
    /// The same, told by Envoys to other replicas, by their names.
    rebalanced_of_others: BTreeMap<String, BTreeMap<u64, u64>>,
    /// The number of the last change.
    changed: u64,
}

#[derive(Debug)]
struct Window {
    sketch: Sketch,
    oldest: u64,
}

impl Ledger {
    /// Returns how many sessions began anew, by the host that they left.
    pub(super) fn hear(
        &mut self,
        group: &str,
        report: Report,
        places: &Places,
        now: Timestamp,
    ) -> Vec<((Destination, SocketAddr), u64)> {
        let mut rebalanced = Vec::new();
        for change in report.backends {
            let Some(backend) = change.backend() else { continue };
            // An Envoy knows only of what it was given: nobody tells lies about the pods of others.
            let Some(standing) = places.standing(group, backend) else {
                continue;
            };
            if change.left > 0 {
                self.count_moves(standing.reason(), change.left);
            }
            let host = (backend.destination, backend.host);
            let left = change.rebalanced.iter().map(|window| window.sessions);
            let left = left.fold(0, u64::saturating_add);
            if left > 0 {
                self.count_moves(RequestOutcome::Rebalanced.word(), left);
                rebalanced.push((host, left));
            }
            let accounts = self.accounts.entry(host).or_default();
            if accounts.len() < IDLE_BOUNDS || accounts.contains_key(&backend.live_for) {
                let account = accounts.entry(backend.live_for).or_default();
                account.requests = account.requests.saturating_add(change.requests);
                account.merge(backend.live_for, &change, now);
                account.note_rebalanced(backend.live_for, &change.rebalanced, now);
                self.changes += 1;
                account.changed = self.changes;
            }
        }
        for restart in report.restarts {
            if let Some(reason) = places::known_reason(&restart.reason) {
                self.count_moves(reason, restart.sessions);
            }
        }
        rebalanced
    }

    pub(super) fn hear_load(&mut self, group: &str, stream: u64, loads: Vec<Load>, places: &Places) {
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
            // As of sessions: no lies about the pods of others.
            if places.standing(group, backend).is_some() {
                let sum = of_stream.entry((backend.destination, backend.host)).or_insert(0_u64);
                *sum = sum.saturating_add(load.in_flight);
            }
        }
        self.loads.insert(stream, of_stream);
    }

    /// What is known of backends that have changed after so many changes, and all else.
    pub(super) fn after(&self, changes: u64) -> Replica {
        let mut backends = Vec::new();
        for ((destination, host), accounts) in &self.accounts {
            for (live_for, account) in accounts.iter().filter(|(_, account)| account.changed > changes) {
                backends.push(account.told(Backend {
                    destination: *destination,
                    host: *host,
                    live_for: *live_for,
                }));
            }
        }
        let moves = self.moves.iter().map(|(reason, sessions)| Restart {
            reason: reason.clone(),
            sessions: *sessions,
        });
        let loads = streams(self.loads.values()).into_iter();
        let loads = loads.map(|((destination, host), in_flight)| HostLoad {
            host: Some(BackendReport::of(Backend {
                destination,
                host,
                live_for: 0,
            })),
            in_flight,
        });
        Replica {
            changes: self.changes,
            backends,
            moves: moves.collect(),
            loads: loads.collect(),
            ..Replica::default()
        }
    }

    pub(super) fn hear_replica(&mut self, name: &str, told: Replica, now: Timestamp) {
        for change in told.backends {
            let Some(backend) = change.backend() else { continue };
            let accounts = self.accounts.entry((backend.destination, backend.host)).or_default();
            let account = accounts.entry(backend.live_for).or_default();
            account.requests_of_others.insert(name.to_owned(), change.requests);
            let rebalanced = change.rebalanced.iter().map(|window| (window.number, window.sessions));
            account
                .rebalanced_of_others
                .insert(name.to_owned(), rebalanced.collect());
            // What changes nothing is not told on, or replicas would tell each other for ever.
            if account.merge(backend.live_for, &change, now) {
                self.changes += 1;
                account.changed = self.changes;
            }
        }
        let moves = told.moves.into_iter().map(|restart| (restart.reason, restart.sessions));
        self.moves_of_others.insert(name.to_owned(), moves.collect());
        let loads = told.loads.into_iter().filter_map(|load| {
            let host = load.host?.backend()?;
            Some(((host.destination, host.host), load.in_flight))
        });
        self.loads_of_others.insert(name.to_owned(), loads.collect());
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

    /// Forgets backends whose last session is over.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.accounts.retain(|_, accounts| {
            accounts.retain(|live_for, account| account.is_alive(*live_for, now));
            !accounts.is_empty()
        });
    }

    /// The accounts of a host, by idle bound.
    pub(super) fn accounts(&self, host: (Destination, SocketAddr)) -> impl Iterator<Item = (u32, &Account)> {
        let accounts = self.accounts.get(&host).into_iter().flatten();
        accounts.map(|(live_for, account)| (*live_for, account))
    }

    /// The sessions of a host without those that began anew elsewhere, and the longest of their idle bounds.
    pub(super) fn staying(&self, host: (Destination, SocketAddr), now: Timestamp) -> (u64, Duration) {
        self.accounts(host)
            .fold((0, Duration::ZERO), |(sessions, longest), (live_for, account)| {
                let idle_bound = Duration::from_secs(u64::from(live_for));
                (sessions + account.staying(live_for, now), longest.max(idle_bound))
            })
    }

    /// Requests in flight, by host.
    pub(super) fn streams(&self) -> HashMap<(Destination, SocketAddr), u64> {
        streams(self.loads.values().chain(self.loads_of_others.values()))
    }

    /// Requests in flight to a host.
    pub(super) fn streams_of(&self, host: (Destination, SocketAddr)) -> u64 {
        let loads = self.loads.values().chain(self.loads_of_others.values());
        let loads = loads.filter_map(|loads| loads.get(&host));
        loads.fold(0, |sum, in_flight| sum.saturating_add(*in_flight))
    }

    /// How many sessions did not go on where they were, by reason.
    pub(super) fn moves(&self) -> BTreeMap<String, u64> {
        let mut all = self.moves.clone();
        for (reason, sessions) in self.moves_of_others.values().flatten() {
            let sum = all.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*sessions);
        }
        all
    }

    /// The hosts that have sessions or streams.
    pub(super) fn hosts(&self) -> HashSet<(Destination, SocketAddr)> {
        let lived = self.accounts.keys().copied();
        let loads = self.loads.values().chain(self.loads_of_others.values());
        let busy = loads.flat_map(HashMap::keys).copied();
        lived.chain(busy).collect()
    }
}

/// Whether a sub-window may have sessions that live, if this is the newest one. Clocks differ by little.
fn is_current(number: u64, newest: u64) -> bool {
    number + SUB_WINDOWS >= newest && number <= newest + 1
}

fn streams<'a>(
    loads: impl Iterator<Item = &'a HashMap<(Destination, SocketAddr), u64>>,
) -> HashMap<(Destination, SocketAddr), u64> {
    let mut all = HashMap::new();
    for (host, in_flight) in loads.flatten() {
        let sum = all.entry(*host).or_insert(0_u64);
        *sum = sum.saturating_add(*in_flight);
    }
    all
}

impl Account {
    /// Takes in who was seen. Returns whether anything is new.
    fn merge(&mut self, live_for: u32, change: &BackendReport, now: Timestamp) -> bool {
        // Nobody's clock, or lie, keeps a backend busy for longer than its idle bound.
        let last_use = Timestamp::from_unix_millis(change.last_use).min(now);
        let mut is_new = last_use > self.last_use;
        self.last_use = self.last_use.max(last_use);
        let newest = sub_window(live_for, now);
        for window in &change.windows {
            let Some(sketch) = window.sketch().filter(|_| is_current(window.number, newest)) else {
                continue;
            };
            let known = self.windows.entry(window.number).or_insert_with(|| Window {
                sketch: Sketch::default(),
                oldest: u64::MAX,
            });
            let before = (known.sketch.estimate(), known.oldest);
            known.sketch.merge(&sketch);
            known.sketch.recount();
            known.oldest = known.oldest.min(window.oldest);
            is_new |= before != (known.sketch.estimate(), known.oldest);
        }
        self.windows.retain(|number, _| number + SUB_WINDOWS >= newest);
        self.rebalanced.retain(|number, _| number + SUB_WINDOWS >= newest);
        self.rebalanced_of_others.retain(|_, windows| {
            windows.retain(|number, _| number + SUB_WINDOWS >= newest);
            !windows.is_empty()
        });
        is_new
    }

    /// Sessions have begun anew elsewhere.
    fn note_rebalanced(&mut self, live_for: u32, windows: &[RebalancedReport], now: Timestamp) {
        let newest = sub_window(live_for, now);
        for window in windows.iter().filter(|window| is_current(window.number, newest)) {
            let left = self.rebalanced.entry(window.number).or_default();
            *left = left.saturating_add(window.sessions);
        }
    }

    /// All of it, for another replica.
    fn told(&self, backend: Backend) -> BackendReport {
        let windows = self.windows.iter();
        let windows = windows.map(|(number, window)| WindowReport::new(*number, window.oldest, &window.sketch));
        let rebalanced = self.rebalanced.iter();
        let rebalanced = rebalanced.map(|(number, sessions)| RebalancedReport {
            number: *number,
            sessions: *sessions,
        });
        BackendReport {
            last_use: self.last_use.unix_millis(),
            requests: self.requests,
            windows: windows.collect(),
            rebalanced: rebalanced.collect(),
            ..BackendReport::of(backend)
        }
    }

    /// Requests that Envoys told any replica.
    pub(super) fn requests(&self) -> u64 {
        let others = self.requests_of_others.values();
        others.fold(self.requests, |sum, requests| sum.saturating_add(*requests))
    }

    fn is_alive(&self, live_for: u32, now: Timestamp) -> bool {
        is_alive(live_for, self.last_use, now)
    }

    /// The sessions that live here, without those that began anew elsewhere.
    fn staying(&self, live_for: u32, now: Timestamp) -> u64 {
        let living = self.living(live_for, now).0.estimate() as u64;
        let since = sub_window(live_for, now).saturating_sub(SUB_WINDOWS);
        let all = std::iter::once(&self.rebalanced).chain(self.rebalanced_of_others.values());
        let left = all.flat_map(|windows| windows.range(since..)).map(|(_, left)| *left);
        living.saturating_sub(left.fold(0, u64::saturating_add))
    }

    pub(super) fn last_use(&self) -> Timestamp {
        self.last_use
    }

    /// The sessions that live, and when the oldest of them began.
    pub(super) fn living(&self, live_for: u32, now: Timestamp) -> (Sketch, Option<Timestamp>) {
        let mut all = Sketch::default();
        let mut oldest = None::<u64>;
        if self.is_alive(live_for, now) {
            let newest = sub_window(live_for, now);
            for window in self
                .windows
                .range(newest.saturating_sub(SUB_WINDOWS)..)
                .map(|(_, window)| window)
            {
                all.merge(&window.sketch);
                oldest = Some(oldest.map_or(window.oldest, |oldest| oldest.min(window.oldest)));
            }
        }
        (all, oldest.map(Timestamp::from_unix_millis))
    }
}
