use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
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

use super::pods::{PodStage, ReplicaPods, SOON};
use super::presence::{BEAT, ReplicaPresence};
use super::report::{EnvoyCounts, KeyringDelivery, OwnReport, RefusedRoute, ReplicaView};
use crate::cluster::kube::Backoff;
use crate::cluster::kube::named_object::{self, ObservedObject};
use crate::cluster::reconcile::reconcile_loop::{self, Closed, Reconcile, changed_or_never};
use limpet_model::{MANAGED_BY, MANAGER};

const CALL: Duration = Duration::from_secs(5);

/// The replicas' shared Lease, and this replica's name in it.
#[derive(Debug, Clone)]
pub(crate) struct ReplicaLease {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Unique among the replicas.
    pub(crate) replica: String,
}

/// A shared handle of this replica's report, and the others'.
#[derive(Debug, Clone)]
pub(crate) struct ReplicaReports {
    own: watch::Sender<OwnReport>,
    others: watch::Receiver<Option<Arc<ReplicaView>>>,
}

impl ReplicaReports {
    pub(crate) fn report_keyring(&self, delivery: KeyringDelivery) {
        let delivery = Some(delivery);
        self.own.send_if_modified(|own| {
            let changed = own.keyring != delivery;
            own.keyring = delivery;
            changed
        });
    }

    /// Gateways without Envoys are left out.
    pub(crate) fn report_envoys(&self, envoys: BTreeMap<String, EnvoyCounts>) {
        self.own.send_if_modified(|own| {
            let changed = own.envoys != envoys;
            own.envoys = envoys;
            changed
        });
    }

    pub(crate) fn report_refused_routes(&self, refused: BTreeSet<RefusedRoute>) {
        self.own.send_if_modified(|own| {
            let changed = own.refused_routes != refused;
            own.refused_routes = refused;
            changed
        });
    }

    pub(crate) fn report_pages(&self, pages: SocketAddr) {
        self.own.send_modify(|own| own.pages = Some(pages));
    }

    /// The others' last reports; `None`: unknown.
    pub(crate) fn others(&mut self) -> Option<Arc<ReplicaView>> {
        self.others.borrow_and_update().clone()
    }

    /// Whether another replica has pages at this address.
    pub(crate) fn are_at(&self, address: IpAddr) -> bool {
        let others = self.others.borrow();
        let mut pages = others
            .iter()
            .flat_map(|view| view.values())
            .filter_map(|said| said.pages);
        pages.any(|pages| pages.ip().to_canonical() == address)
    }

    /// Waits for ever if the exchange does not run.
    pub(crate) async fn changed(&mut self) {
        changed_or_never(&mut self.others).await;
    }
}

/// Writes this replica's report to the shared Lease, and follows the others'.
pub(crate) struct ReplicaExchange {
    leases: Api<Lease>,
    name: String,
    states: BoxStream<'static, ObservedObject<Lease>>,
    /// The `resourceVersion` of the Lease that was read last; `None`: unknown.
    version: Option<u64>,
    presence: ReplicaPresence,
    pods: ReplicaPods,
    own: watch::Receiver<OwnReport>,
    leads: watch::Receiver<bool>,
    sender: watch::Sender<Option<Arc<ReplicaView>>>,
    /// The last error, so that it is logged once.
    failed: Option<String>,
    backoff: Backoff,
    /// Whether this replica serves no Envoy any more.
    ended: watch::Receiver<bool>,
}

impl Reconcile for ReplicaExchange {
    const GATHER: Duration = Duration::from_millis(200);

