//! How many sessions may move, so that later pods get their share. See `design/sessions-counted.md`.
//!
//! A pod with more than its share of a Service's sessions may shed the excess. Envoys shed sessions that were unused
//! for long (the filter's `rebalance`), and send each to a pod that lacks sessions. How many, and where to, is a pure
//! function.
//!
//! Each Gateway balances its own sessions, whatever the Envoys of others report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use limpet_core::census::BUDGET_LIFE;
use limpet_core::census::report::{ShedBudget, ShedHost};
use limpet_core::time::Timestamp;
use limpet_core::token::DestinationId;

use super::ledger::SessionLedger;
use super::places::{BackendPlaces, BackendStanding, ClusterId, HostKey, PublishedService};

/// The part of a Service's sessions that may move in a minute.
const PART: f64 = 0.1;
/// A pod sheds sessions if it has more than this times its share, plus one.
const TOLERANCE: f64 = 1.1;
/// How long after its report an Envoy may use its budget: a budget's life, and the time that an Envoy waits for an
/// answer.
const PATIENCE: Duration = Duration::from_secs(BUDGET_LIFE.as_secs() + 5);
/// The least time between two counts.
const FRESH: Duration = Duration::from_secs(1);
/// The most pods that an answer names, those that lack most first. Later answers name others, so answers stay small.
const TARGETS: usize = 64;
/// Moves before this process started are unknown, and count on the old pod for the idle bound. Budgets wait no longer
/// than this for them.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct RebalanceReport<'a> {
    pub(super) group: &'a str,
    pub(super) reporter: u64,
    /// Sessions by the host that they left.
    pub(super) rebalanced: &'a [(HostKey, u64)],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct BalanceInputs<'a> {
    pub(super) ledger: &'a SessionLedger,
    pub(super) places: &'a BackendPlaces,
    /// Since when sessions are counted.
    pub(super) since: Timestamp,
    /// Reporters of the Gateway, this one included.
    pub(super) reporters: usize,
}

#[derive(Debug)]
pub(super) struct SessionBalancer {
    part: ReplicaShare,
    /// By the group of the Envoys that the sessions use.
    services: HashMap<ClusterId, HashMap<String, ServiceBalance>>,
}

/// How many replicas give budgets to their Envoys, and the rank of this one, from 0.
#[derive(Debug, Clone, Copy)]
struct ReplicaShare {
    replicas: usize,
    rank: usize,
}

#[derive(Debug)]
struct ServiceBalance {
    counted: Timestamp,
    /// Sessions above a pod's share.
    excess: BTreeMap<SocketAddr, u64>,
    /// Sessions below a pod's share, of which this replica may fill its part.
    lack: HostSlots,
    bucket: BudgetBucket,
    /// The reporters that have a part of the bucket, or had one at their report before.
    budgets: BTreeMap<u64, EnvoyBudget>,
}

/// How many sessions may move now: a token bucket. Envoys hold a part of it.
#[derive(Debug)]
struct BudgetBucket {
    level: f64,
    most: f64,
    per_second: f64,
    filled: Timestamp,
}

type HostSlots = BTreeMap<SocketAddr, u64>;

#[derive(Debug, Default)]
struct EnvoyBudget {
    reported_at: Timestamp,
    /// Tokens from the bucket.
    budget: u64,
    slots: HostSlots,
    /// Where the previous budget's sessions could go. They are under way or reported a moment later, maybe to another
    /// replica, and not counted there yet.
    former: HostSlots,
}

impl SessionBalancer {
    pub(super) fn none() -> Self {
        Self {
            part: ReplicaShare { replicas: 1, rank: 0 },
            services: HashMap::new(),
        }
    }

    pub(super) fn forget(&mut self) {
        self.services.values_mut().for_each(HashMap::clear);
    }

    /// `rank`: how many of the replicas come before this one.
    pub(super) fn share(&mut self, replicas: usize, rank: usize) {
        let replicas = replicas.max(1);
        self.part = ReplicaShare { replicas, rank };
    }

