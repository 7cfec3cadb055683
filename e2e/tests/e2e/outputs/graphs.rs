use std::collections::BTreeMap;
use std::sync::Arc;

use limpet_api::ObjectName;
use limpet_core::config::schema::{CookieConfig, PolicyConfig};
use limpet_model::graph::{
    Action, Cluster, ClusterName, Destination, Forward, Gateway, HeaderChanges, Hostname, Listener, Match, PathMatch,
    Protocol, Route, RuleName, Session, SessionUse, Target, VirtualHost,
};
use limpet_model::{Graph, Map};

pub(crate) fn gateway() -> ObjectName {
    ObjectName::new("shop", "web")
}

pub(crate) fn policy(cookie: &str, strict: bool) -> PolicyConfig {
    PolicyConfig {
        cookie: Some(CookieConfig::named(cookie)),
        strict,
        ..PolicyConfig::default()
    }
}

pub(crate) fn graph(routes: Vec<Route>) -> Graph {
    listening(BTreeMap::from([(80, vec![listener("http", "", routes)])]))
}

pub(crate) fn listening(ports: BTreeMap<u16, Vec<Listener>>) -> Graph {
    let cluster = |name: &str| Cluster {
        port_name: "http".to_owned(),
        ..Cluster::new(ObjectName::new("shop", name), 80, Protocol::Http1)
    };
    let clusters = ["v1", "v2"].map(|name| (ClusterName(name.into()), Arc::new(cluster(name))));
    let policies = [("web", false), ("strict", true)];
    Graph {
        gateways: Map::unit(
            gateway(),
            Arc::new(Gateway {
                ports,
                ..Gateway::default()
            }),
        ),
        clusters: clusters.into_iter().collect(),
        policies: policies
            .into_iter()
            .map(|(name, strict)| (name.to_owned(), Arc::new(policy(name, strict))))
            .collect(),
        ..Graph::default()
    }
}

pub(crate) fn listener(name: &str, hostname: &str, routes: Vec<Route>) -> Listener {
    let hostname = Hostname::parse(Some(hostname));
    Listener {
        name: name.to_owned(),
        hostname: hostname.clone(),
        tls_minimum: None,
        certificates: None,
        virtual_hosts: Listener::hosts([VirtualHost { hostname, routes }]),
    }
}

pub(crate) fn route(prefix: &str, action: Action) -> Route {
    Route {
        rule: RuleName(format!("HTTPRoute/shop/web{prefix}").into()),
        matches: Match {
            path: PathMatch::Prefix(prefix.to_owned()),
            ..Match::default()
        },
        action,
        request_headers: HeaderChanges::default(),
        response_headers: HeaderChanges::default(),
        cors: None,
    }
}

pub(crate) fn forward(destinations: Vec<Destination>) -> Forward {
    Forward {
        destinations,
        ..Forward::default()
    }
}

/// Its rule has sessions under this policy.
pub(crate) fn with_session(prefix: &str, policy: &str, destinations: Vec<Destination>) -> Route {
    let mut forward = forward(destinations);
    forward.session = Session::Rule(SessionUse {
        policy: policy.into(),
        scope: format!("HTTPRoute/shop/web{prefix}").into(),
    });
    route(prefix, Action::Forward(forward))
}

pub(crate) fn to(cluster: &str, weight: u32) -> Destination {
    Destination {
        weight,
        target: Target::Cluster(ClusterName(cluster.into())),
        request_headers: HeaderChanges::default(),
        response_headers: HeaderChanges::default(),
    }
}

pub(crate) fn nowhere(weight: u32) -> Destination {
    let target = Target::Invalid {
        reason: "no such Service".to_owned(),
    };
    Destination {
        target,
        ..to("", weight)
    }
}

pub(crate) fn with_own_session(graph: &mut Graph, cluster: &str, policy: &str) {
    if let Some(cluster) = graph.clusters.get_mut(&ClusterName(cluster.into())) {
        Arc::make_mut(cluster).session = Some(SessionUse {
            policy: policy.into(),
            scope: format!("XBackend/{}", cluster.service).into(),
        });
    }
}
