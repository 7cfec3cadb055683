//! Route configurations: virtual hosts and routes.

mod cors;
mod headers;
mod matching;
mod mirrors;
mod path;
#[cfg(feature = "refused-on-purpose")]
mod refused_on_purpose;
mod retries;
mod specifier;

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::route::v3::route::Action as EnvoyAction;
use envoy_types::pb::envoy::config::route::v3::route_action::hash_policy::{
    ConnectionProperties, Cookie, FilterState, Header, PolicySpecifier,
};
use envoy_types::pb::envoy::config::route::v3::route_action::{
    ClusterNotFoundResponseCode, ClusterSpecifier, HashPolicy, HostRewriteSpecifier, UpgradeConfig,
};
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, HeaderMatcher, Route as EnvoyRoute, RouteAction, RouteConfiguration,
    VirtualHost as EnvoyVirtualHost, WeightedCluster,
};
use envoy_types::pb::google::protobuf::Any;

use self::headers::HeaderMutations;
use super::chain::{NativeSteering, without_session};
use super::listeners::{plain_name, tls_name};
use super::options::EnvoyOptions;
use super::pack::{self, duration, in_order, metadata, no, number, session};
use limpet_core::envoy::{
    DESTINATION_PREFIX, DESTINATION_SESSION, HASH_STATE, INTERNAL_HEADERS, SPECIFIER_PREFIX, SPLIT_PREFIX,
    UNAVAILABLE_CLUSTER,
};
use limpet_model::Graph;
use limpet_model::graph::{
    Action, ClusterName, Destination, Forward, HashOn, Hostname, Listener, Match, Route, Session, SessionUse, Target,
    VirtualHost,
};

pub(super) fn configuration_name(port: u16, listener: &Listener) -> String {
    match listener.certificates {
        None => plain_name(port),
        Some(_) => tls_name(port, listener),
    }
}

pub(super) struct RouteBuilder<'a> {
    pub(super) graph: &'a Graph,
    pub(super) options: &'a EnvoyOptions,
}

