use axum::http::{Request, Response};
use kube::client::Body;
use limpet_resources::{Resource, ResourceType, Resources};

use kube::core::{ApiResource, GroupVersionKind};
use limpet_api::{DecodeError, HttpRouteSpec, Meta, Object};
use limpet_model::reports::{IngressRouteReport, IngressRouteStatus};
use serde_json::json;

use super::*;
use crate::cluster::kube::{ObservedObjectStatus, ObservedStatus};
use crate::cluster::reconcile::replicas::{ReplicaExchange, ReplicaLease};

/// An API server that is away.
fn nobody() -> Client {
    let refuse = async |_: Request<Body>| Err::<Response<Body>, _>(std::io::Error::other("away"));
    Client::new(tower::service_fn(refuse), "default")
}

struct Site {
    reconciler: StatusReconciler,
    snapshots: limpet_xds::Snapshots,
    observing: watch::Sender<Observation>,
    _reporting: watch::Sender<Option<PublishedReports>>,
    _leading: watch::Sender<bool>,
    _exchange: ReplicaExchange,
}

fn site(reports: Reports) -> Site {
    let (client, snapshots) = (nobody(), limpet_xds::Snapshots::new());
    let (leading, leads) = watch::channel(true);
    let lease = ReplicaLease {
        namespace: "limpet".to_owned(),
        name: "replicas".to_owned(),
        replica: "one".to_owned(),
    };
    let (exchange, replicas) = ReplicaExchange::new(
        &client,
        &lease,
        Duration::ZERO,
        None,
        leads.clone(),
        watch::channel(false).1,
    );
    let (reporting, reported) = watch::channel(Some(reports.into()));
    let (observing, observation) = watch::channel(Observation::default());
    let inputs = StatusInputs {
        reported,
        observation,
        delivery: Delivery::Xds(snapshots.status()),
        replicas,
        without_service: watch::channel(RefusedServices::new()).1,
        without_envoys: watch::channel(WrittenManifests::default()).1,
    };
    let recorder = EventRecorder::new(client.clone(), "limpet.dev/test".to_owned(), "one".to_owned());
    let facts = StatusFacts::default();
    Site {
        reconciler: StatusReconciler::new(client, inputs, leads, StatusMetrics::default(), facts, recorder),
        snapshots,
        observing,
        _reporting: reporting,
        _leading: leading,
        _exchange: exchange,
    }
}

#[tokio::test]
async fn acknowledgements_alone_compare_no_statuses() {
    let mut site = site(Reports::default());
    let reconciler = &mut site.reconciler;
    reconciler.reconcile().await;
    assert_eq!(reconciler.comparisons, 1);
    site.snapshots.publish("default/web", Resources::new());
    for change in 0..100 {
        let endpoints = Resource::new(ResourceType::ClusterLoadAssignment, "a", change.to_string().into());
        site.snapshots.publish_one("default/web", endpoints);
        reconciler.changed().await.unwrap();
        reconciler.reconcile().await;
    }
    assert_eq!(reconciler.comparisons, 1);
    site.observing.send_replace(Observation::default());
    reconciler.changed().await.unwrap();
    reconciler.reconcile().await;
    assert_eq!(reconciler.comparisons, 2);
    site.observing.send_replace(Observation::default());
    reconciler.reconcile().await;
    assert_eq!(reconciler.comparisons, 3);
}

#[tokio::test]
async fn an_ingress_route_of_another_class_keeps_its_status() {
    let report = IngressRouteReport {
        status: IngressRouteStatus::Valid,
        description: "valid IngressRoute".into(),
        vhost: "".into(),
        is_root: false,
        notes: Vec::new(),
    };
    let reports = |names: &[&str]| Reports {
        ingress_routes: names
            .iter()
            .map(|name| (ObjectName::new("shop", name), report.clone()))
            .collect(),
        ..Reports::default()
    };
    let observed = |status: &serde_json::Value| ObservedObjectStatus {
        uid: "uid".to_owned(),
        version: "1".to_owned(),
        status: ObservedStatus::new(Kind::IngressRoute, status, "").unwrap(),
    };
    let there = json!({"currentStatus": "valid", "description": "valid IngressRoute", "further": 1});
    let all = [
        ("new", json!(null)),
        ("known", there.clone()),
        ("foreign", json!({"currentStatus": "invalid"})),
        ("former", there),
    ];
    let all = all.map(|(name, status)| (ObjectName::new("shop", name), observed(&status)));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("contour.heptio.com", "v1beta1", "IngressRoute"));
    let observation = Observation {
        objects: Arc::new([(Kind::IngressRoute, all.into_iter().collect())].into()),
        served: [(Kind::IngressRoute, resource)].into(),
    };
    let mut site = site(Reports::default());
    let reconciler = &mut site.reconciler;
    let mut differ = |reports: Reports| {
        reconciler.update_desired(&reports.into());
        let jobs = reconciler.jobs(&observation).into_iter();
        jobs.map(|job| job.name.name).collect::<Vec<_>>()
    };
    assert_eq!(differ(reports(&["new", "known", "former"])), ["new"]);
    assert_eq!(differ(reports(&["new", "known"])), ["new"]);
}

fn left_over(number: usize) -> (ObjectName, ObservedObjectStatus) {
    left_over_in("shop", number, "1")
}