    /// Only these Services shed sessions.
    pub(super) fn allow(&mut self, clusters: &HashSet<ClusterId>, places: &BackendPlaces) {
        self.services.retain(|id, _| clusters.contains(id));
        for id in clusters {
            let services = self.services.entry(*id).or_default();
            services.retain(|group, _| places.published_to(group, *id).is_some());
        }
    }

    /// Replaces the Envoy's budget until its next report.
    pub(super) fn answer(
        &mut self,
        told: &RebalanceReport<'_>,
        known: BalanceInputs<'_>,
        now: Timestamp,
    ) -> Vec<ShedBudget> {
        let mut sheds = Vec::new();
        for (id, services) in &mut self.services {
            let Some(served) = known.places.published_to(told.group, *id) else {
                continue;
            };
            // Sessions of the other cluster would end, too.
            if known.places.is_ambiguous(told.group, served.destination) {
                continue;
            }
            let service = services
                .entry(told.group.to_owned())
                .or_insert_with(ServiceBalance::new);
            service.bucket.fill(now);
            for ((_, host), left) in told.rebalanced.iter().filter(|((of, _), _)| of == id) {
                service.record(*host, *left);
            }
            if !service.count((*id, served), told.group, self.part, known, now) {
                service.settle(told.reporter);
            }
            // Endpoints change more often than sessions are counted.
            service.lack.retain(|host, _| is_ready(served, *host));
            service.grant(told.reporter, known.reporters, now);
            sheds.extend(service.shed(served.destination, told.reporter));
        }
        sheds
    }
}

impl ServiceBalance {
    fn new() -> Self {
        Self {
            counted: Timestamp::UNIX_EPOCH,
            excess: BTreeMap::new(),
            lack: HostSlots::new(),
            bucket: BudgetBucket {
                level: 0.0,
                most: 1.0,
                per_second: 0.0,
                filled: Timestamp::UNIX_EPOCH,
            },
            budgets: BTreeMap::new(),
        }
    }

    /// Returns whether a count was due.
    fn count(
        &mut self,
        (id, served): (ClusterId, &PublishedService),
        group: &str,
        part: ReplicaShare,
        known: BalanceInputs<'_>,
        now: Timestamp,
    ) -> bool {
        if now.since(self.counted) < FRESH {
            return false;
        }
        self.counted = now;
        let ready = served.hosts.keys().filter(|host| is_ready(served, **host));
        let mut counts = Vec::new();
        let mut wait = Duration::ZERO;
        for host in ready {
            let (sessions, longest) = known.ledger.staying((id, *host), group, now);
            counts.push((*host, sessions));
            wait = wait.max(longest).min(LONGEST_WAIT);
        }
        let all = sum(counts.iter().map(|(_, sessions)| *sessions));
        self.bucket.resize(all, part.replicas);
        (self.excess, self.lack) = if now.since(known.since) < wait {
            (BTreeMap::new(), HostSlots::new())
        } else {
            (excess(&counts), part.of(&lack(&counts)))
        };
        true
    }

    /// Takes this reporter's former slots off the lack: they are held back no longer, and its report of them is not
    /// counted yet.
    fn settle(&mut self, id: u64) {
        let former = self.budgets.get(&id).into_iter();
        for (host, sessions) in former.flat_map(|reporter| &reporter.former) {
            if let Some(lack) = self.lack.get_mut(host) {
                *lack = lack.saturating_sub(*sessions);
            }
        }
    }

    fn record(&mut self, host: SocketAddr, sessions: u64) {
        self.bucket.withdraw(sessions);
        if let Some(excess) = self.excess.get_mut(&host) {
            *excess = excess.saturating_sub(sessions);
        }
    }

