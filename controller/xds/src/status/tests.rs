use std::time::Instant;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::google::rpc;

use super::*;
use crate::Snapshots;
use crate::group::touched;
use crate::subscriber::{NodeAbilities, ProtocolVariant, StreamService, Subscriber};
use ResourceType::{Cluster, ClusterLoadAssignment, ExtensionConfig};
use limpet_resources::{Resource, ResourceType, Resources};

const GROUP: &str = "default/web";

fn published(content: &str) -> Resources {
    let resource = |each| Resource::new(each, "a", content.into());
    [Cluster, ExtensionConfig].map(resource).into_iter().collect()
}

fn version(content: &str) -> ResourceVersion {
    published(content).get(Cluster, "a").unwrap().version()
}

/// A stream of a node, by hand.
struct Stream(Arc<StreamConnection>, Arc<GroupCell>);

impl Stream {
    fn connect(snapshots: &Snapshots, number: u64, node: &str, service: StreamService) -> Self {
        let stream = Arc::new(StreamConnection::new(
            node.into(),
            std::net::SocketAddr::from(([10, 0, 0, 1], 1)).into(),
            None,
            Subscriber::new(ProtocolVariant::Delta, service, NodeAbilities::default()),
        ));
        let cell = snapshots.shared().connect(GROUP, number, Arc::clone(&stream));
        Self(stream, cell.unwrap())
    }

    fn ask(&self, resource_type: ResourceType) {
        self.request(resource_type, |request| {
            request.resource_names_subscribe.push("a".to_owned());
        });
    }

    fn answer(&self, resource_type: ResourceType, refusal: Option<&str>) {
        let response = self.0.subscriber().next(&self.1.group(), Instant::now()).unwrap();
        assert_eq!(response.resource_type, resource_type);
        self.request(resource_type, |request| {
            request.response_nonce = response.nonce.to_string();
            request.error_detail = refusal.map(|message| rpc::Status {
                message: message.to_owned(),
                ..rpc::Status::default()
            });
        });
        assert!(self.0.subscriber().next(&self.1.group(), Instant::now()).is_none());
    }

    fn request(&self, resource_type: ResourceType, change: impl FnOnce(&mut DeltaDiscoveryRequest)) {
        let mut request = DeltaDiscoveryRequest::default();
        change(&mut request);
        self.0
            .subscriber()
            .delta_request(resource_type, request, &self.1.group());
    }
}

#[test]
fn an_envoy_with_two_streams_counts_twice() {
    let snapshots = Snapshots::new();
    let connect = |number: u64, node: &str, version: Option<&str>| {
        let subscriber = Subscriber::new(
            ProtocolVariant::Delta,
            StreamService::Aggregated,
            NodeAbilities::default(),
        );
        let origin = std::net::SocketAddr::from(([10, 0, 0, 1], 1)).into();
        let stream = StreamConnection::new(node.into(), origin, None, subscriber);
        let stream = Arc::new(stream.with_version(version.map(str::to_owned)));
        snapshots.shared().connect(GROUP, number, stream).unwrap()
    };
    let _cells = [
        connect(1, "a", Some("1.40.0")),
        connect(2, "a", Some("1.40.0")),
        connect(3, "b", Some("1.38.3")),
        connect(4, "c", None),
    ];
    let expected = [("1.38.3".to_owned(), 1), ("1.40.0".to_owned(), 1)];
    assert_eq!(snapshots.status().versions(), expected.into());
}

#[test]
fn a_group_has_settled_when_every_node_has_everything() {
    let snapshots = Snapshots::new();
    let status = snapshots.status();
    assert!(!status.is_settled(GROUP), "nothing is published");
    snapshots.publish(GROUP, published("1"));
    assert!(status.is_settled(GROUP), "nobody is connected");
    assert!(status.progress(GROUP, Cluster, "a", version("1")).is_complete());

    let one = Stream::connect(&snapshots, 1, "one", StreamService::Aggregated);
    assert!(!status.is_settled(GROUP), "it may have anything");
    let progress = status.progress(GROUP, Cluster, "a", version("1"));
    assert_eq!((progress.unsubscribed, progress.is_complete()), (1, false));
    one.ask(Cluster);
    assert_eq!(status.progress(GROUP, Cluster, "a", version("1")).pending, 1);
    one.answer(Cluster, None);
    assert!(!status.is_settled(GROUP), "the filter is published, too");
    one.ask(ExtensionConfig);
    one.answer(ExtensionConfig, None);
    assert!(status.is_settled(GROUP) && status.nodes(GROUP)[0].settled);
    assert_eq!(status.acknowledged(GROUP, "one").len(), 2);

    let two = Stream::connect(&snapshots, 2, "two", StreamService::ExtensionConfig);
    assert_eq!((status.connected(GROUP), status.is_settled(GROUP)), (2, false));
    two.ask(ExtensionConfig);
    two.answer(ExtensionConfig, None);
    assert!(status.is_settled(GROUP));

    snapshots.publish(GROUP, published("2"));
    assert!(!status.is_settled(GROUP));
    let progress = status.progress(GROUP, ExtensionConfig, "a", version("1"));
    assert_eq!(
        (progress.acknowledged, progress.nodes()),
        (2, 2),
        "they have the old one"
    );
    assert_eq!(status.progress(GROUP, ExtensionConfig, "a", version("2")).pending, 2);

    snapshots.shared().disconnect(&one.1, 1);
    two.answer(ExtensionConfig, None);
    assert_eq!((status.connected(GROUP), status.is_settled(GROUP)), (1, true));
}