fn left_over_in(namespace: &str, number: usize, version: &str) -> (ObjectName, ObservedObjectStatus) {
    let status = json!({"parents": [{"controllerName": "", "parentRef": {}, "conditions": []}]});
    let observed = ObservedObjectStatus {
        uid: "uid".to_owned(),
        version: version.to_owned(),
        status: ObservedStatus::new(Kind::HttpRoute, &status, "").unwrap(),
    };
    (ObjectName::new(namespace, &format!("{number:03}")), observed)
}

#[tokio::test]
async fn statuses_that_cannot_be_written_hold_no_others_back() {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute"));
    let observation = Observation {
        objects: Arc::new([(Kind::HttpRoute, (0..ROUND + 6).map(left_over).collect())].into()),
        served: [(Kind::HttpRoute, resource)].into(),
    };
    let mut site = site(Reports::default());
    let reconciler = &mut site.reconciler;
    let first = reconciler.jobs(&observation);
    assert_eq!(first.len(), ROUND);
    assert!(reconciler.write(first).await, "nobody is there to write to");
    let second = reconciler.jobs(&observation);
    let names: Vec<_> = second.iter().take(7).map(|job| job.name.name.as_str()).collect();
    assert_eq!(names, ["064", "065", "066", "067", "068", "069", "000"]);
}

#[tokio::test]
async fn statuses_that_change_all_the_time_hold_no_other_namespace_back() {
    let resource = |kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind));
    let observation = |version: usize| {
        let version = version.to_string();
        let busy = |number| left_over_in("a-busy", number, &version);
        let quiet = ["b-quiet", "c-quiet"].map(|namespace| left_over_in(namespace, 0, "1"));
        let routes: Map<_, _> = (0..2 * ROUND).map(busy).chain(quiet).collect();
        let kinds = [
            (Kind::Gateway, (0..2 * ROUND).map(busy).collect()),
            (Kind::HttpRoute, routes),
        ];
        Observation {
            objects: Arc::new(kinds.into()),
            served: [
                (Kind::Gateway, resource("Gateway")),
                (Kind::HttpRoute, resource("HTTPRoute")),
            ]
            .into(),
        }
    };
    let mut site = site(Reports::default());
    let reconciler = &mut site.reconciler;
    let gateways = (0..2 * ROUND).map(|number| {
        let wanted = (StatusDigest::of(b"other"), DesiredStatus::Entries(Vec::new()));
        (left_over_in("a-busy", number, "").0, Some(wanted))
    });
    reconciler.desired.insert(Kind::Gateway, gateways.collect());
    let mut written = BTreeSet::new();
    for version in 0..3 {
        let jobs = reconciler.jobs(&observation(version));
        assert_eq!(jobs.len(), ROUND, "{version}");
        written.extend(jobs.into_iter().map(|job| job.name.namespace));
    }
    assert_eq!(written, ["a-busy", "b-quiet", "c-quiet"].map(Into::into).into());
}

#[tokio::test]
async fn statuses_take_less_than_a_hundred_requests_a_second() {
    let answer = async |_: Request<Body>| Ok::<_, std::io::Error>(Response::new(Body::empty()));
    let client = paced(Client::new(tower::service_fn(answer), "default"));
    let start = Instant::now();
    for _ in 0..28 {
        client.send(Request::new(Body::empty())).await.unwrap();
    }
    // Three times 9, and one more.
    assert!(start.elapsed() >= Duration::from_millis(290), "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_object_that_can_be_read_again_is_not_told_of() {
    let route = |malformed: bool| {
        let error = DecodeError {
            field: "spec.hostnames".to_owned(),
            message: "expected a list".to_owned(),
        };
        let route = Object {
            meta: Meta::default(),
            spec: HttpRouteSpec::default(),
            unread: Vec::new(),
            malformed: malformed.then_some(error),
        };
        let mut objects = Objects::default();
        objects
            .http_routes
            .insert(ObjectName::new("shop", "web"), Arc::new(route));
        Arc::new(objects)
    };
    let mut site = site(Reports::default());
    let reconciler = &mut site.reconciler;
    for gone in [route(false), Arc::default()] {
        reconciler.record_malformed(&route(true));
        assert_eq!(reconciler.malformed.len(), 1);
        reconciler.record_malformed(&gone);
        assert!(reconciler.malformed.is_empty());
    }
}

#[tokio::test]
async fn a_status_that_failed_once_waited_for_all_others_for_ever() {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute"));
    let observation = |busy: usize, version: usize| {
        let version = version.to_string();
        let busy = (0..busy).map(|number| left_over_in("busy", number, &version));
        let routes: Map<_, _> = busy.chain([left_over_in("quiet", 0, "1")]).collect();
        Observation {
            objects: Arc::new([(Kind::HttpRoute, routes)].into()),
            served: [(Kind::HttpRoute, resource.clone())].into(),
        }
    };
    let mut site = site(Reports::default());
    let reconciler = &mut site.reconciler;
    let first = reconciler.jobs(&observation(0, 0));
    assert!(reconciler.write(first).await, "the API server does not answer");
    // More changes than a round writes.
    let jobs = reconciler.jobs(&observation(3 * ROUND, 1));
    assert_eq!(jobs.len(), ROUND);
    let quiet = jobs.iter().filter(|job| *job.name.namespace == *"quiet");
    assert_eq!(quiet.count(), 1);
}