    /// Grants a budget to this reporter, one of `all`, which has returned or used its previous one.
    fn grant(&mut self, id: u64, all: usize, now: Timestamp) {
        self.budgets
            .retain(|_, reporter| now.since(reporter.reported_at) <= PATIENCE);
        let former = self.budgets.remove(&id).unwrap_or_default().slots;
        let room = self.room(&former);
        // All divide the bucket. The remainder goes to reporters without a budget, if there are enough of them.
        let [excess, lack] = [&self.excess, &self.lack].map(|of_pods| sum(of_pods.values().copied()));
        let free = self.bucket.whole().min(excess).min(lack);
        let all = (all as u64).max(1);
        let (part, over) = (free / all, free % all);
        let having = |least: u64| self.budgets.values().filter(|of| of.budget >= least).count() as u64;
        let waiting = all.saturating_sub(having(1) + 1);
        let has_more = having(part + 1) < over && (former.is_empty() || waiting < over);
        let share = part + u64::from(has_more);
        let taken = sum(self.budgets.values().map(|reporter| reporter.budget));
        let slots = divide(share.min(free.saturating_sub(taken)), &room);
        if slots.is_empty() && former.is_empty() {
            return;
        }
        let reporter = EnvoyBudget {
            reported_at: now,
            budget: sum(slots.values().copied()),
            slots,
            former,
        };
        self.budgets.insert(id, reporter);
    }

    /// Room of pods that no reporter may fill yet. Pods that `former` had no slots for come first, so that a pod that
    /// this Envoy cannot reach blocks no other; then those that lack most.
    fn room(&self, former: &HostSlots) -> Vec<(SocketAddr, u64)> {
        let mut room = self.lack.clone();
        let of_others = self.budgets.values();
        let of_others = of_others.flat_map(|reporter| [&reporter.slots, &reporter.former]);
        for (host, sessions) in of_others.chain([former]).flatten() {
            if let Some(left) = room.get_mut(host) {
                *left = left.saturating_sub(*sessions);
            }
        }
        let mut room: Vec<_> = room.into_iter().filter(|(_, left)| *left > 0).collect();
        room.sort_by_key(|(host, left)| (former.contains_key(host), Reverse(*left)));
        room.truncate(TARGETS);
        room
    }

    /// What this reporter may shed; `None`: nothing.
    fn shed(&self, destination: DestinationId, id: u64) -> Option<ShedBudget> {
        let reporter = self.budgets.get(&id).filter(|reporter| reporter.budget > 0)?;
        let at_most = |(host, sessions): (&SocketAddr, &u64)| {
            ShedHost::new(
                *host,
                u32::try_from(*sessions.min(&reporter.budget)).unwrap_or(u32::MAX),
            )
        };
        Some(ShedBudget {
            destination: u32::from_be_bytes(destination.0),
            sessions: u32::try_from(reporter.budget).unwrap_or(u32::MAX),
            hosts: self
                .excess
                .iter()
                .filter(|(_, excess)| **excess > 0)
                .map(at_most)
                .collect(),
            targets: reporter.slots.iter().map(at_most).collect(),
        })
    }
}

impl ReplicaShare {
    /// This replica's part of the lack. Remainders go to a different replica for each pod, so that together they fill
    /// all of it.
    fn of(self, lack: &HostSlots) -> HostSlots {
        let Self { replicas, rank } = self;
        let part = |(place, (host, lack)): (usize, (&SocketAddr, &u64))| {
            let over = (rank + place) % replicas;
            (*host, lack.saturating_add(over as u64) / replicas as u64)
        };
        lack.iter().enumerate().map(part).collect()
    }
}

fn is_ready(served: &PublishedService, host: SocketAddr) -> bool {
    let host = served.hosts.get(&host);
    host.is_some_and(|host| host.standing == BackendStanding::Ready)
}

/// Divides a budget among pods by their room, and within it.
fn divide(budget: u64, room: &[(SocketAddr, u64)]) -> HostSlots {
    let mut all = sum(room.iter().map(|(_, room)| *room));
    let mut rest = budget.min(all);
    let mut slots = HostSlots::new();
    for (host, room) in room {
        // Not above the room, because the budget is at most all of it.
        let part = (u128::from(rest) * u128::from(*room)).div_ceil(u128::from(all.max(1)));
        let part = u64::try_from(part).unwrap_or(rest);
        rest = rest.saturating_sub(part);
        all = all.saturating_sub(*room);
        if part > 0 {
            slots.insert(*host, part);
        }
    }
    slots
}

