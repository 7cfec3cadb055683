//! Gateways with more policies than their filter has room for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::{forward, gateway, graph, module, only, policy, to, with_session};
use crate::used::GatewayReferences;
use crate::{PolicyRoom, looked};
use limpet_api::ObjectName;
use limpet_model::graph::{Action, Match, PathMatch, Route, RuleName, Session, SessionUse};
use limpet_model::{Extent, Graph, Unsupported};
use limpet_resources::ResourceType;

/// The session has a policy with a cookie path of so many bytes for each of these paths.
fn rule(graph: &mut Graph, namespace: &str, name: &str, paths: &[&str], bytes: usize) -> Vec<Route> {
    let route = |path: &&str| {
        let called = format!("{namespace}-{name}-{path}");
        let content = policy(json!({"cookie": {"name": called, "path": format!("/{}", "p".repeat(bytes))}}));
        graph.policies.insert(called.as_str().into(), Arc::new(content));
        let mut route = with_session(forward(vec![to("v1", 1)]), &called);
        route.rule = RuleName(format!("HTTPRoute/{namespace}/web/{name}").into());
        route.matches = Match {
            path: PathMatch::Prefix(format!("/{path}")),
            ..Match::default()
        };
        if let Action::Forward(forward) = &mut route.action {
            forward.session = Session::Rule(SessionUse {
                policy: called.into(),
                scope: route.rule.0.clone(),
            });
        }
        route
    };
    paths.iter().map(route).collect()
}

/// A rule of `b`, and two of `a`, the first of them with two paths.
fn shared(bytes: usize) -> Graph {
    let mut policies = graph(Vec::new());
    let mut routes = rule(&mut policies, "a", "one", &["x", "y"], bytes);
    routes.extend(rule(&mut policies, "a", "two", &["x"], bytes));
    routes.extend(rule(&mut policies, "b", "one", &["x"], 0));
    Graph {
        policies: policies.policies,
        ..graph(routes)
    }
}

fn kept(graph: &Graph, most_bytes: usize) -> Vec<String> {
    let used = GatewayReferences::by(graph, &gateway());
    used.policies_within(graph, most_bytes).into_keys().collect()
}

#[test]
fn a_namespace_with_many_policies_took_the_room_of_those_of_others() {
    let graph = shared(1000);
    assert_eq!(kept(&graph, 10_000).len(), 4);
    assert_eq!(kept(&graph, 2500), ["a-one-x", "a-one-y", "b-one-x"]);
    assert_eq!(kept(&graph, 1500), ["a-one-x", "b-one-x"]);
}

#[test]
fn retained_policies_had_any_number_of_bytes() {
    let graph = shared(1000);
    let used = GatewayReferences::by(&graph, &gateway());
    let (a, b) = ("a".into(), "b".into());
    let config = policy(json!({"cookie": {"name": "c", "path": format!("/{}", "p".repeat(1000))}}));
    let retained = |most_bytes: usize| {
        let all = [(&a, "a1"), (&b, "b1"), (&b, "b2"), (&b, "b3")];
        let all = all.map(|(namespace, name)| (namespace, name, &config));
        used.retained_within(&graph, all, most_bytes)
    };
    assert_eq!(retained(10_000), ["a1", "b1", "b2", "b3"].into());
    // Of equal parts, each has 3,000: `a` uses as much, and `b` next to nothing.
    assert_eq!(retained(6000), ["b1", "b2"].into());
    assert_eq!(retained(2000), BTreeSet::new());
}

fn lost(graph: &Graph, room: &mut PolicyRoom) -> Vec<(String, Extent)> {
    let used = BTreeMap::from([(gateway(), GatewayReferences::by(graph, &gateway()))]);
    let lost = room.catch_up(graph, &used).into_iter();
    let lost = lost.inspect(|lost| assert!(lost.message.contains("namespace a "), "{}", lost.message));
    let lost = lost.inspect(|lost| assert_eq!(lost.gateway, Some(gateway())));
    lost.map(|Unsupported { rule, extent, .. }| (rule.to_string(), extent))
        .collect()
}

#[test]
fn policies_without_room_were_lost_in_silence() {
    let mut room = PolicyRoom::default();
    let large = shared(1_500_000);
    let [one, two] = ["one", "two"].map(|name| format!("HTTPRoute/a/web/{name}"));
    assert_eq!(lost(&shared(10), &mut room), []);
    assert_eq!(lost(&shared(10), &mut room), []);
    assert_eq!(lost(&large, &mut room), [(two.clone(), Extent::All)]);
    assert_eq!(
        lost(&shared(2_500_000), &mut room),
        [(one, Extent::Part), (two, Extent::All)]
    );
    assert_eq!(lost(&shared(10), &mut room), []);

    let other = ObjectName::new("shop", "other");
    let used = BTreeMap::from([(other, GatewayReferences::default())]);
    assert_eq!(room.catch_up(&large, &used), []);
}

#[test]
fn a_gateway_without_room_was_read_again_in_each_build() {
    let mut room = PolicyRoom::default();
    let mut graph = shared(2_500_000);
    let mut looks = |graph: &Graph| {
        looked::take();
        let found = lost(graph, &mut room);
        let looks = looked::take();
        assert_eq!(found, lost(graph, &mut PolicyRoom::default()));
        looks
    };
    assert_eq!(looks(&graph), 4 + 4, "policies and routes");
    assert_eq!(looks(&graph), 0);
    let other = policy(json!({"cookie": {"name": "c"}}));
    graph.policies.insert("of another Gateway".into(), Arc::new(other));
    assert_eq!(looks(&graph), 0);
    let host = |graph: &mut Graph, change: fn(&mut Vec<Route>)| {
        let gateway = Arc::make_mut(graph.gateways.get_mut(&gateway()).unwrap());
        let listener = gateway.ports.values_mut().flatten().next().unwrap();
        let name = listener.virtual_hosts.keys().next().unwrap().clone();
        let host = listener.virtual_hosts.get_mut(&name).unwrap();
        change(&mut Arc::make_mut(host).routes);
    };
    host(&mut graph, |routes| {
        routes[2].rule = RuleName("HTTPRoute/a/web/three".into());
    });
    assert_eq!(looks(&graph), 4 + 4, "another rule has a policy");
    host(&mut graph, |routes| drop(routes.remove(3)));
    assert_eq!(looks(&graph), 3 + 3, "a policy less");
}

#[test]
fn the_filter_has_the_policies_with_room_alone() {
    let filter = only(&shared(1_500_000), &module(), ResourceType::ExtensionConfig);
    let text = filter["typed_config"]["filter_config"]["value"].as_str().unwrap();
    let config: serde_json::Value = serde_json::from_str(text).unwrap();
    let policies: Vec<&String> = config["policies"].as_object().unwrap().keys().collect();
    assert_eq!(policies, ["a-one-x", "a-one-y", "b-one-x"]);
}
