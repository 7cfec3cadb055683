//! Builds virtual hosts from routes and their sessions.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Objects;
use super::affinity;
use super::gateways::{GatewayState, ListenerState};
use super::graph::{
    Action, Balance, Forward, Gateway, Graph, HashOn, HeaderChanges, Hostname, Listener, Match, PathMatch, Route,
    RuleOrigin, Session, SessionUse, VirtualHost,
};
use super::objects::RuleBackend;
use super::references::ResolvedBackend;
use super::routes::{Attachment, RouteRule, RouteState, RuleAction};
use super::sessions::{RuleSession, Sessions};
use limpet_api::{Kind, ObjectName};

/// The order of routes in a virtual host (Gateway API, `HTTPRouteRule.matches`), with regular expressions between exact
/// paths and prefixes.
type Precedence<'a> = (
    (u8, Reverse<usize>),
    Reverse<(bool, usize, usize)>,
    (&'a str, &'a str, &'a str),
    (Kind, usize, usize),
);

/// The place of matches that are answered with 500 only if no rule takes them.
const LAST: u8 = 3;

type FoundRoutes<'a> = BTreeMap<(&'a ObjectName, usize), BTreeMap<Hostname, Vec<(Precedence<'a>, Route)>>>;

/// `sessions` has an entry for each of `routes`, with a session for each of its rules.
pub(super) fn assemble(
    objects: &Objects,
    gateways: &BTreeMap<&ObjectName, GatewayState<'_>>,
    routes: &[RouteState<'_>],
    sessions: &[Vec<RuleSession>],
    all: &Sessions,
) -> Graph {
    let mut graph = Graph::default();
    let mut found = FoundRoutes::new();
    for (route, sessions) in routes.iter().zip(sessions) {
        let served: Vec<&Attachment> = route
            .attachments
            .iter()
            .filter(|attachment| serves(gateways, attachment))
            .collect();
        if served.is_empty() {
            continue;
        }
        if route.quarantined.is_some() {
            // Its hosts stay its own: their requests must not go to a less specific host.
            add_to_hosts(&mut found, &served, None);
        }
        let namespace: Arc<str> = route.object.name.namespace.as_str().into();
        for (index, (rule, session)) in route.rules.iter().zip(sessions).enumerate() {
            add_clusters(&mut graph, rule, &session.session, all);
            add_led_from(&mut graph, rule, &namespace);
            if let Some(asked_by) = &session.requested_by {
                let origin = RuleOrigin {
                    route: route.object.clone(),
                    index,
                    name: rule.own_name.map(str::to_owned),
                    gateways: served.iter().map(|attachment| attachment.gateway.clone()).collect(),
                    requested_by: asked_by.clone(),
                };
                graph.rules.entry(rule.name.clone()).or_insert(Arc::new(origin));
            }
            for made in routes_of(route, (index, rule), session, all) {
                add_to_hosts(&mut found, &served, Some(&made));
            }
        }
    }
    for (name, state) in gateways {
        if state.serves() {
            let gateway = gateway(name, state, &mut found);
            add_certificates(&mut graph, objects, &gateway);
            graph.gateways.insert((*name).clone(), Arc::new(gateway));
        }
    }
    let policies = all.policies.iter();
    graph.policies = policies
        .map(|(name, policy)| (name.clone(), Arc::new(policy.clone())))
        .collect();
    graph
}

/// Adds a route at all hosts of these listeners; without a route, only the hosts.
fn add_to_hosts<'a>(found: &mut FoundRoutes<'a>, served: &[&'a Attachment], made: Option<&(Precedence<'a>, Route)>) {
    for attachment in served {
        let hosts = found.entry((&attachment.gateway, attachment.listener)).or_default();
        for hostname in &attachment.hostnames {
            hosts.entry(hostname.clone()).or_default().extend(made.cloned());
        }
    }
}

fn add_led_from(graph: &mut Graph, rule: &RouteRule<'_>, namespace: &Arc<str>) {
    for backend in &rule.backends {
        let namespaces = Arc::make_mut(
            graph
                .referencing_namespaces
                .entry(backend.spec.service.clone())
                .or_default(),
        );
        namespaces.insert(Arc::clone(namespace));
        if backend.spec.balance == Balance::RingHash {
            // Fences hold for the namespace in a session's scope, which is the Service's.
            namespaces.insert(backend.spec.service.namespace.as_str().into());
        }
    }
}

fn routes_of<'a>(
    route: &'a RouteState<'_>,
    (index, rule): (usize, &RouteRule<'_>),
    session: &RuleSession,
    all: &Sessions,
) -> impl Iterator<Item = (Precedence<'a>, Route)> {
    let followed = rule.matches.iter().enumerate().map(move |(place, matches)| {
        let made = make(rule, matches, session.of_path(&matches.path), all);
        (precedence(route, index, place, matches), made)
    });
    let otherwise = rule.otherwise.iter().enumerate().map(move |(place, matches)| {
        let ((_, length), rest, age, place) = precedence(route, index, place, matches);
        (((LAST, length), rest, age, place), refuse(rule, matches))
    });
    followed.chain(otherwise)
}

/// The routes without their order, and without the room for it.
fn alone(routes: Vec<(Precedence<'_>, Route)>) -> Vec<Route> {
    let mut alone: Vec<Route> = routes.into_iter().map(|(_, route)| route).collect();
    alone.shrink_to_fit();
    alone
}

fn serves(gateways: &BTreeMap<&ObjectName, GatewayState<'_>>, attachment: &Attachment) -> bool {
    gateways.get(&attachment.gateway).is_some_and(|gateway| {
        gateway.serves()
            && gateway
                .listeners
                .get(attachment.listener)
                .is_some_and(ListenerState::serves)
    })
}

fn add_clusters(graph: &mut Graph, rule: &RouteRule<'_>, session: &Session, all: &Sessions) {
    for backend in rule.backends.iter().chain(&rule.mirrors) {
        let cluster = graph
            .clusters
            .entry(backend.cluster.clone())
            .or_insert_with(|| Arc::new(backend.spec.clone()));
        // `all` may have sessions of a Service that only routes of IngressRoutes use, whose clusters are others.
        if *session == Session::Destinations {
            Arc::make_mut(cluster).session = own_session(backend, all);
        }
    }
    for backend in rule
        .backends
        .iter()
        .filter(|backend| is_by_address(backend, session, all))
    {
        if let Some(cluster) = graph.clusters.get_mut(&backend.cluster) {
            Arc::make_mut(cluster).balance = Balance::RingHash;
        }
    }
}

/// The sessions of a backend where the split chooses it for every request.
pub(super) fn own_session(backend: &ResolvedBackend, all: &Sessions) -> Option<SessionUse> {
    match &backend.object {
        RuleBackend::XBackend(name) => all.destinations.get(name).cloned(),
        RuleBackend::Service(name) => all.affinities.get(name).map(|policy| SessionUse {
            policy: policy.clone(),
            scope: affinity::scope(name, backend.spec.port).into(),
        }),
    }
}

/// Whether the client's address chooses the endpoint of requests without a token.
fn is_by_address(backend: &ResolvedBackend, session: &Session, all: &Sessions) -> bool {
    let has_table = |used: &SessionUse| {
        all.policies
            .get(&used.policy)
            .is_some_and(|policy| policy.source.is_some())
    };
    let is_held = match session {
        Session::None => false,
        Session::Rule(used) | Session::EachDestination(used) => has_table(used),
        Session::Destinations => own_session(backend, all).is_some_and(|used| has_table(&used)),
    };
    is_held || backend.spec.balance == Balance::RingHash
}

fn add_certificates(graph: &mut Graph, objects: &Objects, gateway: &Gateway) {
    for name in gateway
        .ports
        .values()
        .flatten()
        .filter_map(|listener| listener.certificates.as_ref())
        .flatten()
    {
        if let Some(Ok(certificate)) = objects.certificates.get(name) {
            graph.certificates.insert(name.clone(), Arc::new(certificate.clone()));
        }
    }
}

fn make(rule: &RouteRule<'_>, matches: &Match, session: &Session, all: &Sessions) -> Route {
    let action = match &rule.action {
        RuleAction::Redirect(redirect) => Action::Redirect(redirect.clone()),
        RuleAction::Respond { status, reason } => Action::Respond {
            status: *status,
            reason: reason.clone(),
        },
        RuleAction::Forward(forward) => Action::Forward(Forward {
            session: session.clone(),
            hash: if rule.backends.iter().any(|backend| is_by_address(backend, session, all)) {
                vec![HashOn::Address]
            } else {
                Vec::new()
            },
            ..forward.clone()
        }),
    };
    Route {
        rule: rule.name.clone(),
        matches: matches.clone(),
        action,
        request_headers: rule.request_headers.clone(),
        response_headers: rule.response_headers.clone(),
        cors: rule.cors.clone(),
    }
}

fn refuse(rule: &RouteRule<'_>, matches: &Match) -> Route {
    let problems = rule.refused.iter().map(|refused| &refused.problem);
    let problems: Vec<String> = problems
        .map(|found| format!("{}: {}", found.field, found.message))
        .collect();
    Route {
        rule: rule.name.clone(),
        matches: matches.clone(),
        action: Action::Respond {
            status: 500,
            reason: problems.join("; "),
        },
        request_headers: HeaderChanges::default(),
        response_headers: HeaderChanges::default(),
        cors: None,
    }
}

fn precedence<'a>(route: &'a RouteState<'_>, rule: usize, place: usize, matches: &Match) -> Precedence<'a> {
    let path = match &matches.path {
        PathMatch::Exact(path) => (0, Reverse(path.len())),
        PathMatch::Regex(path) => (1, Reverse(path.len())),
        PathMatch::Prefix(path) | PathMatch::Text(path) => (2, Reverse(path.len())),
    };
    let rest = (matches.method.is_some(), matches.headers.len(), matches.query.len());
    (
        path,
        Reverse(rest),
        route.meta.precedence(),
        (route.object.kind, rule, place),
    )
}

fn gateway<'a>(name: &'a ObjectName, state: &GatewayState<'_>, found: &mut FoundRoutes<'a>) -> Gateway {
    let mut gateway = Gateway::default();
    let serving = || {
        state
            .listeners
            .iter()
            .enumerate()
            .filter(|(_, listener)| listener.serves())
    };
    for (index, listener) in serving() {
        let mut hosts = found.remove(&(name, index)).unwrap_or_default();
        // A host that another listener of the port names more specifically belongs to that listener only.
        let others =
            || serving().filter(|(other, state)| *other != index && state.listener.port == listener.listener.port);
        hosts.retain(|hostname, _| {
            !others().any(|(_, other)| other.hostname.contains(hostname) && listener.hostname.contains(&other.hostname))
        });
        // A request without a route here gets 404 from this listener.
        hosts.entry(listener.hostname.clone()).or_default();
        let virtual_hosts = hosts.into_iter().map(|(hostname, mut routes)| {
            routes.sort_by_key(|(precedence, _)| *precedence);
            VirtualHost {
                hostname,
                routes: alone(routes),
            }
        });
        let made = Listener {
            name: listener.listener.name.clone(),
            hostname: listener.hostname.clone(),
            certificates: listener.certificates.clone(),
            tls_minimum: None,
            virtual_hosts: Listener::hosts(virtual_hosts),
        };
        gateway.ports.entry(listener.listener.port).or_default().push(made);
    }
    for listeners in gateway.ports.values_mut() {
        listeners.sort_by(|one, two| one.hostname.cmp(&two.hostname));
    }
    gateway
}