    /// Passes reports of others on, until there is something to write.
    async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            tokio::select! {
                changed = self.own.changed() => return Ok(changed?),
                () = until(&mut self.ended) => return Err(Closed),
                // Without the right to watch the Lease, it is read with each beat.
                Some(seen) = self.states.next() => if let Ok(Some(lease)) = seen {
                    // The watch may show the Lease before our last write.
                    if version(&lease) < self.version {
                        continue;
                    }
                    self.observe(lease);
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
        self.receive(lease);
        // Before anything waits for a replica that is gone.
        let some_end = self.find_pods().await;
        self.publish(Some(Arc::new(self.presence.view())));
        let is_due = self.presence.is_due(&own, *self.leads.borrow());
        Some(match (is_due, some_end) {
            (true, _) => Self::GATHER,
            (false, true) => SOON,
            (false, false) => BEAT,
        })
    }
}

impl ReplicaExchange {
    /// The leader removes reports of gone replicas. The keyring waits `phase_time` for a silent one. `keyring` is in
    /// the first report already: others wait only for replicas that report one. `ended`: this one serves no Envoy any
    /// more.
    pub(crate) fn new(
        client: &Client,
        lease: &ReplicaLease,
        phase_time: Duration,
        keyring: Option<KeyringDelivery>,
        leads: watch::Receiver<bool>,
        ended: watch::Receiver<bool>,
    ) -> (Self, ReplicaReports) {
        let (saying, own) = watch::channel(OwnReport {
            keyring,
            ..OwnReport::default()
        });
        let (told, others) = watch::channel(None);
        let leases: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
        let exchange = Self {
            name: lease.name.clone(),
            states: named_object::follow(leases.clone(), "Lease", &lease.name).boxed(),
            leases,
            version: None,
            presence: ReplicaPresence::new(&lease.replica, phase_time),
            pods: ReplicaPods::new(client, &lease.namespace, &lease.replica),
            own,
            leads,
            sender: told,
            failed: None,
            backoff: Backoff::of_the_api(),
            ended,
        };
        (exchange, ReplicaReports { own: saying, others })
    }

    /// Its last report says that it has ended, so its Envoys need not acknowledge anything.
    pub(crate) async fn run(mut self) {
        reconcile_loop::run(&mut self).await;
        let own = self.own.borrow().ended();
        match tokio::time::timeout(CALL, self.beat(&own)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => self.silent(&error.to_string()),
            Err(_) => self.silent("no answer"),
        }
    }

    fn silent(&self, error: &str) {
        tracing::warn!(
            lease = self.name,
            error,
            "cannot tell other replicas that this one has ended: its Envoys count until it is forgotten"
        );
    }

    fn observe(&mut self, lease: Lease) {
        self.receive(lease);
        self.publish(Some(Arc::new(self.presence.view())));
    }

    /// Returns whether another replica's pod is being deleted.
    async fn find_pods(&mut self) -> bool {
        let looked = tokio::time::timeout(CALL, self.pods.stages(self.presence.serving())).await;
        // Without an answer, their silence counts.
        let Ok(found) = looked else { return false };
        self.presence
            .lose(|name| found.get(name) == Some(&Some(PodStage::Gone)));
        found.values().any(|stage| *stage == Some(PodStage::Ends))
    }

    /// The answer to our own write is always the newest, even if its version is lower: a restored API server begins at
    /// a former one.
    fn receive(&mut self, lease: Lease) {
        self.version = version(&lease);
        let annotations = lease.metadata.annotations.unwrap_or_default();
        self.presence.observe(&annotations, Instant::now());
    }

    fn publish(&self, view: Option<Arc<ReplicaView>>) {
        self.sender.send_if_modified(|known| {
            let changed = *known != view;
            *known = view;
            changed
        });
    }

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
        self.publish(None);
        self.backoff.next()
    }