impl RouteBuilder<'_> {
    /// The route configurations of a port: one for all listeners without TLS, and one for each that terminates TLS.
    pub(super) fn of_port(&self, port: u16, listeners: &[Listener]) -> Vec<RouteConfiguration> {
        let is_plain = |listener: &&Listener| listener.certificates.is_none();
        let plain: Vec<&Listener> = listeners.iter().filter(is_plain).collect();
        if plain.is_empty() {
            let made = listeners.iter().map(|listener| {
                let mut made = self.configuration(configuration_name(port, listener), port, &[listener]);
                made.virtual_hosts.extend(self.misdirected(listener, listeners));
                made
            });
            return made.collect();
        }
        vec![self.configuration(plain_name(port), port, &plain)]
    }

    pub(super) fn host(&self, port: u16, listener: &Listener, host: &VirtualHost) -> EnvoyVirtualHost {
        let routes = host.routes.iter();
        EnvoyVirtualHost {
            name: format!("{}/{}", listener.name, host.hostname),
            domains: vec![host.hostname.to_string()],
            routes: routes.flat_map(|route| self.routes(port, listener, route)).collect(),
            ..EnvoyVirtualHost::default()
        }
    }

    fn configuration(&self, name: String, port: u16, listeners: &[&Listener]) -> RouteConfiguration {
        let hosts = listeners.iter().flat_map(|listener| {
            let hosts = listener.virtual_hosts.values();
            hosts.map(move |host| self.host(port, listener, host))
        });
        RouteConfiguration {
            name,
            virtual_hosts: hosts.collect(),
            request_headers_to_remove: INTERNAL_HEADERS.iter().map(|name| (*name).to_owned()).collect(),
            // Match the virtual host without the port of the Host header. The backend still sees the port.
            ignore_port_in_host_matching: true,
            // The filters of a backend apply after the rule's.
            most_specific_header_mutations_wins: true,
            validate_clusters: no(),
            ..RouteConfiguration::default()
        }
    }

    /// A client may send requests for hosts of other listeners on a connection to this one, if the certificate has
    /// their names. After 421 (Misdirected Request), it tries another connection.
    fn misdirected(&self, listener: &Listener, listeners: &[Listener]) -> Option<EnvoyVirtualHost> {
        if listener.hostname != Hostname::Any && listener.virtual_hosts.contains_key(&Hostname::Any) {
            // It answers for all other hosts itself.
            return None;
        }
        let others = listeners.iter().filter(|other| other.name != listener.name);
        let domains: Vec<String> = others.map(|other| other.hostname.to_string()).collect();
        (!domains.is_empty()).then(|| EnvoyVirtualHost {
            // Names of other virtual hosts have a slash.
            name: "misdirected".to_owned(),
            domains,
            routes: vec![self.without_session(respond(421, everything()))],
            ..EnvoyVirtualHost::default()
        })
    }

    pub(super) fn routes(&self, port: u16, listener: &Listener, route: &Route) -> Vec<EnvoyRoute> {
        #[cfg_attr(
            not(feature = "refused-on-purpose"),
            expect(unused_mut, reason = "only tests change them")
        )]
        let mut made = self.good_routes(port, listener, route);
        #[cfg(feature = "refused-on-purpose")]
        for route in &mut made {
            refused_on_purpose::spoil(route);
        }
        made
    }

    fn good_routes(&self, port: u16, listener: &Listener, route: &Route) -> Vec<EnvoyRoute> {
        let made = EnvoyRoute {
            name: route.rule.to_string(),
            r#match: Some(matching::route_match(&route.matches)),
            typed_per_filter_config: route.cors.iter().map(cors::per_route).collect(),
            ..EnvoyRoute::default()
        };
        match &route.action {
            Action::Forward(forward) => self.forward(route, forward, made),
            Action::Redirect(redirect) => {
                let redirect = path::redirect(redirect, &route.matches.path, port, listener.certificates.is_some());
                let mut made = EnvoyRoute {
                    action: Some(EnvoyAction::Redirect(redirect)),
                    ..made
                };
                HeaderMutations::of_rule(route).apply(&mut made);
                vec![self.without_session(made)]
            }
            Action::Respond { status, reason } => {
                let mut made = EnvoyRoute {
                    // For readers only: nothing evaluates it.
                    metadata: Some(metadata("limpet.controller", "reason", reason)),
                    ..respond(*status, made)
                };
                HeaderMutations::of_rule(route).apply(&mut made);
                vec![self.without_session(made)]
            }
        }
    }

    fn forward(&self, route: &Route, forward: &Forward, made: EnvoyRoute) -> Vec<EnvoyRoute> {
        let used = match &forward.session {
            Session::Rule(used) => used,
            Session::Destinations => {
                let metadata = Some(session(DESTINATION_SESSION));
                return vec![self.to_all(route, forward, EnvoyRoute { metadata, ..made })];
            }
            Session::EachDestination(used) => return vec![self.each(route, forward, used, made)],
            Session::None => return vec![self.without_session(self.to_all(route, forward, made))],
        };
        let steering = NativeSteering::of(self.graph.policies.get(&used.policy));
        let name = session_name(used);
        if let [
            Destination {
                weight: 1..,
                target: Target::Cluster(cluster),
                ..
            },
        ] = forward.destinations.as_slice()
            && !self.never_begins(cluster)
        {
            let made = EnvoyRoute {
                metadata: Some(session(&name)),
                ..made
            };
            let made = self.to_all(route, forward, made);
            return vec![steered(made, steering)];
        }
        if let Some(specifier) = specifier::of(forward, self.options) {
            let mut made = EnvoyRoute {
                metadata: Some(session(&format!("{SPECIFIER_PREFIX}{name}"))),
                action: Some(action(route, forward, specifier)),
                ..made
            };
            HeaderMutations::of_rule(route).apply(&mut made);
            return vec![made];
        }
        // A route for each cluster, to which sessions are led whatever its weight is, and the weighted route, where
        // they begin.
        let made = EnvoyRoute {
            metadata: Some(session(&format!("{SPLIT_PREFIX}{name}"))),
            ..made
        };
        let led = self.led_to(forward).into_iter().map(|(cluster, destination)| {
            let made = led_to(&cluster.destination().to_string(), made.clone());
            steered(to_one(route, forward, cluster, destination, made), steering)
        });
        let mut routes: Vec<EnvoyRoute> = led.collect();
        let last = self.to_all(route, forward, made);
        routes.push(steered(last, steering.idle()));
        routes
    }

    /// The route of a rule whose destinations each have sessions of the rule's policy.
    fn each(&self, route: &Route, forward: &Forward, used: &SessionUse, made: EnvoyRoute) -> EnvoyRoute {
        let name = match forward.destinations.as_slice() {
            // The filter need not find out where the request goes.
            [
                Destination {
                    target: Target::Cluster(cluster),
                    ..
                },
            ] if !self.never_begins(cluster) => session_name(&used.at(&cluster.base_text())),
            _ => format!("{DESTINATION_PREFIX}{}", session_name(used)),
        };
        let metadata = Some(session(&name));
        let made = self.to_all(route, forward, EnvoyRoute { metadata, ..made });
        steered(made, NativeSteering::of(self.graph.policies.get(&used.policy)))
    }

    /// The clusters that sessions are led to. Of those with one base, tokens can name one; it must renew them.
    fn led_to<'a>(&self, forward: &'a Forward) -> Vec<(&'a ClusterName, &'a Destination)> {
        let mut led: Vec<(&ClusterName, &Destination)> = Vec::new();
        for destination in &forward.destinations {
            let Target::Cluster(cluster) = &destination.target else {
                continue;
            };
            match led.iter_mut().find(|(other, _)| other.base() == cluster.base()) {
                None => led.push((cluster, destination)),
                Some(other) if self.never_begins(other.0) && !self.never_begins(cluster) => {
                    *other = (cluster, destination);
                }
                Some(_) => {}
            }
        }
        led
    }

    fn to_all(&self, route: &Route, forward: &Forward, mut made: EnvoyRoute) -> EnvoyRoute {
        let of_destinations = matches!(forward.session, Session::Destinations);
        let leads_somewhere =
            |destination: &&Destination| destination.weight > 0 && matches!(destination.target, Target::Cluster(_));
        if !forward
            .destinations
            .iter()
            .any(|destination| leads_somewhere(&destination))
        {
            HeaderMutations::of_rule(route).apply(&mut made);
            return respond(500, made);
        }
        if let [destination] = forward.destinations.as_slice()
            && let Target::Cluster(cluster) = &destination.target
        {
            let made = to_one(route, forward, cluster, destination, made);
            return match self.cluster_steering(cluster).filter(|_| of_destinations) {
                Some(steering) => steered(made, steering),
                None => made,
            };
        }
        let clusters = forward.destinations.iter().map(|destination| {
            let mut entry = ClusterWeight {
                weight: number(destination.weight),
                ..ClusterWeight::default()
            };
            match &destination.target {
                Target::Invalid { .. } => UNAVAILABLE_CLUSTER.clone_into(&mut entry.name),
                Target::Cluster(cluster) => {
                    entry.name = cluster.to_string();
                    HeaderMutations::of_destination(destination).apply_to_entry(&mut entry);
                    let steering = self.cluster_steering(cluster).filter(|_| of_destinations);
                    let filters = steering.into_iter().flat_map(NativeSteering::per_route);
                    entry.typed_per_filter_config = in_order(filters.collect());
                }
            }
            entry
        });
        let clusters = WeightedCluster {
            clusters: clusters.collect(),
            ..WeightedCluster::default()
        };
        HeaderMutations::of_rule(route).apply(&mut made);
        made.action = Some(action(route, forward, ClusterSpecifier::WeightedClusters(clusters)));
        made
    }

    fn without_session(&self, mut made: EnvoyRoute) -> EnvoyRoute {
        add_filters(&mut made, without_session(&self.options.filter));
        made
    }

    fn cluster_steering(&self, cluster: &ClusterName) -> Option<NativeSteering> {
        let used = self.graph.clusters.get(cluster)?.session.as_ref()?;
        Some(NativeSteering::of(self.graph.policies.get(&used.policy)))
    }

    /// The filter asks for that only on the routes of splits.
    fn never_begins(&self, cluster: &ClusterName) -> bool {
        let cluster = self.graph.clusters.get(cluster);
        cluster.is_some_and(|cluster| cluster.never_begins)
    }
}

