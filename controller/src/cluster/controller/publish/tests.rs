use super::*;

use tokio::sync::watch;

use crate::cluster::controller::guard::EndpointGuard;
use crate::cluster::controller::target::ObjectTarget;
use crate::cluster::looked;
use crate::cluster::reconcile::delivery::Delivery;
use limpet_model::Settings;
use limpet_model::endpoints::EndpointState;
use limpet_model::graph::{Balance, Cluster, ClusterLimits, Protocol};
use limpet_outputs::istio::IstioOptions;
use limpet_outputs::{ControlPlane, FilterKeys};
use limpet_resources::Resource;

pub(super) fn publisher() -> (Publisher, Snapshots) {
    let snapshots = Snapshots::new();
    let target = PublicationTarget {
        delivery: Delivery::Xds(snapshots.status()),
        objects: None,
        envoys: None,
    };
    (publisher_to(target, &snapshots), snapshots)
}

fn publisher_to(target: PublicationTarget, snapshots: &Snapshots) -> Publisher {
    let (metrics, _) = Metrics::new();
    Publisher::new(
        snapshots.clone(),
        metrics,
        EnvoyOptions::default(),
        target,
        SessionRegistry::new(),
    )
}

fn built(publisher: &mut Publisher) -> BuildResult {
    let contour = serde_json::json!({"gateway": "web/contour"});
    let settings = Settings {
        contour: Some(serde_json::from_value(contour).unwrap()),
        ..Settings::default()
    };
    let inputs = Arc::new(FilterInputs::with_keys(FilterKeys::Listed(Vec::new())));
    publisher.builder(inputs, false).build(Arc::default(), &settings)
}

/// Adds a cluster of the port `http` to the Envoys of each Gateway.
fn add_cluster(built: &mut BuildResult, name: &str, service: &ObjectName, external_name: Option<&str>) {
    let cluster = Cluster {
        service: service.clone(),
        port: 80,
        port_name: "http".to_owned(),
        protocol: Protocol::Http1,
        tls: None,
        balance: Balance::RoundRobin,
        health_check: None,
        external_name: external_name.map(str::to_owned),
        limits: ClusterLimits::default(),
        never_begins: false,
        session: None,
    };
    let changes = built.changes.as_mut().unwrap();
    let graph = Arc::make_mut(&mut changes.state.graph);
    graph.clusters.insert(ClusterName(name.into()), Arc::new(cluster));
    for resources in changes.resources.values_mut() {
        resources.insert(Resource::new(ResourceType::Cluster, name, Vec::new()));
    }
}

fn endpoints(count: u32) -> Vec<Endpoint> {
    let endpoint = |n: u32| Endpoint {
        address: (std::net::Ipv4Addr::from(n), 80).into(),
        state: EndpointState::Ready,
        owner: None,
        pod: None,
    };
    (0..count).map(endpoint).collect()
}

/// Adds so many clusters of one port, as health checks of routes do.
fn with_clusters(publisher: &mut Publisher, service: &ObjectName, count: usize) -> BuildResult {
    let mut built = built(publisher);
    for number in 0..count {
        add_cluster(&mut built, &format!("shop/shop/80#{number:04}"), service, None);
    }
    built
}

#[test]
fn endpoints_of_a_port_were_made_for_each_of_its_clusters() {
    const CLUSTERS: usize = 100;
    let ((mut publisher, _), service) = (publisher(), ObjectName::new("shop", "shop"));
    let built = with_clusters(&mut publisher, &service, CLUSTERS);
    let mut asked = 0;
    let mut source = |_: &ObjectName, _: &str, _: usize| {
        asked += 1;
        endpoints(10)
    };
    looked::take_count();
    publisher.publish(built, &mut source);
    assert_eq!(looked::take_count(), 10, "endpoints that sessions are counted at");
    let updates = publisher.publish_endpoints(&[service].into(), &mut source);
    assert_eq!(looked::take_count(), 10);
    assert_eq!((asked, updates), (2, 100));
}

