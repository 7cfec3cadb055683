use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use limpet_api::ObjectName;
use limpet_outputs::istio::IstioOptions;
use limpet_outputs::manifests::{Manifest, ManifestKind, Manifests, WriteStage};
use limpet_outputs::{ControlPlane, envoys};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::cluster::reconcile::diagnostics::Diagnostics;
use crate::cluster::reconcile::reconcile_loop::Reconcile as _;
use crate::cluster::reconcile::test_server::{RecordedRequest, client, client_with_bodies, list, refusal, take};
use crate::cluster::reconcile::turns::ROUND;

/// The API server refuses the objects of the namespace `many`.
struct Site {
    reconciler: ManifestReconciler,
    written: watch::Receiver<WrittenManifests>,
    asked: RecordedRequest,
    wanting: Arc<watch::Sender<Option<Arc<DesiredManifests>>>>,
    leading: watch::Sender<bool>,
}

fn manifest(gateway: &ObjectName, labels: usize) -> Manifest {
    Manifest {
        stage: WriteStage::Routes,
        definition: &envoys::DEPLOYMENT,
        name: gateway.clone(),
        gateways: [gateway.clone()].into(),
        tenant: gateway.namespace.clone(),
        owner: None,
        labels: [("app".to_owned(), labels.to_string())].into(),
        annotations: [].into(),
        spec: json!({}),
    }
}

/// So many Gateways in the namespace `many`, and one in another.
fn wanted(count: usize, labels: usize) -> Arc<DesiredManifests> {
    let many = (0..count).map(|number| ObjectName::new("many", &format!("{number:03}")));
    let gateways: BTreeSet<ObjectName> = many.chain([ObjectName::new("other", "one")]).collect();
    let objects = gateways.iter().map(|gateway| Arc::new(manifest(gateway, labels)));
    Arc::new(DesiredManifests {
        manifests: Arc::new(Manifests {
            objects: objects.collect(),
            ..Manifests::default()
        }),
        gateways,
        ..DesiredManifests::default()
    })
}

/// `changes`: whether there is newer input with each request.
fn site(count: usize, changes: bool) -> Site {
    let (wanting, wants) = watch::channel(Some(wanted(count, 1)));
    let wanting = Arc::new(wanting);
    let newer = Arc::clone(&wanting);
    let (client, asked) = client(move |request| {
        if changes {
            newer.send_modify(|_| ());
        }
        match request.split_once(' ') {
            Some(("PATCH", path)) if path.contains("/other/") => (200, json!({"metadata": {}})),
            Some(("PATCH", _)) => refusal(403),
            Some((_, path)) if path.contains("labelSelector") || !path.contains("deployments/") => list(&[]),
            _ => refusal(404),
        }
    });
    let (recipient, channels) = (ManifestRecipient::Envoys(None), (wanting, wants));
    leader(client, asked, recipient, Duration::ZERO, channels)
}

type Wanting = (
    Arc<watch::Sender<Option<Arc<DesiredManifests>>>>,
    watch::Receiver<Option<Arc<DesiredManifests>>>,
);

fn leader(
    client: kube::Client,
    asked: RecordedRequest,
    recipient: ManifestRecipient,
    propagation: Duration,
    (wanting, wants): Wanting,
) -> Site {
    let (leading, leads) = watch::channel(true);
    let complaints = OrphanDiagnostics::new(&Diagnostics::new(), "pod".to_owned());
    let (reconciler, written) = ManifestReconciler::new(client, recipient, "c", propagation, wants, leads, complaints);
    Site {
        reconciler,
        written,
        asked,
        wanting,
        leading,
    }
}

fn patches(asked: &RecordedRequest) -> Vec<String> {
    let mut asked = take(asked);
    asked.retain(|request| request.starts_with("PATCH"));
    asked
}

#[tokio::test]
async fn refused_objects_of_one_namespace_were_asked_for_every_two_seconds_before_those_of_others() {
    let mut site = site(100, false);
    site.reconciler.reconcile().await;
    let first = patches(&site.asked);
    assert_eq!(first.len(), 101);
    assert!(
        first[..2].iter().any(|request| request.contains("/other/")),
        "{first:?}"
    );
    assert_eq!(site.written.borrow().conditions.len(), 100);
    for _ in 0..3 {
        site.reconciler.reconcile().await;
        let again = patches(&site.asked);
        // The API server of this test keeps nothing.
        assert!(again.iter().all(|request| request.contains("/other/")), "{again:?}");
        assert_eq!(site.written.borrow().conditions.len(), 100, "the refusals are reported");
    }
    site.wanting.send_replace(Some(wanted(100, 2)));
    site.reconciler.reconcile().await;
    assert_eq!(patches(&site.asked).len(), 101);
}