/// The session's name in metadata.
fn session_name(used: &SessionUse) -> String {
    format!("{}/{}", used.policy, used.scope)
}

/// While Envoys change the build, the filters of both may meet these routes.
fn steered(mut made: EnvoyRoute, steering: NativeSteering) -> EnvoyRoute {
    add_filters(&mut made, steering.per_route());
    made
}

fn add_filters(made: &mut EnvoyRoute, entries: Vec<(String, Any)>) {
    let former = std::mem::take(&mut made.typed_per_filter_config);
    made.typed_per_filter_config = in_order(former.into_iter().chain(entries).collect());
}

fn led_to(hash: &str, mut made: EnvoyRoute) -> EnvoyRoute {
    if let Some(matched) = &mut made.r#match {
        matched.headers.push(matching::led_to(hash));
    }
    made
}

/// Leads a rule's sessions to a destination, in a route table of another control plane. Its place does not matter: it
/// matches only requests that a route with this session (`@split/...`) has matched before.
pub(crate) fn destination_route(
    name: &str,
    session: &str,
    route: &Route,
    forward: &Forward,
    (destination, cluster): (&Destination, &ClusterName),
) -> EnvoyRoute {
    let mut made = EnvoyRoute {
        name: name.to_owned(),
        r#match: Some(matching::route_match(&route.matches)),
        metadata: Some(pack::session(session)),
        ..EnvoyRoute::default()
    };
    if let Some(matched) = &mut made.r#match {
        matched.headers.push(matching::of_session(session));
    }
    let hash = cluster.destination().to_string();
    to_one(route, forward, cluster, destination, led_to(&hash, made))
}

