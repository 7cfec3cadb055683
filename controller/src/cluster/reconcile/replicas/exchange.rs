use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::sync::watch;

use super::presence::{BEAT, Presence};
use super::report::{Envoys, KeyringDelivery, Own, RefusedRoute, View};
use crate::cluster::kube::Backoff;
use crate::cluster::kube::named_object::{self, Seen};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile, changed_or_never};
use limpet_model::{MANAGED_BY, MANAGER};

/// The timeout of one call.
const CALL: Duration = Duration::from_secs(5);

/// The Lease that replicas share, and this replica's name in it.
#[derive(Debug, Clone)]
pub(crate) struct ReplicaLease {
    pub(crate) namespace: String,
    /// The name of the Lease.
    pub(crate) name: String,
    /// Unique among the replicas.
    pub(crate) replica: String,
}

/// What this replica tells the others, and what they tell. Clones are handles of the same.
#[derive(Debug, Clone)]
pub(crate) struct Replicas {
    own: watch::Sender<Own>,
    /// `None`: unknown.
    others: watch::Receiver<Option<Arc<View>>>,
}

impl Replicas {
    /// Tells whether this replica's Envoys have the keyring. Call it once before the exchange runs: without it, the
    /// other replicas do not wait for this one.
    pub(crate) fn say_keyring(&self, delivery: KeyringDelivery) {
        let delivery = Some(delivery);
        self.own.send_if_modified(|own| {
            let changed = own.keyring != delivery;
            own.keyring = delivery;
            changed
        });
    }

    /// Tells how far the Envoys of each Gateway are. Gateways without Envoys are left out.
    pub(crate) fn say_envoys(&self, envoys: BTreeMap<String, Envoys>) {
        self.own.send_if_modified(|own| {
            let changed = own.envoys != envoys;
            own.envoys = envoys;
            changed
        });
    }

    /// Tells which routes this replica's Envoys refuse.
    pub(crate) fn say_refused_routes(&self, refused: BTreeSet<RefusedRoute>) {
        self.own.send_if_modified(|own| {
            let changed = own.refused_routes != refused;
            own.refused_routes = refused;
            changed
        });
    }

    /// What the others told last; `None`: unknown.
    pub(crate) fn others(&mut self) -> Option<Arc<View>> {
        self.others.borrow_and_update().clone()
    }

    /// Waits until the others tell something else; for ever if the exchange does not run.
    pub(crate) async fn changed(&mut self) {
        changed_or_never(&mut self.others).await;
    }
}

/// Writes this replica's report to the shared Lease when it changes, and follows the others'.
pub(crate) struct Exchange {
    leases: Api<Lease>,
    name: String,
    /// The Lease as it changes.
    states: BoxStream<'static, Seen<Lease>>,
    /// The `resourceVersion` of the Lease that was looked at last; `None`: unknown.
    version: Option<u64>,
    presence: Presence,
    own: watch::Receiver<Own>,
    leads: watch::Receiver<bool>,
    told: watch::Sender<Option<Arc<View>>>,
    /// The last error, so that it is logged once.
    failed: Option<String>,
    backoff: Backoff,
}

impl Reconcile for Exchange {
    const GATHER: Duration = Duration::from_millis(200);

    /// Waits until there is something to tell the others. What they tell is passed on meanwhile.
    async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            tokio::select! {
                changed = self.own.changed() => return Ok(changed?),
                // Without the right to watch the Lease, it is read with each beat.
                Some(seen) = self.states.next() => if let Ok(Some(lease)) = seen {
                    // The watch may bring what was before our last write.
                    if version(&lease) < self.version {
                        continue;
                    }
                    self.see(lease);
                    if self.presence.is_due(&self.own.borrow(), *self.leads.borrow()) {
                        return Ok(());
                    }
                },
            }
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        let own = self.own.borrow_and_update().clone();
        let lease = match tokio::time::timeout(CALL, self.beat(&own)).await {
            Ok(Ok(lease)) => lease,
            Ok(Err(error)) => return Some(self.fail(error.to_string())),
            Err(_) => return Some(self.fail("no answer".to_owned())),
        };
        self.failed = None;
        self.backoff.reset();
        self.see(lease);
        let is_due = self.presence.is_due(&own, *self.leads.borrow());
        Some(if is_due { Self::GATHER } else { BEAT })
    }
}