#[test]
fn many_clusters_of_a_port_had_more_endpoints_than_there_is_room_for() {
    const CLUSTERS: usize = 200;
    let ((mut publisher, _), service) = (publisher(), ObjectName::new("shop", "shop"));
    let mut guard = EndpointGuard::new(
        watch::channel(None).1,
        watch::channel(None).0,
        publisher.target.delivery.clone(),
    );
    for clusters in [1, CLUSTERS] {
        let built = with_clusters(&mut publisher, &service, clusters);
        let mut entries = 0;
        let (_, services) = publisher.publish(built, |service, port, clusters| {
            let kept = guard.endpoints(service, port, clusters, endpoints(4000));
            assert_eq!(kept.len(), kept.capacity());
            entries += clusters * kept.len();
            kept
        });
        guard.watch(&services, |service, port| publisher.clusters_of(service, port));
        assert!((4000..=500_000).contains(&entries), "{entries}");
    }
    let sent = publisher.sent.values();
    let sent = sent.flat_map(|sent| sent.of_type(ResourceType::ClusterLoadAssignment));
    let sizes: Vec<usize> = sent.map(|assignment| assignment.body().len()).collect();
    assert_eq!(
        sizes,
        vec![sizes[0]; CLUSTERS],
        "the first one has no more than the others"
    );
}

#[test]
fn contours_envoys_get_resources_before_there_is_any_object() {
    let (mut publisher, snapshots) = publisher();
    let built = built(&mut publisher);
    assert_eq!(built.reports, Reports::default());
    let gateway = ObjectName::new("web", "contour");
    let changes = built.changes.as_ref().unwrap();
    let filters = changes.resources[&gateway].of_type(ResourceType::ExtensionConfig);
    assert_eq!(filters.count(), 1);
    publisher.publish(built, |_, _, _| Vec::new());
    assert_eq!(publisher.gateways(), [gateway].into());
    let groups = snapshots.status().groups();
    let groups: Vec<_> = groups.into_keys().map(|group| group.to_string()).collect();
    assert_eq!(groups, ["web/contour"]);
}

#[test]
fn what_dns_has_the_endpoints_of_gets_none_from_us() {
    let (mut publisher, _) = publisher();
    let mut built = built(&mut publisher);
    let service = |name: &str| ObjectName::new("shop", name);
    add_cluster(&mut built, "inside", &service("inside"), None);
    add_cluster(&mut built, "outside", &service("outside"), Some("shop.example"));
    let mut asked = Vec::new();
    publisher.publish(built, |service, _, _| {
        asked.push(service.clone());
        Vec::new()
    });
    assert_eq!(asked, [service("inside")]);
    assert_eq!(publisher.clusters_of(&service("inside"), "http"), 1);
    assert_eq!(publisher.clusters_of(&service("outside"), "http"), 0);
    let both = [service("inside"), service("outside")].into();
    assert_eq!(publisher.publish_endpoints(&both, |_, _, _| Vec::new()), 1);
}

#[test]
fn changes_of_objects_restarted_the_wait_for_a_keyring() {
    let (desired, wanted) = watch::channel(None);
    let snapshots = Snapshots::new();
    let target = PublicationTarget {
        delivery: Delivery::Xds(snapshots.status()),
        objects: Some(ObjectTarget {
            plane: Arc::new(ControlPlane::Istio(IstioOptions::default())),
            desired,
        }),
        envoys: None,
    };
    let mut publisher = publisher_to(target, &snapshots);
    let mut publish = |gateway: &str, keys: Vec<_>, skew: &str| {
        let contour = serde_json::json!({"gateway": gateway});
        let settings = Settings {
            contour: Some(serde_json::from_value(contour).unwrap()),
            ..Settings::default()
        };
        let inputs = FilterInputs {
            clock_skew: skew.parse().unwrap(),
            ..FilterInputs::with_keys(FilterKeys::Listed(keys))
        };
        let built = publisher
            .builder(Arc::new(inputs), false)
            .build(Arc::default(), &settings);
        publisher.publish(built, |_, _, _| Vec::new());
        let wanted = wanted.borrow().as_ref().map(|wanted| wanted.generation);
        (wanted, publisher.published_filter().map(|filter| filter.generation))
    };
    assert_eq!(publish("web/one", Vec::new(), "1m"), (Some(1), Some(1)));
    assert_eq!(publish("web/two", Vec::new(), "1m"), (Some(2), Some(1)));
    // No object differs, so none is judged again.
    assert_eq!(publish("web/two", Vec::new(), "2m"), (Some(2), Some(2)));
    let key = serde_json::json!({"id": 1, "env": "KEY", "state": "signing"});
    let key = serde_json::from_value(key).unwrap();
    assert_eq!(publish("web/two", vec![key], "2m"), (Some(3), Some(3)));
}