#[test]
fn a_group_has_settled_when_what_is_gone_is_gone_everywhere() {
    let snapshots = Snapshots::new();
    let status = snapshots.status();
    snapshots.publish(GROUP, published("1"));
    let one = Stream::connect(&snapshots, 1, "one", StreamService::Aggregated);
    for each in [Cluster, ExtensionConfig] {
        one.ask(each);
        one.answer(each, None);
    }
    assert!(status.is_settled(GROUP));
    snapshots.remove_one(GROUP, Cluster, "a");
    assert!(!status.is_settled(GROUP));
    one.answer(Cluster, None);
    assert!(status.is_settled(GROUP));
}

#[test]
fn of_a_nodes_streams_the_one_that_is_behind_counts() {
    let snapshots = Snapshots::new();
    let status = snapshots.status();
    snapshots.publish(GROUP, published("1"));
    let streams = [1, 2].map(|number| Stream::connect(&snapshots, number, "one", StreamService::Aggregated));
    for stream in &streams {
        stream.ask(Cluster);
        assert!(!status.progress(GROUP, Cluster, "a", version("1")).is_complete());
        stream.answer(Cluster, None);
    }
    let progress = status.progress(GROUP, Cluster, "a", version("1"));
    assert_eq!((progress.nodes(), progress.is_complete()), (1, true));
}

#[test]
fn a_refusal_has_the_nodes_words() {
    let snapshots = Snapshots::new();
    let status = snapshots.status();
    snapshots.publish(GROUP, published("1"));
    let one = Stream::connect(&snapshots, 1, "one", StreamService::Aggregated);
    one.ask(Cluster);
    one.answer(Cluster, Some("no such thing"));
    let refusal = RefusedResource {
        resource_type: Cluster,
        name: "a".into(),
        version: version("1"),
        node: "one".into(),
        message: "no such thing".into(),
    };
    assert_eq!(status.refusals(GROUP, 3), [refusal]);
    assert_eq!(status.progress(GROUP, Cluster, "a", version("1")).refused, 1);
    assert!(!status.is_settled(GROUP));
}

#[test]
fn a_node_that_refuses_what_it_never_had_is_not_behind() {
    let snapshots = Snapshots::new();
    let status = snapshots.status();
    let behind = |number: &str| status.behind(GROUP, ExtensionConfig, "a", version(number));
    snapshots.publish(GROUP, published("1"));
    let one = Stream::connect(&snapshots, 1, "one", StreamService::Aggregated);
    assert!(behind("1").is_empty(), "it will get this one");
    one.ask(ExtensionConfig);
    assert_eq!(behind("1"), ["one".into()], "it may have it by now, or not");
    one.answer(ExtensionConfig, Some("no such key"));
    assert!(behind("1").is_empty());
    let two = Stream::connect(&snapshots, 2, "two", StreamService::Aggregated);
    two.ask(ExtensionConfig);
    two.answer(ExtensionConfig, None);
    assert!(behind("1").is_empty());

    snapshots.publish(GROUP, published("2"));
    assert_eq!(behind("2").len(), 2);
    for stream in [&one, &two] {
        stream.answer(ExtensionConfig, Some("no such key"));
    }
    assert_eq!(behind("2"), ["two".into()], "it uses the former one");

    let three = Stream::connect(&snapshots, 3, "three", StreamService::Aggregated);
    three.request(ExtensionConfig, |request| {
        request.resource_names_subscribe = vec!["a".to_owned()];
        request.initial_resource_versions = [("a".to_owned(), "unknown".to_owned())].into();
    });
    three.answer(ExtensionConfig, Some("no such key"));
    assert_eq!(behind("2"), ["three".into(), "two".into()]);
}

#[tokio::test]
async fn changes_are_told() {
    let snapshots = Snapshots::new();
    let mut status = snapshots.status();
    snapshots.publish(GROUP, published("1"));
    status.changed().await;
    let one = Stream::connect(&snapshots, 1, "one", StreamService::Aggregated);
    status.changed().await;
    snapshots.shared().disconnect(&one.1, 1);
    status.changed().await;
    snapshots.publish(GROUP, published("1"));
    let wait = std::time::Duration::from_millis(1);
    assert!(
        tokio::time::timeout(wait, status.changed()).await.is_err(),
        "nothing changed"
    );
}