fn to_one(
    route: &Route,
    forward: &Forward,
    cluster: &ClusterName,
    destination: &Destination,
    mut made: EnvoyRoute,
) -> EnvoyRoute {
    HeaderMutations::of_rule(route)
        .then(&HeaderMutations::of_destination(destination))
        .apply(&mut made);
    made.action = Some(action(route, forward, ClusterSpecifier::Cluster(cluster.to_string())));
    made
}

fn everything() -> EnvoyRoute {
    EnvoyRoute {
        r#match: Some(matching::route_match(&Match::default())),
        ..EnvoyRoute::default()
    }
}

/// A virtual host for a listener that no Gateway has: it answers everything with this status.
pub(super) fn answer_all(name: &str, status: u16) -> EnvoyVirtualHost {
    EnvoyVirtualHost {
        name: name.to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![respond(status, everything())],
        ..EnvoyVirtualHost::default()
    }
}

pub(super) fn exactly(name: &str, value: &str) -> HeaderMatcher {
    matching::header(name, matching::exact(value))
}

/// Clients learn no names of objects.
const UNSERVED: &str = "This route cannot be served. Its status in the cluster says why.\n";

fn respond(status: u16, made: EnvoyRoute) -> EnvoyRoute {
    let body = DataSource {
        specifier: Some(Specifier::InlineString(UNSERVED.to_owned())),
        ..DataSource::default()
    };
    let response = DirectResponseAction {
        status: status.into(),
        body: (status == 500).then_some(body),
        ..DirectResponseAction::default()
    };
    EnvoyRoute {
        action: Some(EnvoyAction::DirectResponse(response)),
        ..made
    }
}

/// What clusters hash: a request that has one of these goes only by that one. The client's address comes from the
/// filter, else from Envoy, behind its trusted proxies.
fn hash_policies(hash: &[HashOn]) -> Vec<HashPolicy> {
    let of = |on: &HashOn| match on {
        HashOn::Address => vec![
            PolicySpecifier::FilterState(FilterState {
                key: HASH_STATE.to_owned(),
            }),
            PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true }),
        ],
        // Without a time to live, Envoy reads the cookie and never sets it.
        HashOn::Cookie(name) => vec![PolicySpecifier::Cookie(Cookie {
            name: name.clone(),
            ..Cookie::default()
        })],
        HashOn::Header(name) => vec![PolicySpecifier::Header(Header {
            header_name: name.clone(),
            ..Header::default()
        })],
    };
    let specifiers: Vec<PolicySpecifier> = hash.iter().flat_map(of).collect();
    let last = specifiers.len().saturating_sub(1);
    let policies = specifiers.into_iter().enumerate().map(|(index, policy)| HashPolicy {
        policy_specifier: Some(policy),
        terminal: index != last,
    });
    policies.collect()
}

/// Envoy answers such an upgrade with 403, although the listener permits it.
fn refused_websockets() -> UpgradeConfig {
    UpgradeConfig {
        upgrade_type: "websocket".to_owned(),
        enabled: no(),
        ..UpgradeConfig::default()
    }
}

fn action(route: &Route, forward: &Forward, clusters: ClusterSpecifier) -> EnvoyAction {
    let mut action = RouteAction {
        cluster_specifier: Some(clusters),
        // An invalid reference answers 500 (HTTPRouteRule.backendRefs).
        cluster_not_found_response_code: ClusterNotFoundResponseCode::InternalServerError.into(),
        // No limit: Envoy's default is 15 s.
        timeout: duration(forward.request_timeout.unwrap_or(Duration::ZERO)),
        retry_policy: Some(retries::policy(forward)),
        request_mirror_policies: forward.mirrors.iter().map(mirrors::policy).collect(),
        hash_policy: hash_policies(&forward.hash),
        upgrade_configs: forward
            .refuses_websockets
            .then(refused_websockets)
            .into_iter()
            .collect(),
        ..RouteAction::default()
    };
    if let Some(hostname) = &forward.rewrite.hostname {
        action.host_rewrite_specifier = Some(HostRewriteSpecifier::HostRewriteLiteral(hostname.clone()));
        action.append_x_forwarded_host = true;
    }
    if let Some(change) = &forward.rewrite.path {
        path::rewrite(change, &route.matches.path, &mut action);
    }
    EnvoyAction::Route(action)
}
