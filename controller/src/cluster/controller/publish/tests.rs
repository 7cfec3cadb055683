use super::*;

use tokio::sync::watch;

use crate::cluster::controller::target::ObjectTarget;
use crate::cluster::reconcile::delivery::Delivery;
use limpet_model::Settings;
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

#[test]
fn contours_envoys_get_resources_before_there_is_any_object() {
    let (mut publisher, snapshots) = publisher();
    let built = built(&mut publisher);
    assert_eq!(built.reports, Reports::default());
    let gateway = ObjectName::new("web", "contour");
    let changes = built.changes.as_ref().unwrap();
    let filters = changes.resources[&gateway].of_type(ResourceType::ExtensionConfig);
    assert_eq!(filters.count(), 1);
    publisher.publish(built, |_, _| Vec::new());
    assert_eq!(publisher.gateways(), [gateway].into());
    let groups = snapshots.status().groups();
    let groups: Vec<_> = groups.into_keys().map(|group| group.to_string()).collect();
    assert_eq!(groups, ["web/contour"]);
}

#[test]
fn what_dns_has_the_endpoints_of_gets_none_from_us() {
    let (mut publisher, _) = publisher();
    let mut built = built(&mut publisher);
    let changes = built.changes.as_mut().unwrap();
    let service = |name: &str| ObjectName::new("shop", name);
    for (name, external_name) in [("inside", None), ("outside", Some("shop.example".to_owned()))] {
        let cluster = Cluster {
            service: service(name),
            port: 80,
            port_name: "http".to_owned(),
            protocol: Protocol::Http1,
            tls: None,
            balance: Balance::RoundRobin,
            health_check: None,
            external_name,
            limits: ClusterLimits::default(),
            never_begins: false,
            session: None,
        };
        let graph = Arc::make_mut(&mut changes.state.graph);
        graph.clusters.insert(ClusterName(name.into()), Arc::new(cluster));
        for resources in changes.resources.values_mut() {
            resources.insert(Resource::new(ResourceType::Cluster, name, Vec::new()));
        }
    }
    let mut asked = Vec::new();
    publisher.publish(built, |service, _| {
        asked.push(service.clone());
        Vec::new()
    });
    assert_eq!(asked, [service("inside")]);
    assert_eq!(publisher.clusters_of(&service("inside"), "http"), 1);
    assert_eq!(publisher.clusters_of(&service("outside"), "http"), 0);
    let both = [service("inside"), service("outside")].into();
    assert_eq!(publisher.publish_endpoints(&both, |_, _| Vec::new()), 1);
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
    let mut publish = |gateway: &str, keys: Vec<_>| {
        let contour = serde_json::json!({"gateway": gateway});
        let settings = Settings {
            contour: Some(serde_json::from_value(contour).unwrap()),
            ..Settings::default()
        };
        let inputs = Arc::new(FilterInputs::with_keys(FilterKeys::Listed(keys)));
        let built = publisher.builder(inputs, false).build(Arc::default(), &settings);
        publisher.publish(built, |_, _| Vec::new());
        let wanted = wanted.borrow().as_ref().map(|wanted| wanted.generation);
        (wanted, publisher.published_filter().map(|filter| filter.generation))
    };
    assert_eq!(publish("web/one", Vec::new()), (Some(1), Some(1)));
    assert_eq!(publish("web/two", Vec::new()), (Some(2), Some(1)));
    let key = serde_json::json!({"id": 1, "env": "KEY", "state": "signing"});
    let key = serde_json::from_value(key).unwrap();
    assert_eq!(publish("web/two", vec![key]), (Some(3), Some(3)));
}
