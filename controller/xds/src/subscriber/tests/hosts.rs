//! Virtual hosts one by one, and within their route configurations.

use super::*;
use ResourceType::VirtualHost;

const HOSTS: [(ResourceType, &str, &str); 3] = [
    (VirtualHost, "web/a", "1"),
    (VirtualHost, "web/b", "1"),
    (VirtualHost, "other/a", "1"),
];

fn settled() -> Bed {
    let mut bed = Bed::new(ProtocolVariant::Delta);
    bed.stream.takes_hosts = true;
    bed.publish(&HOSTS);
    bed.publish(&[
        (Listener, "web", "1"),
        (Listener, "other", "1"),
        (RouteConfiguration, "web", "1"),
        (RouteConfiguration, "other", "1"),
    ]);
    bed.ask(Listener, &[]);
    bed.settle();
    bed
}

/// Route configurations as sent, without what is appended to their contents.
fn frames(responses: &[String]) -> Vec<String> {
    let short = |response: &String| response.split('\u{4a}').next().unwrap_or_default().to_owned();
    responses.iter().map(short).collect()
}

#[test]
fn hosts_follow_their_route_configuration_at_once() {
    let mut bed = settled();
    bed.ask(RouteConfiguration, &["web"]);
    let sent = bed.responses();
    assert_eq!(
        frames(&sent),
        ["RouteConfiguration web=1", "VirtualHost web/a=1 web/b=1"]
    );
    bed.ack(RouteConfiguration);
    bed.ask(VirtualHost, &[]);
    bed.ack(VirtualHost);
    bed.ask(RouteConfiguration, &["other"]);
    assert_eq!(
        frames(&bed.settle()),
        ["RouteConfiguration other=1", "VirtualHost other/a=1"]
    );
    assert!(bed.is_settled());
}

#[test]
fn a_changed_host_travels_alone() {
    let mut bed = settled();
    bed.ask(RouteConfiguration, &["web", "other"]);
    bed.settle();
    bed.publish(&[(VirtualHost, "web/b", "2")]);
    assert_eq!(bed.settle(), ["VirtualHost web/b=2"]);
    bed.publish(&[(VirtualHost, "web/b", ""), (VirtualHost, "web/c", "1")]);
    assert_eq!(bed.settle(), ["VirtualHost web/c=1 -web/b"]);
    assert!(bed.is_settled());
}

#[test]
fn a_node_that_comes_back_gets_what_changed_meanwhile() {
    let mut bed = settled();
    bed.ask(RouteConfiguration, &["web"]);
    bed.settle();
    let frame = bed
        .group
        .catalogue(ResourceType::RouteConfiguration)
        .get("web")
        .unwrap()
        .version()
        .to_string();
    bed.publish(&[(VirtualHost, "web/b", "2"), (VirtualHost, "web/a", "")]);
    bed.reconnect();
    bed.come_with(Listener, &[], &[("web", "1"), ("other", "1")]);
    let request = DeltaDiscoveryRequest {
        resource_names_subscribe: vec!["web".to_owned()],
        initial_resource_versions: [("web".to_owned(), frame)].into(),
        ..DeltaDiscoveryRequest::default()
    };
    bed.stream.delta_request(RouteConfiguration, request, &bed.group);
    assert_eq!(bed.responses(), [""; 0]);
    bed.come_with(VirtualHost, &[], &[("web/a", "1"), ("web/b", "1")]);
    assert_eq!(bed.settle(), ["VirtualHost web/b=2 -web/a"]);
}

#[test]
fn hosts_of_a_removed_listener_stay_while_it_drains() {
    let mut bed = settled();
    bed.ask(RouteConfiguration, &["web", "other"]);
    bed.settle();
    bed.publish(&[
        (Listener, "other", ""),
        (RouteConfiguration, "other", ""),
        (VirtualHost, "other/a", ""),
    ]);
    assert_eq!(bed.settle(), ["Listener -other", "RouteConfiguration -other"]);
    bed.drop_names(RouteConfiguration, &["other"]);
    assert!(
        bed.stream.types[VirtualHost]
            .has
            .keys()
            .all(|name| name.starts_with("web/"))
    );
    assert!(bed.is_settled());
}

#[test]
fn who_cannot_take_hosts_gets_them_inside() {
    for protocol in [ProtocolVariant::Delta, ProtocolVariant::StateOfTheWorld] {
        let mut bed = Bed::new(protocol);
        bed.publish(&HOSTS);
        bed.publish(&[(RouteConfiguration, "web", "1")]);
        bed.ask(RouteConfiguration, &["web"]);
        assert_eq!(bed.settle(), ["RouteConfiguration web=1\u{12}\u{1}1\u{12}\u{1}1"]);
        bed.publish(&[(VirtualHost, "web/b", "two")]);
        assert_eq!(bed.settle(), ["RouteConfiguration web=1\u{12}\u{1}1\u{12}\u{3}two"]);
    }
}

/// How many resources are touched while a node gets so many route configurations with two hosts each.
fn touched_by_routes(count: usize) -> usize {
    let mut bed = Bed::new(ProtocolVariant::Delta);
    bed.stream.takes_hosts = true;
    let names: Vec<String> = (0..count).map(|number| format!("https-443/{number}")).collect();
    let hosts = names
        .iter()
        .flat_map(|name| ["a", "b"].map(|host| format!("{name}/{host}")));
    let hosts: Vec<String> = hosts.collect();
    let hosts = hosts.iter().map(|host| (VirtualHost, host.as_str(), "1"));
    let routes = names.iter().map(|name| (RouteConfiguration, name.as_str(), "1"));
    bed.publish(&hosts.chain(routes).collect::<Vec<_>>());
    crate::group::touched::take();
    bed.ask(
        RouteConfiguration,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    bed.settle();
    crate::group::touched::take()
}

#[test]
fn each_route_configuration_looked_at_the_hosts_of_all() {
    let [few, many] = [50, 500].map(touched_by_routes);
    assert!(many <= 12 * few, "{few} {many}");
}

#[test]
fn what_a_node_has_by_wildcard_counts() {
    let mut bed = Bed::new(ProtocolVariant::Delta);
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let clusters = names.iter().map(|name| (Cluster, name.as_str(), "1"));
    bed.publish(&clusters.collect::<Vec<_>>());
    bed.ask(Cluster, &["*"]);
    bed.settle();
    assert_eq!(bed.stream.entries(), 100);
}