impl Exchange {
    /// The leader removes reports of replicas that are gone. The keyring waits `phase_time` for a silent replica.
    pub(crate) fn new(
        client: &Client,
        lease: &ReplicaLease,
        phase_time: Duration,
        leads: watch::Receiver<bool>,
    ) -> (Self, Replicas) {
        let (saying, own) = watch::channel(Own::default());
        let (told, others) = watch::channel(None);
        let leases: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
        let exchange = Self {
            name: lease.name.clone(),
            states: named_object::follow(leases.clone(), "Lease", &lease.name).boxed(),
            leases,
            version: None,
            presence: Presence::new(&lease.replica, phase_time),
            own,
            leads,
            told,
            failed: None,
            backoff: Backoff::of_the_api(),
        };
        (exchange, Replicas { own: saying, others })
    }

    /// Passes on what the others told. An answer to our own write is always the newest, even if its version is lower:
    /// a restored API server begins at a former one.
    fn see(&mut self, lease: Lease) {
        self.version = version(&lease);
        let annotations = lease.metadata.annotations.unwrap_or_default();
        let view = self.presence.see(&annotations, Instant::now());
        self.tell(Some(Arc::new(view)));
    }

    fn tell(&self, view: Option<Arc<View>>) {
        self.told.send_if_modified(|known| {
            let changed = *known != view;
            *known = view;
            changed
        });
    }

    /// Returns when to try again.
    fn fail(&mut self, error: String) -> Duration {
        if self.failed.as_ref() != Some(&error) {
            tracing::warn!(
                lease = self.name,
                %error,
                "cannot tell other replicas what this one's Envoys have: \
                 key rotations wait, and the last known state of Envoys stays valid"
            );
        }
        self.failed = Some(error);
        self.tell(None);
        self.backoff.next()
    }

    /// Writes this replica's report. Returns the Lease as it is then.
    async fn beat(&mut self, own: &Own) -> Result<Lease, Error> {
        let leads = *self.leads.borrow();
        let annotations = self.presence.annotations(own, leads);
        // A merge patch of this replica's annotation alone, so it cannot conflict with those of others.
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        match self.leases.patch(&self.name, &PatchParams::default(), &patch).await {
            Err(Error::Api(status)) if status.code == 404 => {}
            answer => return answer,
        }
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())])),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, spec: None };
        match self.leases.create(&PostParams::default(), &lease).await {
            // Another replica was faster.
            Err(Error::Api(status)) if status.code == 409 => {}
            created => drop(created?),
        }
        self.leases.patch(&self.name, &PatchParams::default(), &patch).await
    }
}

fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::http::{Request, Response};
    use futures::stream;
    use kube::client::Body;

    use super::*;

    /// The Lease with a report of another replica that says no more than its beat.
    fn lease(version: u64, replicas: &[&str]) -> serde_json::Value {
        let report = |name: &&str| (format!("replica.limpet.dev/{name}"), json!("?"));
        let annotations: serde_json::Map<_, _> = replicas.iter().map(report).collect();
        json!({"metadata": {"name": "replicas", "resourceVersion": version.to_string(), "annotations": annotations}})
    }

    #[tokio::test]
    async fn answers_count_although_an_api_server_was_restored() {
        let answers = vec![lease(7, &["a", "b"]), lease(1000, &["a"])];
        let answers = Arc::new(Mutex::new(answers));
        let answer = move |_: Request<Body>| {
            let body = answers.lock().unwrap().pop().unwrap().to_string();
            async { Ok::<_, std::io::Error>(Response::new(Body::from(body.into_bytes()))) }
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let shared = ReplicaLease {
            namespace: "limpet".to_owned(),
            name: "replicas".to_owned(),
            replica: "one".to_owned(),
        };
        let (_leading, leads) = watch::channel(false);
        let (mut exchange, mut replicas) = Exchange::new(&client, &shared, Duration::ZERO, leads);
        exchange.reconcile().await;
        assert_eq!(replicas.others().unwrap().len(), 1);
        // The watch is late.
        let late = serde_json::from_value(lease(999, &["a", "b", "c"])).unwrap();
        exchange.states = stream::iter([Ok(Some(late))]).chain(stream::pending()).boxed();
        let changed = tokio::time::timeout(Duration::from_millis(100), exchange.changed()).await;
        assert!(changed.is_err());
        assert_eq!(replicas.others().unwrap().len(), 1);
        // The version of a restored API server is lower.
        exchange.reconcile().await;
        assert_eq!(replicas.others().unwrap().len(), 2);
    }
}
