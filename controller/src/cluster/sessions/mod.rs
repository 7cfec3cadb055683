//! Where sessions live: the registry of reports on sessions and streams. See `design/sessions-counted.md`.
//!
//! - `claims`: limits of what a report may claim.
//! - `ledger`: reports by backend, with an `account` for each. `places`: which pods the backends are.
//! - `attendance`: which Envoys report. `strays`: backends that are not known yet. `gaps`: both in words.
//! - `replica`: the messages between replicas, with their seals. `peers`: reads them.
//! - `clock`: notices that the clock was set.
//! - `pods`: the sum, for people, metrics and other replicas.
//! - `balance`: how many sessions may move to new pods. `simulation`: its effect over hours.

mod account;
mod attendance;
mod balance;
mod claims;
mod clock;
mod gaps;
mod ledger;
mod peers;
mod places;
mod pods;
mod replica;
#[cfg(test)]
mod simulation;
mod strays;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use limpet_api::ObjectName;
use limpet_core::census::report::{Report, ReportResponse, ShedBudget};
use limpet_core::time::Timestamp;
use limpet_model::endpoints::Endpoint;
use limpet_model::graph::ClusterName;
use limpet_xds::{AckStatus, NodeReport};
use sha2::{Digest as _, Sha256};

use crate::time_format::now;
use attendance::ReporterAttendance;
use balance::SessionBalancer;
use clock::Clock;
#[cfg(test)]
pub(crate) use gaps::CountGaps;
use ledger::SessionLedger;
pub(crate) use peers::follow;
pub(crate) use places::PublishedCluster;
use places::{BackendPlaces, ClusterId};
pub(crate) use pods::{OwnSessions, PodSessions, PodState, SessionCounts};
pub(crate) use replica::{AnswerSealing, ChangesAfter, ReplicaKnowledge};

/// A shared handle of what is known of sessions.
#[derive(Debug, Clone)]
pub(crate) struct SessionRegistry {
    content: Arc<Mutex<RegistryState>>,
    /// The last counts, and their time.
    recent: Arc<Mutex<Option<RecentReports>>>,
}

type RecentReports = (Instant, Arc<SessionCounts>);

/// How long a result may be shown, because it is expensive.
const RECENT: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct RegistryState {
    /// The id of this memory. Changes after a restart and after the clock was set, so that Envoys report everything
    /// again.
    memory: u64,
    process: u64,
    /// How often everything was forgotten.
    forgot: u64,
    clock: Clock,
    sealing: Option<AnswerSealing>,
    /// When the first replica published. Before, no report is accepted.
    since: Option<Timestamp>,
    envoys: Option<AckStatus>,
    attendance: ReporterAttendance,
    ledger: SessionLedger,
    places: BackendPlaces,
    balance: SessionBalancer,
}

impl SessionRegistry {
    pub(crate) fn new() -> Self {
        Self {
            content: Arc::new(Mutex::new(RegistryState::new())),
            recent: Arc::default(),
        }
    }

    fn content_now(&self) -> (MutexGuard<'_, RegistryState>, Timestamp) {
        let (mut content, now) = (self.content(), now());
        content.observe_clock(now, Instant::now());
        (content, now)
    }

    fn content(&self) -> MutexGuard<'_, RegistryState> {
        // A panic leaves no half change that matters.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an Envoy's report. Returns the id of the memory, and which sessions may move.
    ///
    /// # Errors
    /// If nothing is published for the group yet. Envoys report it again.
    pub(crate) fn receive(&self, group: &str, told: NodeReport) -> Result<ReportResponse, String> {
        let (mut content, now) = self.content_now();
        let content = &mut *content;
        let sheds = match told {
            NodeReport::Load(stream, loads) => {
                content.ledger.receive_load(group, stream, loads, &content.places, now);
                Vec::new()
            }
            NodeReport::LoadEnds(stream) => {
                content.ledger.end_load(group, stream, now);
                Vec::new()
            }
            NodeReport::Sessions(_) if !content.places.knows(group) => {
                return Err("nothing is published for this group yet".to_owned());
            }
            NodeReport::Sessions(mut report) => {
                claims::bound_others(&mut report, || content.places.longest_of(group));
                if content.attendance.receive(group, &report, now) {
                    report.without_counts();
                }
                content.attendance.strays.record(group, &report, &content.places, now);
                content.receive_report(group, report, now)
            }
        };
        Ok(ReportResponse {
            memory: content.memory.wrapping_add(content.attendance.resync_requests(group)),
            sheds,
            process: content.process,
        })
    }