    /// Returns the Lease with this replica's report.
    async fn beat(&mut self, own: &OwnReport) -> Result<Lease, Error> {
        let leads = *self.leads.borrow();
        let annotations = self.presence.annotations(own, leads);
        // Only this replica's annotation, so it cannot conflict with the others'.
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

async fn until(ended: &mut watch::Receiver<bool>) {
    // If the sender is gone, the replica has ended, too.
    let _ = ended.wait_for(|ended| *ended).await;
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
    use crate::cluster::reconcile::replicas::report::ReplicaReport;

    /// A Lease on which other replicas report only a beat.
    fn lease(version: u64, replicas: &[&str]) -> serde_json::Value {
        let report = |name: &&str| (format!("replica.limpet.dev/{name}"), json!("?"));
        let annotations: serde_json::Map<_, _> = replicas.iter().map(report).collect();
        json!({"metadata": {"name": "replicas", "resourceVersion": version.to_string(), "annotations": annotations}})
    }

    fn shared() -> ReplicaLease {
        ReplicaLease {
            namespace: "limpet".to_owned(),
            name: "replicas".to_owned(),
            replica: "one".to_owned(),
        }
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
        let shared = shared();
        let (_leading, leads) = watch::channel(false);
        let (_end, ended) = watch::channel(false);
        let (mut exchange, mut replicas) = ReplicaExchange::new(&client, &shared, Duration::ZERO, None, leads, ended);
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

    /// The report of the replica `one` in a patch of the Lease.
    async fn said(request: Request<Body>) -> ReplicaReport {
        let bytes = request.into_body().collect_bytes().await.unwrap();
        let patch: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let annotations = patch["metadata"]["annotations"].as_object().unwrap();
        let text = annotations.values().next().unwrap();
        ReplicaReport::read(text.as_str().unwrap()).unwrap().1
    }

    #[tokio::test]
    async fn a_replica_that_has_ended_says_that_it_has_no_envoys() {
        let (telling, mut told) = watch::channel(ReplicaReport::default());
        let telling = Arc::new(telling);
        let answer = move |request: Request<Body>| {
            let telling = Arc::clone(&telling);
            async move {
                if request.method() != "PATCH" {
                    return std::future::pending().await;
                }
                telling.send_replace(said(request).await);
                let body = lease(7, &[]).to_string().into_bytes();
                Ok::<_, std::io::Error>(Response::new(Body::from(body)))
            }
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let (_leading, leads) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        let keyring = KeyringDelivery::Has("a".to_owned());
        let first = Some(keyring.clone());
        let (exchange, replicas) = ReplicaExchange::new(&client, &shared(), Duration::ZERO, first, leads, ended);
        replicas.report_pages(([10, 0, 0, 7], 8080).into());
        replicas.report_envoys([("shop/web".to_owned(), EnvoyCounts::default())].into());
        let running = tokio::spawn(exchange.run());
        told.wait_for(|said| said.envoys.contains_key("shop/web"))
            .await
            .unwrap();
        end.send_replace(true);
        running.await.unwrap();
        let last = told.borrow().clone();
        let expected = ReplicaReport {
            keyring: Some(keyring),
            ..ReplicaReport::default()
        };
        assert_eq!(last, expected);
    }

    /// What `one` knows of another replica with pages, and when it looks again. `pods`: by name, whether each is being
    /// deleted.
    async fn looked_up(pods: &'static [(&'static str, bool)]) -> (ReplicaReport, Duration) {
        let answer = move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let body = if request.uri().path().ends_with("/pods") {
                let found = pods
                    .iter()
                    .filter(|(name, _)| query.contains(&format!("metadata.name%3D{name}%2C")));
                let items: Vec<_> = found
                    .map(|(name, ends)| {
                        let deleted = ends.then_some("2026-11-23T06:00:00Z");
                        json!({"metadata": {"name": name, "deletionTimestamp": deleted}})
                    })
                    .collect();
                json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {},
                       "items": items})
            } else {
                let other = OwnReport {
                    keyring: Some(KeyringDelivery::Has("a".to_owned())),
                    pages: Some(([10, 0, 0, 7], 8080).into()),
                    ..OwnReport::default()
                };
                let annotations = json!({"replica.limpet.dev/2": other.text("two", 1, usize::MAX)});
                json!({"metadata": {"name": "replicas", "resourceVersion": "7", "annotations": annotations}})
            };
            async move { Ok::<_, std::io::Error>(Response::new(Body::from(body.to_string().into_bytes()))) }
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let (_leading, leads) = watch::channel(false);
        let (_end, ended) = watch::channel(false);
        let (mut exchange, mut replicas) = ReplicaExchange::new(&client, &shared(), Duration::ZERO, None, leads, ended);
        exchange.reconcile().await;
        let again = exchange.reconcile().await.unwrap();
        (replicas.others().unwrap()["two"].clone(), again)
    }

    #[tokio::test]
    async fn a_replica_whose_pod_is_gone_is_not_waited_for() {
        let (gone, _) = looked_up(&[("one", false)]).await;
        let expected = ReplicaReport {
            keyring: Some(KeyringDelivery::Has("a".to_owned())),
            ..ReplicaReport::default()
        };
        assert_eq!(gone, expected);
        let (there, again) = looked_up(&[("one", false), ("two", false)]).await;
        assert!(there.pages.is_some());
        assert_eq!(again, BEAT);
    }

    #[tokio::test]
    async fn a_pod_that_ends_is_soon_looked_for_again() {
        let (there, again) = looked_up(&[("one", false), ("two", true)]).await;
        assert!(there.pages.is_some());
        assert_eq!(again, SOON);
    }

    #[tokio::test]
    async fn replicas_that_are_no_pods_are_waited_for() {
        let (there, _) = looked_up(&[]).await;
        assert!(there.pages.is_some());
    }
}
