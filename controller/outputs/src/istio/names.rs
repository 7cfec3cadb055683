//! The names that Istio gives the routes of a rule, and how an `EnvoyFilter` tells them from other rules' names.
//!
//! The routes of a named rule have that name; an unnamed rule's have `<namespace>.<route>.<index of the rule>`. If
//! rules of several routes share a name, the hostname tells them apart, or hostname and port.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use limpet_api::ObjectName;
use limpet_model::graph::{Gateway, Hostname, Route, RuleName, RuleOrigin};
use limpet_model::{Graph, Objects};

#[derive(Default)]
pub(super) struct IstioRouteNames<'a> {
    named: BTreeMap<String, BTreeMap<HostPort<'a>, BTreeSet<&'a RuleName>>>,
    /// The routes of each rule, one for each match, in the order of matching.
    pub(super) rules: BTreeMap<&'a RuleName, Vec<&'a Route>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostPort<'a> {
    hostname: &'a Hostname,
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NamedRoutes<'a> {
    All,
    Under(&'a Hostname),
    At(HostPort<'a>),
}

#[derive(Debug, Default)]
pub(super) struct RouteSelection<'a> {
    /// All of them together.
    pub(super) which: BTreeSet<NamedRoutes<'a>>,
    /// Other rules whose routes have the same names at this place.
    pub(super) confused: BTreeMap<&'a Hostname, BTreeSet<&'a RuleName>>,
}

impl<'a> IstioRouteNames<'a> {
    pub(super) fn of(graph: &'a Graph, objects: &'a Objects, gateway: &'a Gateway) -> Self {
        let mut places: BTreeMap<&'a RuleName, BTreeSet<HostPort<'a>>> = BTreeMap::new();
        let mut names = Self::default();
        for (port, listeners) in &gateway.ports {
            for host in listeners.iter().flat_map(|listener| listener.virtual_hosts.values()) {
                for route in &host.routes {
                    places.entry(&route.rule).or_default().insert(HostPort {
                        hostname: &host.hostname,
                        port: *port,
                    });
                    let known = names.rules.entry(&route.rule).or_default();
                    if !known.iter().any(|known| known.matches == route.matches) {
                        known.push(route);
                    }
                }
            }
        }
        for (rule, places) in places {
            for name in route_names(graph, objects, rule) {
                let of_name = names.named.entry(name).or_default();
                for place in &places {
                    of_name.entry(*place).or_default().insert(rule);
                }
            }
        }
        names
    }

    /// How to find the routes of this rule, whose name in Istio is `name`.
    pub(super) fn routes_of(&self, rule: &'a RuleName, name: &str) -> RouteSelection<'a> {
        let alone = |rules: &BTreeSet<&RuleName>| rules.iter().all(|other| *other == rule);
        let mut found = RouteSelection::default();
        let Some(named) = self.named.get(name) else {
            return found;
        };
        if named.values().all(alone) {
            found.which.insert(NamedRoutes::All);
            return found;
        }
        for (place, rules) in named.iter().filter(|(_, rules)| rules.contains(rule)) {
            let mut under = named.iter().filter(|(other, _)| other.hostname == place.hostname);
            if under.all(|(_, rules)| alone(rules)) {
                found.which.insert(NamedRoutes::Under(place.hostname));
            } else if alone(rules) {
                found.which.insert(NamedRoutes::At(*place));
            } else {
                let others = rules.iter().copied().filter(|other| *other != rule);
                found.confused.entry(place.hostname).or_default().extend(others);
            }
        }
        found
    }
}

/// Names that Istio may give a rule's routes: the index of a rule without sessions is not known, so it may have
/// several.
fn route_names(graph: &Graph, objects: &Objects, rule: &RuleName) -> Vec<String> {
    if let Some(origin) = graph.rules.get(rule) {
        return vec![route_name(origin)];
    }
    let mut parts = rule.0.splitn(4, '/');
    let mut part = || parts.next().unwrap_or_default();
    let (kind, route, last) = (part(), ObjectName::new(part(), part()), part());
    let rules = rule_names(objects, kind, &route);
    if rules.contains(&Some(last)) {
        return vec![last.to_owned()];
    }
    let unnamed = rules.iter().enumerate().filter(|(_, name)| name.is_none());
    unnamed.map(|(index, _)| numbered(&route, index)).collect()
}

fn rule_names<'a>(objects: &'a Objects, kind: &str, route: &ObjectName) -> Vec<Option<&'a str>> {
    let http = objects.http_routes.get(route).filter(|_| kind == "httproute");
    let grpc = objects.grpc_routes.get(route).filter(|_| kind == "grpcroute");
    let http = http.into_iter().flat_map(|route| &route.spec.rules);
    let grpc = grpc.into_iter().flat_map(|route| &route.spec.rules);
    let names = http.map(|rule| rule.name.as_deref());
    names.chain(grpc.map(|rule| rule.name.as_deref())).collect()
}

pub(super) fn route_name(origin: &RuleOrigin) -> String {
    match &origin.name {
        Some(name) => name.clone(),
        None => numbered(&origin.route.name, origin.index),
    }
}

fn numbered(route: &ObjectName, index: usize) -> String {
    format!("{}.{}.{index}", route.namespace, route.name)
}

impl NamedRoutes<'_> {
    pub(super) fn matcher(self, name: &str) -> Value {
        let route = json!({"name": name});
        let configuration = match self {
            Self::All => json!({"vhost": {"route": route}}),
            Self::Under(hostname) => json!({"vhost": {"domainName": hostname.to_string(), "route": route}}),
            Self::At(HostPort { hostname, port }) => {
                json!({"portNumber": port, "vhost": {"domainName": hostname.to_string(), "route": route}})
            }
        };
        json!({"context": "GATEWAY", "routeConfiguration": configuration})
    }
}