#[tokio::test]
async fn a_round_with_many_objects_let_newer_input_wait() {
    let mut site = site(3 * ROUND, true);
    for _ in 0..3 {
        site.reconciler.reconcile().await;
        assert_eq!(patches(&site.asked).len(), ROUND);
    }
}

const PROPAGATION: Duration = Duration::from_secs(5);

/// A leader for Istio, with an API server that keeps objects. `changes`: whether there is newer input with each
/// request.
fn istio(changes: bool) -> Site {
    let (wanting, wants) = watch::channel(None);
    let wanting = Arc::new(wanting);
    let newer = Arc::clone(&wanting);
    let kept = Arc::new(Mutex::new(BTreeMap::<String, Value>::new()));
    let (client, asked) = client_with_bodies(move |request, body| {
        if changes {
            newer.send_modify(|_| ());
        }
        let (method, path) = request.split_once(' ').unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut kept = kept.lock().unwrap();
        match method {
            "PATCH" => {
                kept.insert(path.to_owned(), body.clone());
                (200, body)
            }
            "DELETE" => (200, kept.remove(path).unwrap_or_default()),
            _ if query.contains("labelSelector") => {
                let (_, plural) = path.rsplit_once('/').unwrap();
                let of_kind = kept.iter().filter(|(path, _)| path.contains(&format!("/{plural}/")));
                list(&of_kind.map(|(_, object)| object.clone()).collect::<Vec<_>>())
            }
            _ => kept
                .get(path)
                .map_or_else(|| refusal(404), |object| (200, object.clone())),
        }
    });
    let recipient = ManifestRecipient::Plane(ControlPlane::Istio(IstioOptions::default()));
    leader(client, asked, recipient, PROPAGATION, (wanting, wants))
}

fn kinds() -> [&'static ManifestKind; 2] {
    let kinds = ControlPlane::Istio(IstioOptions::default()).definitions();
    kinds.try_into().unwrap()
}

fn filter(gateway: &str, version: usize) -> Manifest {
    Manifest {
        stage: WriteStage::Filter,
        definition: kinds()[1],
        ..manifest(&ObjectName::new("infra", gateway), version)
    }
}

/// An object for a route of this namespace, with a policy of this version.
fn rule(gateway: &str, tenant: &str, version: usize) -> Manifest {
    Manifest {
        definition: kinds()[0],
        name: ObjectName::new("infra", &format!("{gateway}-{tenant}")),
        tenant: tenant.into(),
        ..manifest(&ObjectName::new("infra", gateway), version)
    }
}

impl Site {
    /// Returns the names of written and deleted objects.
    async fn round(&mut self, objects: Vec<Manifest>) -> Vec<String> {
        self.want(objects);
        self.again().await
    }

    fn want(&self, objects: Vec<Manifest>) {
        let before = self.wanting.borrow().as_ref().map_or(0, |wanted| wanted.generation);
        let gateways = objects.iter().flat_map(|manifest| &manifest.gateways);
        self.wanting.send_replace(Some(Arc::new(DesiredManifests {
            generation: before + 1,
            gateways: gateways.cloned().collect(),
            manifests: Arc::new(Manifests {
                objects: objects.into_iter().map(Arc::new).collect(),
                ..Manifests::default()
            }),
            ..DesiredManifests::default()
        })));
    }

    async fn again(&mut self) -> Vec<String> {
        self.reconciler.reconcile().await;
        let asked = take(&self.asked).into_iter();
        let written = asked.filter(|request| !request.starts_with("GET"));
        let name = |request: String| {
            let (method, path) = request.split_once(' ').unwrap();
            let name = path.split('?').next().unwrap().rsplit('/').next().unwrap();
            if method == "DELETE" {
                format!("-{name}")
            } else {
                name.to_owned()
            }
        };
        written.map(name).collect()
    }

    fn has_all(&self, gateway: &str) -> bool {
        let generation = self.wanting.borrow().as_ref().unwrap().generation;
        let written = self.written.borrow();
        written.has_all(generation, &ObjectName::new("infra", gateway))
    }

    fn pass(&mut self, seconds: u64) {
        self.reconciler.pass(Duration::from_secs(seconds));
    }
}

#[tokio::test]
async fn a_route_waited_for_all_those_of_another_tenant_at_the_gateway() {
    let mut site = istio(true);
    let of_many = |number: usize| Manifest {
        name: ObjectName::new("infra", &format!("many-{number:03}")),
        ..rule("web", "many", 1)
    };
    let many = (0..3 * ROUND).map(of_many);
    let written = site.round(many.chain([rule("web", "other", 1)]).collect()).await;
    assert_eq!(written.len(), ROUND);
    assert!(written[..2].contains(&"web-other".to_owned()), "{written:?}");
}