    /// Sets the clusters whose sessions may move to another pod.
    pub(crate) fn rebalance<'a>(&self, clusters: impl Iterator<Item = &'a ClusterName>) {
        let content = &mut *self.content();
        content
            .balance
            .allow(&clusters.map(ClusterId::of).collect(), &content.places);
    }

    /// Sets how many replicas divide the budgets, and the processes of the known ones.
    pub(crate) fn share(&self, replicas: usize, processes: impl Iterator<Item = u64>) {
        let content = &mut *self.content();
        let before = processes.filter(|process| *process < content.process);
        content.balance.share(replicas, before.count());
    }

    pub(crate) fn follow_envoys(&self, envoys: AckStatus) {
        self.content().envoys = Some(envoys);
    }

    /// Sets the other replicas that should answer; `None`: unknown.
    pub(crate) fn expect<'a>(&self, replicas: Option<impl Iterator<Item = &'a String>>) {
        self.content().attendance.expect(replicas, now());
    }

    pub(crate) fn record_missing_replica(&self, name: &str, why: &str) {
        self.content().attendance.answered(name, Err(why.to_owned()));
    }

    pub(crate) fn seal_by(&self, sealing: AnswerSealing) {
        self.content().sealing = Some(sealing);
    }

    /// The answer to another replica; `None` without a seal.
    pub(crate) fn answer(&self, query: &str) -> Option<Vec<u8>> {
        let (after, question) = ChangesAfter::of_query(query);
        let told = self.replica(after);
        let sealing = self.content().sealing.clone()?;
        sealing.seal(question, &told)
    }

    fn replica(&self, after: ChangesAfter) -> ReplicaKnowledge {
        let content = self.with_envoys();
        let after = if after.process == content.process {
            after.changes
        } else {
            0
        };
        ReplicaKnowledge {
            process: content.process,
            memory: content.memory,
            since: content.since.map_or(0, Timestamp::unix_millis),
            envoys: content.attendance.to_report(now()),
            ..content.ledger.after(after)
        }
    }

    /// Returns whether that was all.
    ///
    /// # Errors
    /// If no replica can know it.
    pub(crate) fn receive_replica(&self, name: &str, told: ReplicaKnowledge) -> Result<bool, String> {
        let (mut content, now) = self.content_now();
        let content = &mut *content;
        told.check(now)?;
        // All replicas that know the same are one memory.
        content.memory = content.memory.min(told.memory);
        // 0: not published yet.
        let since = (told.since > 0).then(|| Timestamp::from_unix_millis(told.since));
        content.since = [content.since, since].into_iter().flatten().min();
        content.attendance.receive_replica(name, told.envoys);
        content.attendance.answered(name, Ok(()));
        let told = ReplicaKnowledge {
            envoys: Vec::new(),
            ..told
        };
        Ok(content.ledger.receive_replica(name, told, &content.places, now))
    }

    /// Changes when other replicas have to send everything again: this one has forgotten it, or knows new hosts.
    pub(crate) fn replica_wants(&self) -> ReplicaWants {
        let content = self.content();
        ReplicaWants {
            everything: content.forgot,
            unknown: content.places.additions(),
        }
    }

    /// Forgets the load reports of replicas that are gone: their Envoys report to others.
    pub(crate) fn forget_loads_of_others(&self, is_there: impl Fn(&str) -> bool) {
        self.content().ledger.forget_loads_of_others(is_there);
    }

    /// Applies changes of published clusters with their endpoints, in one step: reports on unknown endpoints are not
    /// taken.
    pub(crate) fn publish<'a>(
        &self,
        changed: impl Iterator<Item = PublishedCluster<'a>>,
        endpoints: impl Iterator<Item = (&'a ClusterName, &'a [Endpoint])>,
    ) {
        let (mut content, now) = self.content_now();
        let content = &mut *content;
        content.since.get_or_insert(now);
        content.attendance.publish(now);
        content.places.publish(changed, now);
        for (cluster, endpoints) in endpoints {
            content.places.observe(cluster, endpoints, now);
        }
        content.attendance.strays.request_resync(&content.places, now);
    }

    pub(crate) fn observe(&self, cluster: &ClusterName, endpoints: &[Endpoint]) {
        let (mut content, now) = self.content_now();
        let content = &mut *content;
        content.places.observe(cluster, endpoints, now);
        content.attendance.strays.request_resync(&content.places, now);
    }

    pub(crate) fn forget(&self) {
        let (mut content, now) = self.content_now();
        content.forget(now);
        drop(content);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.take_if(|(at, _)| at.elapsed() >= RECENT);
    }

    pub(crate) fn services(&self) -> BTreeSet<ObjectName> {
        self.content().places.services()
    }

    pub(crate) fn sessions(&self) -> SessionCounts {
        let mut content = self.with_envoys();
        let now = now();
        content.forget(now);
        pods::sessions(&content, now)
    }

    /// Sessions of the pod at an address. `namespace`: the pod's, if known.
    pub(crate) fn at(&self, address: IpAddr, namespace: Option<&str>) -> OwnSessions {
        pods::own(&self.with_envoys(), address, namespace, now())
    }

    /// The content, with the Envoys that are connected now.
    fn with_envoys(&self) -> MutexGuard<'_, RegistryState> {
        let envoys = self.content().envoys.clone();
        // Outside our lock: a holder of the locks of xDS may wait for it.
        let connected = envoys.as_ref().map(connected);
        let (mut content, now) = self.content_now();
        if let Some(connected) = connected {
            content.attendance.connect(connected);
        }
        content.ledger.forget_loads(now);
        content
    }

    /// The sessions as of the last second, counted once for all callers.
    pub(crate) fn recent(&self) -> Arc<SessionCounts> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, sessions)) = &*recent
            && at.elapsed() < RECENT
        {
            return Arc::clone(sessions);
        }
        let sessions = Arc::new(self.sessions());
        *recent = Some((Instant::now(), Arc::clone(&sessions)));
        sessions
    }
}

