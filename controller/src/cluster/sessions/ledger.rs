//! What Envoys told, by backend.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

use limpet_core::census::report::{BackendReport, Report};
use limpet_core::census::{SUB_WINDOWS, Sketch, sub_window};
use limpet_core::time::Timestamp;
use limpet_core::token::Destination;
use limpet_xds::Load;

use super::places::{self, Places};

/// How many sub-windows of a backend may have sessions that live.
const KEPT: u64 = SUB_WINDOWS + 1;
/// How many idle bounds a host may have. An Envoy may say any number.
const IDLE_BOUNDS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By host and idle bound.
    accounts: HashMap<(Destination, SocketAddr), BTreeMap<u32, Account>>,
    /// By stream of load reports.
    loads: HashMap<u64, HashMap<(Destination, SocketAddr), u64>>,
    /// How many sessions did not go on where they were, by reason.
    moves: BTreeMap<String, u64>,
}

/// The sessions of one backend.
#[derive(Debug, Default)]
pub(super) struct Account {
    windows: BTreeMap<u64, Window>,
    last_use: Moment,
    pub(super) requests: u64,
}

#[derive(Debug)]
struct Window {
    sketch: Sketch,
    oldest: u64,
}

/// A time; by default the epoch.
#[derive(Debug, Clone, Copy)]
struct Moment(Timestamp);

impl Default for Moment {
    fn default() -> Self {
        Self(Timestamp::UNIX_EPOCH)
    }
}

impl Ledger {
    pub(super) fn hear(&mut self, group: &str, report: Report, places: &Places, now: Timestamp) {
        for change in report.backends {
            let Some(backend) = change.backend() else { continue };
            // An Envoy knows only of what it was given: nobody tells lies about the pods of others.
            let Some(standing) = places.standing(group, backend) else {
                continue;
            };
            if change.left > 0 {
                self.count_moves(standing.reason(), change.left);
            }
            let accounts = self.accounts.entry((backend.destination, backend.host)).or_default();
            if accounts.len() < IDLE_BOUNDS || accounts.contains_key(&backend.live_for) {
                accounts
                    .entry(backend.live_for)
                    .or_default()
                    .hear(backend.live_for, &change, now);
            }
        }
        for restart in report.restarts {
            if let Some(reason) = places::known_reason(&restart.reason) {
                self.count_moves(reason, restart.sessions);
            }
        }
    }

    pub(super) fn hear_load(&mut self, stream: u64, loads: Vec<Load>) {
        if loads.is_empty() {
            self.loads.remove(&stream);
            return;
        }
        let mut of_stream = HashMap::new();
        for load in loads {
            let destination = Destination::of_cluster(load.cluster.as_bytes());
            *of_stream.entry((destination, load.host)).or_default() += load.in_flight;
        }
        self.loads.insert(stream, of_stream);
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

    /// Requests in flight, by host.
    pub(super) fn streams(&self) -> HashMap<(Destination, SocketAddr), u64> {
        let mut all = HashMap::new();
        for (host, in_flight) in self.loads.values().flatten() {
            *all.entry(*host).or_default() += in_flight;
        }
        all
    }

    pub(super) fn moves(&self) -> &BTreeMap<String, u64> {
        &self.moves
    }

    /// The hosts that have sessions or streams.
    pub(super) fn hosts(&self) -> HashSet<(Destination, SocketAddr)> {
        let lived = self.accounts.keys().copied();
        let busy = self.loads.values().flat_map(HashMap::keys).copied();
        lived.chain(busy).collect()
    }
}

impl Account {
    fn hear(&mut self, live_for: u32, change: &BackendReport, now: Timestamp) {
        // Nobody's clock, or lie, keeps a backend busy for longer than its idle bound.
        let last_use = Timestamp::from_unix_millis(change.last_use).min(now);
        self.last_use.0 = self.last_use.0.max(last_use);
        let newest = sub_window(live_for, now);
        self.requests = self.requests.saturating_add(change.requests);
        for window in &change.windows {
            let is_current = window.number + KEPT > newest && window.number <= newest + 1;
            let Some(sketch) = window.sketch().filter(|_| is_current) else {
                continue;
            };
            let known = self.windows.entry(window.number).or_insert_with(|| Window {
                sketch: Sketch::default(),
                oldest: u64::MAX,
            });
            known.sketch.merge(&sketch);
            known.oldest = known.oldest.min(window.oldest);
        }
        self.windows.retain(|number, _| number + KEPT > newest);
    }

    fn is_alive(&self, live_for: u32, now: Timestamp) -> bool {
        now.since(self.last_use.0).as_secs() <= u64::from(live_for)
    }

    pub(super) fn last_use(&self) -> Timestamp {
        self.last_use.0
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
