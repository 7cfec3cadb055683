//! Reads the other replicas' knowledge of sessions.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::{self, Body};
use axum::http::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::replica::{AnswerSealing, ChangesAfter, ReplicaKnowledge};
use super::{ReplicaWants, SessionRegistry};
use crate::cluster::reconcile::replicas::{ReplicaReport, ReplicaReports, ReplicaView};

const INTERVAL: Duration = Duration::from_secs(1);
/// The time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of an answer. The rest comes with later ones.
const LIMIT: usize = 32 << 20;
/// Answers that are read at once. The rest comes an interval later.
const ANSWERS: usize = 16;
/// The least time between two full answers because of new hosts.
const REST: Duration = Duration::from_secs(10);

/// Runs for ever.
pub(crate) async fn follow(registry: SessionRegistry, mut replicas: ReplicaReports, sealing: AnswerSealing) {
    let mut peers = PeerReplicas {
        client: Client::builder(TokioExecutor::new()).build_http(),
        sealing,
        registry,
        states: BTreeMap::new(),
    };
    let mut failed: BTreeMap<String, String> = BTreeMap::new();
    loop {
        tokio::time::sleep(INTERVAL).await;
        peers.registry.forget();
        // Silent replicas may still exist, but send nothing new.
        let view = replicas.others();
        peers
            .registry
            .expect(view.as_deref().map(|view| there(view).map(|(name, _)| name)));
        let Some(view) = view else { continue };
        let untold = there(&view).filter(|(_, said)| said.pages.is_none());
        for (name, _) in untold {
            let why = "it does not tell its address (POD_IP)";
            peers.registry.record_missing_replica(name, why);
        }
        let processes = peers.states.values().map(|known| known.after.process);
        peers.registry.share(view.len() + 1, processes);
        let pages = |name: &str| view.get(name).and_then(|said| said.pages);
        peers.registry.forget_loads_of_others(|name| pages(name).is_some());
        peers.states.retain(|name, _| pages(name).is_some());
        failed.retain(|name, _| pages(name).is_some());
        for (name, address) in view.iter().filter_map(|(name, said)| Some((name, said.pages?))) {
            match peers.read(name, address).await {
                Ok(()) => drop(failed.remove(name)),
                Err(error) => fail(&peers.registry, &mut failed, name, error),
            }
        }
    }
}

fn fail(registry: &SessionRegistry, failed: &mut BTreeMap<String, String>, replica: &str, error: String) {
    registry.record_missing_replica(replica, &error);
    if failed.get(replica) != Some(&error) {
        tracing::warn!(
            replica,
            error,
            "cannot read another replica's sessions: sessions that only that replica knows are missing"
        );
    }
    failed.insert(replica.to_owned(), error);
}

struct PeerReplicas {
    client: Client<HttpConnector, Body>,
    sealing: AnswerSealing,
    registry: SessionRegistry,
    states: BTreeMap<String, PeerState>,
}

#[derive(Debug, Clone, Copy)]
struct PeerState {
    after: ChangesAfter,
    /// Whether all of it could be taken in.
    is_all: bool,
    /// What was wanted when it began to send everything, and when that was.
    wants: ReplicaWants,
    since: Instant,
}

impl PeerState {
    /// Whether the changes before stay valid.
    fn holds(&self, wants: ReplicaWants) -> bool {
        let may_take_more = !self.is_all && self.wants.unknown != wants.unknown && self.since.elapsed() >= REST;
        self.wants.everything == wants.everything && !may_take_more
    }
}

impl PeerReplicas {
    async fn read(&mut self, name: &str, address: SocketAddr) -> Result<(), String> {
        for _ in 0..ANSWERS {
            let wants = self.registry.replica_wants();
            let before = self.states.get(name).copied().filter(|known| known.holds(wants));
            let after = before.map(|known| known.after).unwrap_or_default();
            let asked = tokio::time::timeout(PATIENCE, self.fetch(name, address, after)).await;
            let told = asked.map_err(|_| "no answer in time".to_owned())??;
            let (process, changes, more) = (told.process, told.changes, told.more);
            let is_all = self.registry.receive_replica(name, told)?;
            // Another process sends everything.
            let before = before.filter(|known| known.after.process == process);
            let known = PeerState {
                after: ChangesAfter { process, changes },
                is_all: is_all && before.is_none_or(|known| known.is_all),
                wants: before.map_or(wants, |known| known.wants),
                since: before.map_or_else(Instant::now, |known| known.since),
            };
            self.states.insert(name.to_owned(), known);
            if !more {
                break;
            }
        }
        Ok(())
    }

    async fn fetch(&self, name: &str, address: SocketAddr, after: ChangesAfter) -> Result<ReplicaKnowledge, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        // Unpredictable, so no answer can be prepared.
        let question = getrandom::u64().map_err(|error| failed(&error))?;
        let uri = format!("http://{address}/sessions/replica?{}", after.query(question));
        let request = Request::get(uri).body(Body::empty()).map_err(|error| failed(&error))?;
        let answer = self.client.request(request).await.map_err(|error| failed(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(format!("status {}", answer.status()));
        }
        let bytes = body::to_bytes(Body::new(answer.into_body()), LIMIT).await;
        self.sealing
            .open(name, question, &bytes.map_err(|error| failed(&error))?)
    }
}

/// The replicas that serve Envoys. An ended replica's pages have no known address, or its Envoys are elsewhere.
fn there(view: &ReplicaView) -> impl Iterator<Item = (&String, &ReplicaReport)> {
    view.iter()
        .filter(|(_, said)| said.pages.is_some() || !said.envoys.is_empty())
}
