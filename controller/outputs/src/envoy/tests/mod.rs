//! Graphs, and the JSON of what Envoy gets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod bootstrap;
mod clusters;
mod filter;
mod listeners;
mod moving;
mod paths;
mod policy_room;
mod routes;
mod served;
mod sessions;

use std::collections::BTreeMap;
use std::sync::Arc;

use limpet_core::config::schema::{KeyConfig, KeyStateConfig, PolicyConfig};
use serde_json::{Value, json};

use super::{EnvoyOptions, FilterBuild, ModuleFilter, resources};
use crate::json;
use crate::{FilterInputs, FilterKeys};
use limpet_api::ObjectName;
use limpet_model::graph::{
    Action, Cluster, ClusterName, Cors, Destination, Forward, Gateway, HeaderChanges, Hostname, Listener, Match,
    PathMatch, Protocol, Route, RuleName, Session, SessionUse, Target, ValueMatch, VirtualHost,
};
use limpet_model::{Graph, Map};
use limpet_resources::ResourceType;

pub(super) fn gateway() -> ObjectName {
    ObjectName::new("shop", "web")
}

pub(super) fn module() -> EnvoyOptions {
    EnvoyOptions {
        filter: FilterBuild::Module(ModuleFilter::Name("limpet".to_owned())),
        ..EnvoyOptions::default()
    }
}

pub(super) fn inputs() -> FilterInputs {
    FilterInputs::with_keys(FilterKeys::Listed(vec![KeyConfig {
        id: 1,
        env: Some("LIMPET_KEY".to_owned()),
        inline: None,
        state: KeyStateConfig::Signing,
    }]))
}

pub(super) fn policy(json: Value) -> PolicyConfig {
    serde_json::from_value(json).unwrap()
}

/// Policies called `web`, `strict` and `moving`, which is also strict.
pub(super) fn policies() -> BTreeMap<String, PolicyConfig> {
    BTreeMap::from([
        (
            "moving".to_owned(),
            policy(json!({"cookie": {"name": "moving"}, "strict": true, "move": {"header": "x-move"}})),
        ),
        (
            "strict".to_owned(),
            policy(json!({"cookie": {"name": "strict"}, "strict": true})),
        ),
        ("web".to_owned(), policy(json!({"cookie": {"name": "web"}}))),
    ])
}

/// A graph with these routes on port 80 at all hosts.
pub(super) fn graph(routes: Vec<Route>) -> Graph {
    let listener = Listener {
        name: "http".to_owned(),
        hostname: Hostname::Any,
        certificates: None,
        tls_minimum: None,
        virtual_hosts: Listener::hosts([VirtualHost {
            hostname: Hostname::Any,
            routes,
        }]),
    };
    listening(BTreeMap::from([(80, vec![listener])]))
}

pub(super) fn listening(ports: BTreeMap<u16, Vec<Listener>>) -> Graph {
    let clusters = ["v1", "v2"].map(|name| (ClusterName(name.into()), cluster(name)));
    Graph {
        gateways: Map::unit(
            gateway(),
            Arc::new(Gateway {
                ports,
                ..Gateway::default()
            }),
        ),
        clusters: clusters.into_iter().collect(),
        policies: policies().into_iter().collect(),
        ..Graph::default()
    }
}

pub(super) fn cluster(service: &str) -> Cluster {
    Cluster {
        port_name: "http".to_owned(),
        ..Cluster::new(ObjectName::new("shop", service), 80, Protocol::Http1)
    }
}

pub(super) fn route(destinations: Vec<Destination>) -> Route {
    acting(Action::Forward(forward(destinations)))
}

pub(super) fn acting(action: Action) -> Route {
    Route {
        rule: RuleName("HTTPRoute/shop/web/rule".into()),
        matches: Match::default(),
        action,
        request_headers: HeaderChanges::default(),
        response_headers: HeaderChanges::default(),
        cors: None,
    }
}

pub(super) fn forward(destinations: Vec<Destination>) -> Forward {
    Forward {
        destinations,
        ..Forward::default()
    }
}

/// With the rule's sessions, under this policy.
pub(super) fn with_session(mut forward: Forward, policy: &str) -> Route {
    forward.session = Session::Rule(SessionUse {
        policy: policy.into(),
        scope: "HTTPRoute/shop/web/rule".into(),
    });
    acting(Action::Forward(forward))
}

pub(super) fn to(cluster: &str, weight: u32) -> Destination {
    Destination {
        weight,
        target: Target::Cluster(ClusterName(cluster.into())),
        request_headers: HeaderChanges::default(),
        response_headers: HeaderChanges::default(),
    }
}

pub(super) fn nowhere(weight: u32) -> Destination {
    Destination {
        target: Target::Invalid {
            reason: "no such Service".to_owned(),
        },
        ..to("", weight)
    }
}

pub(super) fn prefix(path: &str) -> Match {
    Match {
        path: PathMatch::Prefix(path.to_owned()),
        ..Match::default()
    }
}

pub(super) fn all(graph: &Graph, options: &EnvoyOptions, of: ResourceType) -> Vec<Value> {
    let all = resources(graph, &gateway(), options, &inputs());
    let found = all.iter().filter(|resource| resource.resource_type() == of);
    found.map(|resource| json::resource(resource).unwrap()).collect()
}

pub(super) fn only(graph: &Graph, options: &EnvoyOptions, of: ResourceType) -> Value {
    let mut found = all(graph, options, of);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// The routes of the only virtual host, with the wasm filter.
pub(super) fn routes(graph: &Graph) -> Vec<Value> {
    routes_with(graph, &EnvoyOptions::default())
}

pub(super) fn routes_with(graph: &Graph, options: &EnvoyOptions) -> Vec<Value> {
    let configuration = only(graph, options, ResourceType::RouteConfiguration);
    configuration["virtual_hosts"][0]["routes"].as_array().unwrap().clone()
}

pub(super) fn made(route: Route) -> Value {
    let mut made = routes(&graph(vec![route]));
    assert_eq!(made.len(), 1, "{made:?}");
    made.remove(0)
}

#[test]
fn equal_graphs_give_equal_bytes() {
    let build = || {
        let mut strict = with_session(forward(vec![to("v1", 1), to("v2", 1)]), "strict");
        let mut plain = route(vec![to("v1", 1)]);
        for route in [&mut strict, &mut plain] {
            route.cors = Some(Cors {
                allow_origins: vec![ValueMatch::Exact("*".to_owned())],
                allow_methods: Vec::new(),
                allow_headers: Vec::new(),
                expose_headers: Vec::new(),
                allow_credentials: false,
                max_age: 5,
            });
        }
        resources(
            &graph(vec![strict, plain]),
            &gateway(),
            &EnvoyOptions::default(),
            &inputs(),
        )
    };
    let first = build();
    assert!(first.len() >= 5);
    // A map's order is random for each map.
    for _ in 0..20 {
        let versions = |all: &[limpet_resources::Resource]| {
            all.iter()
                .map(|one| (one.name().clone(), one.version()))
                .collect::<Vec<_>>()
        };
        assert_eq!(versions(&build()), versions(&first));
    }
}

#[test]
fn a_missing_gateway_gets_only_a_filter_that_lets_pass() {
    let other = ObjectName::new("shop", "other");
    let all = resources(
        &graph(vec![route(vec![to("v1", 1)])]),
        &other,
        &EnvoyOptions::default(),
        &inputs(),
    );
    assert_eq!(all.len(), 1);
    let filter = json::resource(&all[0]).unwrap();
    assert_eq!(
        filter["typed_config"]["@type"],
        "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
    );
}