#[test]
fn groups_that_nobody_knows_are_not_kept() {
    let snapshots = Snapshots::new();
    let status = snapshots.status();
    let one = || Resource::new(Cluster, "a", "1".into());
    assert!(!snapshots.publish_one(GROUP, one()));
    snapshots.remove_one(GROUP, Cluster, "a");
    snapshots.forget(GROUP);
    assert!(status.groups().is_empty());
    let stream = Stream::connect(&snapshots, 1, "one", StreamService::Aggregated);
    assert_eq!(status.groups(), BTreeMap::from([(GROUP.into(), 1)]));
    snapshots.publish(GROUP, published("1"));
    assert!(snapshots.publish_one(GROUP, one()));
    snapshots.forget(GROUP);
    snapshots.shared().disconnect(&stream.1, 1);
    assert!(status.groups().is_empty());
}

#[test]
fn streams_that_came_and_went_made_whole_route_configurations_again() {
    let snapshots = Snapshots::new();
    let hosts = (0..50).map(|host| Resource::new(ResourceType::VirtualHost, format!("web/{host}"), "1".into()));
    let routes = Resource::new(ResourceType::RouteConfiguration, "web", "1".into());
    snapshots.publish(GROUP, hosts.chain([routes]).collect());
    touched::take();
    for number in 0..100 {
        let stream = Stream::connect(&snapshots, number, "one", StreamService::Aggregated);
        snapshots.shared().disconnect(&stream.1, number);
    }
    let touched = touched::take();
    assert!(touched < 110, "{touched}");
    snapshots.publish(GROUP, Resources::new());
    assert!(snapshots.shared().find(GROUP).unwrap().group().wholes().is_empty());
}

#[test]
fn a_group_that_was_busy_kept_other_groups_from_being_published() {
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, published("1"));
    let cell = snapshots.shared().find(GROUP).unwrap();
    let busy = cell.group();
    let of_busy = snapshots.clone();
    let waiting = std::thread::spawn(move || of_busy.publish(GROUP, published("2")));
    let (done, is_done) = std::sync::mpsc::channel();
    let of_others = snapshots.clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        of_others.publish("default/other", published("1"));
        done.send(()).unwrap();
    });
    is_done.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    drop(busy);
    waiting.join().unwrap();
}

#[test]
fn the_first_refusals_are_told() {
    let snapshots = Snapshots::new();
    let status = snapshots.status();
    let names: Vec<String> = (0..5).map(|number| number.to_string()).collect();
    let clusters = names
        .iter()
        .map(|name| Resource::new(Cluster, name.as_str(), "1".into()));
    snapshots.publish(GROUP, clusters.collect());
    for (number, node) in [(1, "one"), (2, "two")] {
        let stream = Stream::connect(&snapshots, number, node, StreamService::Aggregated);
        stream.request(Cluster, |request| request.resource_names_subscribe = names.clone());
        loop {
            let response = stream.0.subscriber().next(&stream.1.group(), Instant::now());
            let Some(response) = response else { break };
            stream.request(Cluster, |request| {
                request.response_nonce = response.nonce.to_string();
                request.error_detail = Some(rpc::Status::default());
            });
        }
    }
    let first = |most| {
        status
            .refusals(GROUP, most)
            .into_iter()
            .map(|refusal| (refusal.name, refusal.node))
    };
    let all: Vec<_> = first(100).collect();
    assert_eq!(all.len(), 10);
    assert!(first(3).eq(all[..3].iter().cloned()));
}

/// Resources that are touched for a change, its acknowledgement and the status.
fn touched_by_a_change(count: usize) -> usize {
    let snapshots = Snapshots::new();
    let status = snapshots.status();
    let names: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    let assignment = |name: &str, content: &str| Resource::new(ClusterLoadAssignment, name, content.into());
    let clusters = names
        .iter()
        .map(|name| Resource::new(Cluster, name.as_str(), "1".into()));
    let assignments = names.iter().map(|name| assignment(name, "1"));
    snapshots.publish(GROUP, clusters.chain(assignments).collect());
    let one = Stream::connect(&snapshots, 1, "one", StreamService::Aggregated);
    one.request(Cluster, |_| ());
    one.answer(Cluster, None);
    one.request(ClusterLoadAssignment, |request| {
        request.resource_names_subscribe = names;
    });
    one.answer(ClusterLoadAssignment, None);
    assert!(status.is_settled(GROUP));

    touched::take();
    assert!(snapshots.publish_one(GROUP, assignment("7", "2")));
    assert!(!status.nodes(GROUP)[0].settled);
    one.answer(ClusterLoadAssignment, None);
    assert!(status.nodes(GROUP)[0].settled && status.is_settled(GROUP));
    touched::take()
}

#[test]
fn one_change_costs_the_same_among_many_resources() {
    let (few, many) = (touched_by_a_change(10), touched_by_a_change(1_000));
    assert_eq!(few, many);
    assert!(few < 20, "{few}");
}
