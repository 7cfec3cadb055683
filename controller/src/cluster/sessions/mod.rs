//! Who lives where: what Envoys tell of sessions and streams, put together.
//!
//! - `claims`: how much of what is told is believed.
//! - `ledger`: what was told, by backend. `places`: which pods the backends are.
//! - `replica`: what replicas tell each other. `peers`: asks them.
//! - `pods`: all together, for people, metrics and other replicas.
//! - `balance`: how many sessions may begin anew, so that new pods get their share. `simulation`: what becomes of it.

mod balance;
mod claims;
mod ledger;
mod peers;
mod places;
mod pods;
mod replica;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use limpet_api::ObjectName;
use limpet_core::census::report::{Answer, Report, Shed};
use limpet_core::time::Timestamp;
use limpet_core::token::Destination;
use limpet_model::endpoints::Endpoint;
use limpet_model::graph::ClusterName;
use limpet_xds::Told;

use crate::time_format::now;
use balance::Balance;
use ledger::Ledger;
pub(crate) use peers::follow;
use places::Places;
pub(crate) use pods::{OwnSessions, PodSessions, PodState, Sessions};
pub(crate) use replica::{After, Replica};

/// What is known of sessions. Clones are handles of the same.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    content: Arc<Mutex<Content>>,
    /// What lived where, and when that was.
    recent: Arc<Mutex<Option<Recent>>>,
}

type Recent = (Instant, Arc<Sessions>);

/// How long what lived where may be shown: it takes a while to find out.
const RECENT: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Content {
    /// Which memory this is: another one after a restart, so that Envoys tell everything again.
    memory: u64,
    process: u64,
    /// Since when anything is counted: when this replica published for the first time, or a former one. Until then,
    /// nothing that Envoys tell is believed.
    since: Option<Timestamp>,
    ledger: Ledger,
    places: Places,
    balance: Balance,
}

impl Book {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self {
            content: Arc::new(Mutex::new(Content::new())),
            recent: Arc::default(),
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // A panic leaves no half change that matters.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what an Envoy of a group tells. Returns which memory it is in, and which sessions may begin anew.
    ///
    /// # Errors
    /// If nothing is published for the group yet, so that nobody knows what this is about. Envoys tell it again.
    pub(crate) fn hear(&self, group: &str, told: Told) -> Result<Answer, String> {
        let content = &mut *self.content();
        let sheds = match told {
            Told::Load(stream, loads) => {
                content.ledger.hear_load(group, stream, loads, &content.places);
                Vec::new()
            }
            Told::Sessions(_) if !content.places.knows(group) => {
                return Err("nothing is published for this group yet".to_owned());
            }
            Told::Sessions(report) => content.hear(group, report, now()),
        };
        Ok(Answer {
            memory: content.memory,
            sheds,
            process: content.process,
        })
    }

    /// The clusters whose sessions may begin anew on another pod.
    pub(crate) fn rebalance<'a>(&self, clusters: impl Iterator<Item = &'a ClusterName>) {
        let destinations = clusters.map(|cluster| Destination::of_cluster(cluster.0.as_bytes()));
        self.content().balance.allow(&destinations.collect());
    }

    /// How many replicas answer Envoys. What may begin anew is divided by them.
    pub(crate) fn share(&self, replicas: usize) {
        self.content().balance.share(replicas);
    }

    /// What this replica knows, as far as it came after these changes.
    pub(crate) fn replica(&self, after: After) -> Replica {
        let content = self.content();
        let after = if after.process == content.process {
            after.changes
        } else {
            0
        };
        Replica {
            process: content.process,
            memory: content.memory,
            since: content.since.map_or(0, Timestamp::unix_millis),
            ..content.ledger.after(after)
        }
    }

    /// Whether this asks for all that the replica knows.
    pub(crate) fn is_all(&self, after: After) -> bool {
        after.process != self.content().process || after.changes == 0
    }

    /// Takes in what another replica knows.
    pub(crate) fn hear_replica(&self, name: &str, told: Replica) {
        let content = &mut *self.content();
        // All replicas that know the same are one memory.
        content.memory = content.memory.min(told.memory);
        // One that has not published yet tells 0.
        let since = Some(told.since)
            .filter(|since| *since > 0)
            .map(Timestamp::from_unix_millis);
        content.since = [content.since, since].into_iter().flatten().min();
        content.ledger.hear_replica(name, told, now());
    }

    /// Forgets the requests in flight that replicas told which are gone: their Envoys tell others.
    pub(crate) fn forget_loads_of_others(&self, is_there: impl Fn(&str) -> bool) {
        self.content().ledger.forget_loads_of_others(is_there);
    }

    /// The clusters that are published, and for which Gateways. All others are gone.
    pub(crate) fn publish<'a>(
        &self,
        clusters: impl Iterator<Item = (&'a ClusterName, &'a ObjectName, &'a [ObjectName])>,
    ) {
        let content = &mut *self.content();
        content.since.get_or_insert_with(now);
        content.places.publish(clusters);
    }

    /// The endpoints of a cluster.
    pub(crate) fn observe(&self, cluster: &ClusterName, endpoints: &[Endpoint]) {
        self.content().places.observe(cluster, endpoints);
    }

    /// The Services that are published.
    pub(crate) fn services(&self) -> BTreeSet<ObjectName> {
        self.content().places.services()
    }

    /// What lives at an address now.
    pub(crate) fn at(&self, ip: IpAddr) -> OwnSessions {
        let (content, now) = (self.content(), now());
        let own = pods::sessions_at(&content.ledger, &content.places, ip, now);
        OwnSessions {
            known: !own.is_empty(),
            sessions: own.iter().map(|pod| pod.sessions).fold(0, usize::saturating_add),
            streams: own.iter().map(|pod| pod.streams).fold(0, u64::saturating_add),
            counted_for: now.since(content.since.unwrap_or(now)).as_secs(),
        }
    }

    /// What lives where now.
    pub(crate) fn sessions(&self) -> Sessions {
        let content = &mut *self.content();
        let now = now();
        content.ledger.forget(now);
        content.places.forget(&content.ledger.hosts());
        pods::sessions(&content.ledger, &content.places, content.since.unwrap_or(now), now)
    }

    /// What lived where within the last second. It is found out once for all who ask.
    pub(crate) fn recent(&self) -> Arc<Sessions> {
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

impl Content {
    fn new() -> Self {
        let process = getrandom::u64()
            .unwrap_or_else(|_| u64::from(std::process::id()))
            .max(1);
        Self {
            memory: process,
            process,
            since: None,
            ledger: Ledger::default(),
            places: Places::default(),
            balance: Balance::none(),
        }
    }

    fn hear(&mut self, group: &str, mut report: Report, now: Timestamp) -> Vec<Shed> {
        claims::bound(&mut report);
        let reporter = report.reporter;
        let rebalanced = self.ledger.hear(group, report, &self.places, now);
        let told = balance::Told {
            group,
            reporter,
            rebalanced: &rebalanced,
        };
        let known = balance::Known {
            ledger: &self.ledger,
            places: &self.places,
            since: self.since.unwrap_or(now),
        };
        self.balance.answer(&told, known, now)
    }
}