/// Saturates, whatever Envoys report.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Sessions above the share of pods that may get sessions.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of sessions, of which parts do not count"
)]
fn excess(counts: &[(SocketAddr, u64)]) -> BTreeMap<SocketAddr, u64> {
    if counts.len() < 2 {
        return BTreeMap::new();
    }
    let all = sum(counts.iter().map(|(_, sessions)| *sessions));
    let most = all as f64 / counts.len() as f64 * TOLERANCE + 1.0;
    let over = counts.iter().filter(|(_, sessions)| *sessions as f64 > most);
    over.map(|(host, sessions)| (*host, (*sessions as f64 - most).ceil() as u64))
        .collect()
}

/// Sessions below each pod's share, rounded up. A pod that has its share sheds none.
fn lack(counts: &[(SocketAddr, u64)]) -> HostSlots {
    let all = sum(counts.iter().map(|(_, sessions)| *sessions));
    let share = all.div_ceil((counts.len() as u64).max(1));
    let lack = |(host, sessions): &(SocketAddr, u64)| (*host, share.saturating_sub(*sessions));
    counts.iter().map(lack).collect()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of sessions, of which parts do not count"
)]
impl BudgetBucket {
    /// Divides the budget of so many sessions by the replicas. The bucket's capacity and a minute's inflow are together
    /// less than a session above the limit of any minute; with less than ten sessions, one moves in several minutes.
    fn resize(&mut self, sessions: u64, replicas: usize) {
        let in_a_minute = sessions as f64 * PART / replicas as f64;
        let whole = in_a_minute.floor();
        // Ten of seventy seconds.
        self.most = (whole / 7.0).max(1.0);
        let coming = if whole < 1.0 {
            in_a_minute
        } else {
            whole + 0.9 - self.most
        };
        self.per_second = coming / 60.0;
        self.level = self.level.min(self.most);
    }

    fn fill(&mut self, now: Timestamp) {
        let passed = now.since(self.filled);
        self.filled = self.filled.max(now);
        self.level = (self.level + passed.as_secs_f64() * self.per_second).min(self.most);
    }

    /// Goes below zero if an Envoy claims more: the next Envoy waits for it, a minute at most.
    fn withdraw(&mut self, sessions: u64) {
        self.level = (self.level - sessions as f64).max(-60.0 * self.per_second);
    }