#[tokio::test]
async fn policies_of_one_gateway_that_change_all_the_time_kept_the_routes_of_another_unwritten() {
    let mut site = istio(false);
    let wanted = |version| {
        vec![
            filter("a", version),
            filter("b", 1),
            rule("a", "a", version),
            rule("b", "b", 1),
        ]
    };
    assert_eq!(site.round(wanted(1)).await, ["a", "b"]);
    site.pass(4);
    assert_eq!(site.round(wanted(2)).await, ["a"]);
    assert!(
        site.written.borrow().conditions.is_empty(),
        "no Gateway has its objects"
    );
    site.pass(1);
    assert_eq!(site.again().await, ["b-b"]);
    let gateways: Vec<_> = site
        .written
        .borrow()
        .conditions
        .keys()
        .map(|gateway| gateway.name.to_string())
        .collect();
    assert_eq!(gateways, ["b"]);
    site.pass(3);
    assert_eq!(
        site.round(wanted(3)).await,
        ["a"],
        "each version waits for its own filter"
    );
    site.pass(5);
    assert_eq!(site.again().await, ["a-a"]);
}

#[tokio::test]
async fn policies_of_one_tenant_that_change_all_the_time_kept_other_routes_of_the_gateway_unwritten() {
    let mut site = istio(false);
    let wanted = |version| {
        vec![
            filter("web", version),
            rule("web", "other", 1),
            rule("web", "team", version),
        ]
    };
    assert_eq!(site.round(wanted(1)).await, ["web"]);
    site.pass(4);
    assert_eq!(site.round(wanted(2)).await, ["web"]);
    site.pass(4);
    assert_eq!(site.round(wanted(3)).await, ["web", "web-other"]);
    site.pass(4);
    assert!(site.again().await.is_empty());
    site.pass(1);
    assert_eq!(site.again().await, ["web-team"]);
}

#[tokio::test]
async fn any_change_ended_the_wait_for_the_filter() {
    let mut site = istio(false);
    let mut wanted = vec![filter("web", 1), rule("web", "team", 1)];
    assert_eq!(site.round(wanted.clone()).await, ["web"]);
    wanted.push(filter("b", 1));
    assert_eq!(site.round(wanted.clone()).await, ["b"]);
    wanted.pop();
    wanted[1] = rule("web", "team", 2);
    site.pass(4);
    assert!(site.round(wanted.clone()).await.is_empty());
    // A new leader does not know when the former one wrote it.
    site.leading.send_replace(false);
    site.again().await;
    site.leading.send_replace(true);
    site.pass(1);
    assert!(site.again().await.is_empty());
    site.pass(5);
    assert_eq!(site.again().await, ["web-team", "-b"]);
}

#[tokio::test]
async fn a_filter_that_is_not_written_yet_let_routes_pass() {
    let mut site = istio(true);
    // The round ends before the last one is written.
    let filters = (0..=ROUND).map(|number| filter(&format!("{number:03}"), 1));
    let of = |gateway: &str| rule(gateway, "team", 1);
    let wanted: Vec<_> = filters.chain([of("000"), of("064")]).collect();
    assert_eq!(site.round(wanted.clone()).await.len(), ROUND);
    site.pass(5);
    assert_eq!(site.again().await, ["064", "000-team"]);
    site.pass(5);
    assert_eq!(site.again().await, ["064-team"]);
}

#[tokio::test]
async fn the_object_of_a_route_was_deleted_before_its_successor_was_written() {
    let mut site = istio(false);
    site.round(vec![filter("web", 1), rule("web", "old", 1)]).await;
    site.pass(5);
    assert_eq!(site.again().await, ["web-old"]);
    assert_eq!(site.round(vec![filter("web", 2), rule("web", "new", 2)]).await, ["web"]);
    assert!(!site.has_all("web"), "proxies have the former route");
    site.pass(5);
    assert_eq!(site.again().await, ["web-new", "-web-old"]);
    assert!(!site.has_all("web"), "proxies have the former route");
    site.pass(5);
    assert!(site.again().await.is_empty());
    assert!(site.has_all("web"));
}

#[tokio::test]
async fn policies_that_change_all_the_time_held_up_keyrings_and_kept_policies_of_others_retained() {
    let mut site = istio(false);
    let wanted = |version| vec![filter("a", version), filter("b", 1)];
    site.round(wanted(1)).await;
    assert!(!site.written.borrow().has(1));
    site.pass(4);
    site.round(wanted(2)).await;
    assert!(!site.written.borrow().has(1));
    assert!(!site.has_all("b"));
    site.pass(4);
    site.round(wanted(3)).await;
    assert!(site.written.borrow().has(1) && !site.written.borrow().has(2));
    assert!(site.has_all("b") && !site.has_all("a"));
    site.want(wanted(3));
    assert!(!site.has_all("b"), "it is not known yet what is wanted");
}