fn connected(envoys: &AckStatus) -> BTreeMap<String, BTreeSet<u64>> {
    let groups = envoys.groups().into_iter().filter(|(_, connected)| *connected > 0);
    let nodes = groups.map(|(group, _)| {
        let nodes = envoys.nodes(&group).into_iter().map(|node| hash(&node.id));
        (group.to_string(), nodes.collect())
    });
    nodes.collect()
}

/// The same at all replicas.
fn hash(id: &str) -> u64 {
    let digest = Sha256::digest(id);
    digest
        .iter()
        .take(8)
        .fold(0, |hash, byte| (hash << 8) | u64::from(*byte))
}

impl RegistryState {
    fn new() -> Self {
        let process = getrandom::u64()
            .unwrap_or_else(|_| u64::from(std::process::id()))
            // Far above those that no memory has.
            | 1 << 63;
        Self {
            memory: process,
            process,
            forgot: 0,
            clock: Clock::new(now(), Instant::now()),
            sealing: None,
            ledger: SessionLedger::new(),
            since: None,
            envoys: None,
            attendance: ReporterAttendance::default(),
            places: BackendPlaces::default(),
            balance: SessionBalancer::none(),
        }
    }

    /// After the clock was set, everything must be reported again: a wrong clock has forgotten some and misplaced the
    /// rest.
    fn observe_clock(&mut self, now: Timestamp, steady: Instant) {
        if !self.clock.observe(now, steady) {
            return;
        }
        tracing::warn!("the clock was set: all Envoys tell their sessions again");
        self.memory = another_memory(self.memory);
        self.forgot += 1;
        self.since = self.since.map(|_| now);
        self.attendance.set_clock(now);
        self.ledger.set_clock(now);
        self.places.set_clock(now);
        self.balance.forget();
    }

    fn forget(&mut self, now: Timestamp) {
        if self.clock.is_settled() {
            self.ledger.forget(now);
            self.places.forget(&self.ledger.hosts(), now);
            self.attendance.forget(&self.places, now);
        }
    }

    fn receive_report(&mut self, group: &str, mut report: Report, now: Timestamp) -> Vec<ShedBudget> {
        claims::bound(&mut report);
        let reporter = report.reporter;
        let rebalanced = self.ledger.receive(group, report, &self.places, now);
        let told = balance::RebalanceReport {
            group,
            reporter,
            rebalanced: &rebalanced,
        };
        let known = balance::BalanceInputs {
            ledger: &self.ledger,
            places: &self.places,
            since: self.since.unwrap_or(now),
            reporters: self.attendance.reporters_of(group, now),
        };
        self.balance.answer(&told, known, now)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaWants {
    /// Another number: everything.
    everything: u64,
    /// Another number: what was unknown here.
    unknown: u64,
}

/// A lower number, so that all replicas take it over. There are more of them than clocks are set.
fn another_memory(memory: u64) -> u64 {
    let step = (memory >> 10).max(1);
    let random = getrandom::u64().unwrap_or_default() % step;
    memory.saturating_sub(random + 1).max(1)
}