    fn whole(&self) -> u64 {
        self.level.max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 80).into()
    }

    /// A Service of which a pod has 100 sessions too many. `lack`: the pods that have too few.
    fn uneven(lack: &[(SocketAddr, u64)], level: f64) -> ServiceBalance {
        let mut service = ServiceBalance::new();
        service.excess = [(host(1), 100)].into();
        service.lack = lack.iter().copied().collect();
        service.bucket.level = level;
        service
    }

    fn over(counts: &[u64]) -> Vec<u64> {
        let counts: Vec<_> = (1..).map(host).zip(counts.iter().copied()).collect();
        let excess = excess(&counts);
        let of = |(host, _): &(SocketAddr, u64)| excess.get(host).copied().unwrap_or_default();
        counts.iter().map(of).collect()
    }

    #[test]
    fn who_has_a_tenth_more_than_its_share_and_one_sheds_the_rest() {
        assert_eq!(over(&[100, 0, 0, 0]), [100 - 28, 0, 0, 0]);
        assert_eq!(over(&[667, 667, 666, 0, 0]), [226, 226, 225, 0, 0]);
        assert_eq!(over(&[440, 390, 390, 390, 390]), [0, 0, 0, 0, 0]);
        assert_eq!(over(&[2, 0]), [0, 0]);
        assert_eq!(over(&[100]), [0]);
        assert_eq!(over(&[]), [0; 0]);
    }

    #[test]
    fn what_is_less_than_a_share_is_lacking() {
        let lacking = |counts: &[u64]| -> Vec<u64> {
            let counts: Vec<_> = (1..).map(host).zip(counts.iter().copied()).collect();
            lack(&counts).into_values().collect()
        };
        assert_eq!(lacking(&[667, 667, 666, 0, 0]), [0, 0, 0, 400, 400]);
        // A single session more than all shares has a place.
        assert_eq!(lacking(&[3, 0, 0, 0]), [0, 1, 1, 1]);
        assert_eq!(lacking(&[440, 390, 390, 390, 390]), [0, 10, 10, 10, 10]);
        assert_eq!(lacking(&[u64::MAX, u64::MAX]), [0, 0]);
        assert_eq!(lacking(&[]), [0; 0]);
    }

    #[test]
    fn replicas_together_fill_up_what_pods_lack() {
        let lack: HostSlots = (1..).map(host).zip([0, 1, 1, 1, 7, 400]).collect();
        for replicas in 1..=5 {
            let mut all: HostSlots = lack.keys().map(|host| (*host, 0)).collect();
            for rank in 0..replicas {
                let part = ReplicaShare { replicas, rank }.of(&lack);
                for (host, sum) in &mut all {
                    *sum += part[host];
                }
            }
            assert_eq!(all, lack, "{replicas}");
        }
    }

    /// Envoys report in turn, and move some, all or none of their budget. Moves are counted an interval later, at the
    /// earliest.
    #[test]
    fn no_pod_gets_more_than_it_lacks() {
        for seed in 0..200_u64 {
            let dice = |salt: u64, below: u64| {
                let mixed = seed.wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed >> 40) % below
            };
            let pods = u8::try_from(1 + dice(1, 100)).unwrap();
            let mut service = ServiceBalance::new();
            service.excess = [(host(200), 10_000)].into();
            service.bucket.resize(10_000, 1);
            let lack: HostSlots = (1..=pods).map(|pod| (host(pod), dice(u64::from(pod), 9))).collect();
            let mut moved: HostSlots = lack.keys().map(|host| (*host, 0)).collect();
            let mut late = moved.clone();
            for at in 0..60 {
                service.bucket.level = 20.0;
                // The moves of an interval before are counted.
                service.lack = lack.iter().map(|(host, lack)| (*host, lack - late[host])).collect();
                late.clone_from(&moved);
                for reporter in 0..3 {
                    service.grant(reporter, 3, Timestamp::from_unix_seconds(1_800_000_000 + 2 * at));
                    let Some(EnvoyBudget { budget, slots, .. }) = service.budgets.get(&reporter) else {
                        continue;
                    };
                    assert_eq!(*budget, slots.values().sum::<u64>());
                    assert!(slots.len() <= TARGETS);
                    for (host, slots) in slots {
                        *moved.get_mut(host).unwrap() += slots.min(&dice(at * 3 + reporter, 4));
                    }
                }
                let over = moved.iter().find(|(host, moved)| *moved > &lack[host]);
                assert_eq!(over, None, "{seed}: {lack:?}");
            }
            assert_eq!(moved, lack, "{seed}: some are never filled up");
        }
    }

    #[test]
    fn no_pod_is_filled_up_twice_between_two_counts() {
        let mut service = uneven(&[(host(9), 5)], 2.0);
        let round = |_| {
            service.settle(1);
            service.grant(1, 1, Timestamp::from_unix_seconds(1_800_000_000));
            service.budgets.get(&1).map_or(0, |reporter| reporter.budget)
        };
        assert_eq!((0..9).map(round).sum::<u64>(), 5);
    }

    #[test]
    fn a_pod_that_takes_nothing_blocks_no_other() {
        let mut service = uneven(&[(host(8), 90), (host(9), 5)], 1.0);
        let round = |at| {
            service.grant(1, 1, Timestamp::from_unix_seconds(1_800_000_000 + 2 * at));
            service.budgets[&1].slots.keys().copied().collect::<Vec<_>>()
        };
        let named: Vec<_> = (0..4_u64).map(round).collect();
        assert_eq!(named, [8, 9, 8, 9].map(|pod| vec![host(pod)]));
    }

    /// An Envoy that always asks gets a tenth in each minute, and no more.
    #[test]
    fn no_minute_has_more_than_a_tenth() {
        for (sessions, most) in [
            (3, 1),
            (10, 1),
            (15, 1),
            (20, 2),
            (60, 6),
            (99, 9),
            (700, 70),
            (2000, 200),
        ] {
            let mut bucket = ServiceBalance::new().bucket;
            bucket.resize(sessions, 1);
            let mut taken = Vec::new();
            for tenth in 0..6000_u64 {
                bucket.fill(Timestamp::from_unix_millis(1_800_000_000_000 + tenth * 100));
                // After a while without requests.
                let waits = (2000..2300).contains(&tenth);
                for _ in 0..if waits { 0 } else { bucket.whole() } {
                    bucket.withdraw(1);
                    taken.push(tenth);
                }
            }
            let in_minute = |start: &u64| taken.iter().filter(|at| (*start..start + 600).contains(*at)).count();
            let busiest = taken.iter().map(in_minute).max().unwrap();
            assert_eq!(busiest, most, "{sessions} sessions");
            // In nine and a half minutes.
            let thousandths = taken.len() as u64 * 2000 / sessions / 19;
            assert!((50..110).contains(&thousandths), "{sessions} sessions: {thousandths}");
        }
    }

    #[test]
    fn a_bucket_is_divided_by_all_who_report() {
        let now = |seconds: u64| Timestamp::from_unix_seconds(1_800_000_000 + seconds);
        let mut service = uneven(&[(host(9), 100)], 10.0);
        service.bucket.resize(700, 1);
        service.bucket.level = 10.0;
        let grant = |service: &mut ServiceBalance, id, all, at| {
            service.grant(id, all, now(at));
            service.budgets.get(&id).map_or(0, |reporter| reporter.budget)
        };
        let round = |service: &mut ServiceBalance, at| [1, 2, 3].map(|reporter| grant(service, reporter, 3, at));
        assert_eq!(round(&mut service, 1).iter().sum::<u64>(), 10);
        assert!(round(&mut service, 2).iter().all(|budget| *budget >= 3));
        // One of them is silent. Nothing else gets its part until it cannot use it any more.
        assert!(grant(&mut service, 1, 3, 10) <= 4);
        grant(&mut service, 1, 2, 30);
        grant(&mut service, 2, 2, 30);
        assert_eq!(grant(&mut service, 1, 2, 31), 5);
        // A single one goes round.
        service.bucket.level = 1.0;
        let mut lucky = [0; 3];
        for at in 40..70 {
            for (reporter, budget) in std::iter::zip(&mut lucky, round(&mut service, at)) {
                *reporter += budget;
            }
            let held: u64 = service.budgets.values().map(|reporter| reporter.budget).sum();
            assert!(held <= 1, "{held}");
        }
        assert!(lucky.iter().all(|times| *times >= 5), "{lucky:?}");
        // Without excess, no Envoy gets a budget.
        service.bucket.level = 10.0;
        service.excess = [(host(1), 0), (host(2), 2)].into();
        assert!(round(&mut service, 71).iter().sum::<u64>() <= 2);
    }

    #[test]
    fn invented_reporters_were_kept_for_each_service() {
        let mut service = uneven(&[(host(9), 100)], 10.0);
        for reporter in 0..4096 {
            service.grant(reporter, 4096, Timestamp::from_unix_seconds(1_800_000_000));
        }
        assert_eq!(service.budgets.len(), 10);
    }

    #[test]
    fn who_takes_more_than_it_got_makes_all_wait_for_a_minute() {
        let mut bucket = ServiceBalance::new().bucket;
        bucket.resize(600, 1);
        let start = Timestamp::from_unix_seconds(1_800_000_000);
        bucket.fill(start);
        bucket.withdraw(u64::MAX);
        bucket.fill(start.after(Duration::from_secs(50)));
        assert_eq!(bucket.whole(), 0);
        bucket.fill(start.after(Duration::from_secs(65)));
        assert!(bucket.whole() > 0);
    }
}
