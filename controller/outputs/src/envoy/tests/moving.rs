//! Gateways whose sessions are moved by their application.

use std::collections::BTreeMap;
use std::sync::Arc;

use limpet_core::Filter;
use serde_json::{Value, json};

use super::{acting, cluster, forward, gateway, graph, inputs, module, only, to, with_session};
use crate::envoy::{ClusterHosts, EnvoyOptions, MovingFilter, host_names, hosts_left_out};
use limpet_api::ObjectName;
use limpet_model::Graph;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::graph::{Action, ClusterName, Session, SessionUse};
use limpet_resources::ResourceType;

fn name(name: &str) -> ClusterName {
    ClusterName(name.into())
}

fn filter(graph: &Graph) -> Option<MovingFilter> {
    MovingFilter::of(graph, &gateway(), &EnvoyOptions::default(), &inputs())
}

fn endpoint(address: &str, pod: Option<&str>) -> Endpoint {
    Endpoint {
        address: address.parse().unwrap(),
        state: EndpointState::Ready,
        owner: None,
        pod: pod.map(Arc::from),
    }
}

fn text(resource: &Value, options: &EnvoyOptions) -> Value {
    let value = if *options == module() {
        &resource["typed_config"]["filter_config"]["value"]
    } else {
        &resource["typed_config"]["config"]["configuration"]["value"]
    };
    serde_json::from_str(value.as_str().unwrap()).unwrap()
}

#[test]
fn only_clusters_whose_sessions_move_are_needed() {
    assert!(filter(&graph(vec![with_session(forward(vec![to("v1", 1)]), "web")])).is_none());
    let split = with_session(forward(vec![to("v1", 1), to("v2", 0)]), "moving");
    let both = filter(&graph(vec![split])).unwrap();
    assert!(both.needs(&name("v1")) && both.needs(&name("v2")) && !both.needs(&name("v3")));
    let others = vec![
        with_session(forward(vec![to("v1", 1)]), "moving"),
        with_session(forward(vec![to("v2", 1)]), "web"),
    ];
    let one = filter(&graph(others)).unwrap();
    assert!(one.needs(&name("v1")) && !one.needs(&name("v2")));
}

#[test]
fn sessions_of_a_destination_move_within_it() {
    let mut action = forward(vec![to("v1", 1), to("v2", 1)]);
    action.session = Session::Destinations;
    let mut graph = graph(vec![acting(Action::Forward(action))]);
    for (cluster, policy) in [("v1", "web"), ("v2", "moving")] {
        let scope = "scope".into();
        let policy = policy.into();
        Arc::make_mut(graph.clusters.get_mut(&name(cluster)).unwrap()).session = Some(SessionUse { policy, scope });
    }
    let filter = filter(&graph).unwrap();
    assert!(!filter.needs(&name("v1")) && filter.needs(&name("v2")));
    assert_eq!(cluster("v1").session, None);
}

#[test]
fn the_filter_reads_the_hosts_and_nothing_else_is_new() {
    let graph = graph(vec![with_session(forward(vec![to("v1", 1)]), "moving")]);
    let endpoints = [
        endpoint("10.0.0.7:8080", Some("web-0")),
        endpoint("[2001:db8::7]:8080", Some("web-0")),
        endpoint("10.0.0.9:8080", None),
    ];
    let hosts = ClusterHosts {
        service: ObjectName::new("shop", "v1"),
        names: host_names(&endpoints),
    };
    let hosts = BTreeMap::from([(name("v1"), hosts)]);
    for options in [EnvoyOptions::default(), module()] {
        let moving = MovingFilter::of(&graph, &gateway(), &options, &inputs()).unwrap();
        let resource = moving.with(&hosts);
        let mut with = text(&crate::json::resource(&resource).unwrap(), &options);
        let key = |_: &str| Some("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=".to_owned());
        assert!(Filter::from_json(with.to_string().as_bytes(), &key).is_ok());
        let hosts = with.as_object_mut().unwrap().remove("hosts").unwrap();
        assert_eq!(
            hosts,
            json!({"v1": {"10.0.0.7:8080": "web-0", "[2001:db8::7]:8080": "web-0", "10.0.0.9:8080": ""}})
        );
        let without = only(&graph, &options, ResourceType::ExtensionConfig);
        assert_eq!(with, text(&without, &options));
        assert_eq!(without["name"], resource.name().to_string());
    }
}

#[test]
fn a_namespace_with_many_hosts_took_the_room_of_those_of_others() {
    let hosts = |service: &str, namespace: &str, count: u32| {
        let endpoint = |host| endpoint(&format!("{}:80", std::net::Ipv4Addr::from(host)), None);
        let names = host_names(&(0..count).map(endpoint).collect::<Vec<_>>());
        let service = ObjectName::new(namespace, service);
        (name(&service.name), ClusterHosts { service, names })
    };
    let many = (0..9).map(|number| hosts(&format!("a-{number}"), "a", 8000));
    let clusters: BTreeMap<_, _> = many.chain([hosts("b", "b", 2)]).collect();
    let moving = filter(&graph(vec![with_session(forward(vec![to("v1", 1)]), "moving")])).unwrap();
    let resource = crate::json::resource(&moving.with(&clusters)).unwrap();
    let filter = text(&resource, &EnvoyOptions::default());
    assert_eq!(
        filter["hosts"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["a-0", "a-1", "b"]
    );
    let left_out = hosts_left_out(&clusters).into_iter().map(|service| service.to_string());
    assert_eq!(
        left_out.collect::<Vec<_>>(),
        (2..9).map(|number| format!("a/a-{number}")).collect::<Vec<_>>()
    );
}
