//! The hosts with their routes, as a Gateway of the graph.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use limpet_api::{Kind, ObjectName, ObjectRef, Text};
use limpet_core::config::schema::PolicyConfig;

use super::explain::{Input, Unnamed};
use super::read::{Content, Does, Forwarding, Mistake, Rule};
use super::roots::{Host, Tls};
use super::services::Service;
use super::sessions::{self, Held};
use super::tree::{Served, Tree};
use crate::explanation::RuleExplanation;
use crate::graph::{
    Action, Cluster, ClusterName, Connections, Destination, Forward, Gateway, Graph, HeaderChanges, Hostname, Listener,
    Match, PathMatch, Redirect, Route, RuleName, Session, SessionUse, Target, TlsVersion, VirtualHost,
};
use crate::sessions::{CookieSessions, SharedNames, ages};
use crate::{ContourSettings, InPlace, Objects, affinity};

/// How long Contour keeps a client's connection without a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The name of the listener without TLS. Those with TLS are named after their hosts.
const PLAIN: &str = "http";

/// Sessions whose policy has no name yet.
#[derive(Debug, Clone)]
struct Use {
    /// The index of the policy.
    policy: usize,
    scope: String,
}

/// What is served, before policies have names.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    all: Vec<ServedHost>,
    clusters: BTreeMap<ClusterName, (Cluster, Option<Use>)>,
    led_from: BTreeMap<ObjectName, BTreeSet<Arc<str>>>,
    policies: Vec<PolicyConfig>,
    /// Of the object to explain.
    explained: Vec<Unnamed>,
}

#[derive(Debug)]
struct ServedHost {
    name: String,
    tls: Option<(ObjectName, TlsVersion)>,
    routes: Vec<ServedRoute>,
}

#[derive(Debug)]
struct ServedRoute {
    route: Route,
    used: Option<Use>,
    /// Whether it is served without TLS, too, where the host has TLS.
    permit_insecure: bool,
}

/// A route of a host, before it is known whose cookies share a name.
struct Found<'a> {
    object: &'a ObjectName,
    rule: &'a Rule<'a>,
    path: PathMatch,
    /// Its sessions, and their scope.
    session: Option<(CookieSessions, String)>,
}

/// What hosts have to say of objects.
#[derive(Debug, Default)]
pub(super) struct Told<'a> {
    /// The routes in whose place others count.
    pub(super) overruled: BTreeMap<&'a ObjectName, Vec<String>>,
    /// Why sessions cannot be had on a host.
    pub(super) foreign: BTreeMap<&'a ObjectName, String>,
    /// The objects that have sessions on a host.
    pub(super) held: BTreeSet<&'a ObjectName>,
}

/// A route of a host, and what it is of.
struct Reached<'a> {
    object: &'a ObjectName,
    rule: &'a Rule<'a>,
    path: PathMatch,
}

impl Hosts {
    pub(super) fn of<'a>(
        objects: &Objects,
        settings: &ContourSettings,
        roots: &BTreeMap<&'a ObjectName, Result<Host, Arc<str>>>,
        contents: &'a BTreeMap<&'a ObjectName, Result<Content<'a>, Mistake>>,
        tree: &Tree<'a>,
        explained: Option<&ObjectName>,
    ) -> (Self, Told<'a>) {
        let mut told = Told::default();
        let mut found: Vec<(&Host, Vec<Found<'_>>)> = Vec::new();
        for (root, served) in &tree.served {
            if let Some(Ok(host)) = roots.get(root) {
                let routes = routes(host, served, contents, settings, &mut told);
                found.push((host, routes));
            }
        }
        let sharing = sharing(&found, objects);
        let mut hosts = Self::default();
        let mut writer = 0;
        for (host, routes) in found {
            let mut made = Vec::with_capacity(routes.len());
            for found in routes {
                let shares_name = sharing.contains(&writer);
                writer += 1;
                made.extend(hosts.route(objects, host, found, shares_name, explained));
            }
            hosts.all.push(ServedHost {
                name: host.name.clone(),
                tls: host
                    .tls
                    .as_ref()
                    .map(|Tls { secret, minimum }| (secret.clone(), *minimum)),
                routes: made,
            });
        }
        (hosts, told)
    }

    pub(super) fn take_policies(&mut self) -> Vec<PolicyConfig> {
        std::mem::take(&mut self.policies)
    }

    fn route(
        &mut self,
        objects: &Objects,
        host: &Host,
        found: Found<'_>,
        shares_name: bool,
        explained: Option<&ObjectName>,
    ) -> Option<ServedRoute> {
        let Found {
            object,
            rule,
            path,
            session,
        } = found;
        let used = session.as_ref().map(|(sessions, scope)| Use {
            policy: self.policy(sessions.of_scope(scope, shares_name)),
            scope: scope.clone(),
        });
        let Does::Forward(forwarding) = &rule.does else {
            return None;
        };
        let quarantined = objects.quarantined.get(&ObjectRef {
            kind: Kind::IngressRoute,
            name: object.clone(),
        });
        let action = match quarantined.map(|quarantined| quarantined.serves) {
            None | Some(InPlace::Former) => self.forward(forwarding, used.is_some()),
            Some(InPlace::Status500) => Action::Respond {
                status: 500,
                reason: "refused by Envoy".to_owned(),
            },
            Some(InPlace::Nothing) => return None,
        };
        let name = format!("ingressroute/{}/{}/{}", object.namespace, object.name, rule.prefix);
        if explained == Some(object) {
            let sessions = session.as_ref().map(|(sessions, _)| sessions);
            let input = Input {
                object,
                rule,
                forwarding,
                name: &name,
                host: &host.name,
                action: &action,
                session: sessions.zip(used.as_ref()).and_then(|(sessions, used)| {
                    Some((
                        sessions,
                        self.policies.get(used.policy)?,
                        used.policy,
                        used.scope.as_str(),
                    ))
                }),
            };
            self.explained.push(input.explained());
        }
        Some(ServedRoute {
            route: Route {
                rule: RuleName(name.into()),
                matches: Match {
                    path,
                    ..Match::default()
                },
                action,
                request_headers: HeaderChanges::default(),
                response_headers: HeaderChanges::default(),
                cors: None,
            },
            used,
            permit_insecure: rule.permit_insecure,
        })
    }

    fn policy(&mut self, policy: PolicyConfig) -> usize {
        self.policies.push(policy);
        self.policies.len() - 1
    }

    fn forward(&mut self, forwarding: &Forwarding<'_>, has_session: bool) -> Action {
        let services = &forwarding.services;
        // All of them zero: equal shares. The weight of a single one does not count.
        let is_equal = services.len() == 1 || services.iter().all(|service| service.weight == 0);
        let mut destinations = Vec::with_capacity(services.len());
        for service in services {
            let cluster = self.cluster(service, has_session);
            destinations.push(Destination {
                weight: if is_equal { 1 } else { service.weight },
                target: Target::Cluster(cluster),
                request_headers: HeaderChanges::default(),
                response_headers: HeaderChanges::default(),
            });
        }
        let by_destination = !has_session && services.iter().any(|service| service.affinity.is_some());
        Action::Forward(Forward {
            destinations,
            session: if by_destination {
                Session::Destinations
            } else {
                Session::None
            },
            hash: sessions::hash(services, forwarding.session.as_ref()),
            refuses_websockets: !forwarding.websockets,
            rewrite: forwarding.rewrite.clone(),
            request_timeout: forwarding.request_timeout,
            backend_timeout: forwarding.try_timeout,
            retry: forwarding.retry.clone(),
            ..Forward::default()
        })
    }

    fn cluster(&mut self, service: &Service<'_>, has_session: bool) -> ClusterName {
        let (name, cluster) = service.cluster(has_session && !sessions::begins_at(service));
        let namespaces = self.led_from.entry(service.name.clone()).or_default();
        namespaces.insert(service.name.namespace.as_str().into());
        if !self.clusters.contains_key(&name) {
            let session = service.affinity.map(|timeout| Use {
                policy: self.policy(affinity::policy(timeout)),
                scope: affinity::scope(&service.name, service.port),
            });
            self.clusters.insert(name.clone(), (cluster, session));
        }
        name
    }

    /// Why the routes of the object have their sessions. `names`: those of the policies.
    pub(super) fn take_explained(
        &mut self,
        names: &[Text],
        policies: &BTreeMap<Text, PolicyConfig>,
        gateway: &ObjectName,
    ) -> Vec<RuleExplanation> {
        let all = std::mem::take(&mut self.explained);
        let own = |cluster: &ClusterName| {
            let used = self.clusters.get(cluster)?.1.as_ref()?;
            Some((used.policy, used.scope.as_str()))
        };
        let rules = all.into_iter().map(|one| one.named(names, policies, gateway, own));
        rules.collect()
    }

    /// Adds the Gateway. `names`: those of the policies.
    pub(super) fn add_to(self, graph: &mut Graph, names: &[Text], objects: &Objects, settings: &ContourSettings) {
        let session = |used: Use| {
            let policy = names.get(used.policy)?.clone();
            Some(SessionUse {
                policy,
                scope: used.scope.into(),
            })
        };
        for (name, (cluster, used)) in self.clusters {
            let session = used.and_then(session);
            graph.clusters.insert(name, Arc::new(Cluster { session, ..cluster }));
        }
        for (service, namespaces) in self.led_from {
            Arc::make_mut(graph.led_from.entry(service).or_default()).extend(namespaces);
        }
        let mut gateway = Gateway {
            connections: Connections {
                trusted_hops: settings.trusted_hops,
                http10: true,
                idle_timeout: Some(IDLE_TIMEOUT),
            },
            ..Gateway::default()
        };
        let (mut plain, mut secure) = (Vec::new(), Vec::new());
        for host in self.all {
            let hostname = Hostname::Exact(host.name.as_str().into());
            let mut without_tls = Vec::with_capacity(host.routes.len());
            let mut with_tls = Vec::new();
            for ServedRoute {
                mut route,
                used,
                permit_insecure,
            } in host.routes
            {
                if let (Action::Forward(forward), Some(used)) = (&mut route.action, used.and_then(session)) {
                    forward.session = Session::Rule(used);
                }
                if host.tls.is_none() {
                    without_tls.push(route);
                    continue;
                }
                without_tls.push(if permit_insecure && settings.permit_insecure {
                    route.clone()
                } else {
                    to_https(&route, &host.name)
                });
                with_tls.push(route);
            }
            plain.push(VirtualHost {
                hostname: hostname.clone(),
                routes: without_tls,
            });
            if let Some((secret, minimum)) = host.tls {
                if let Some(Ok(certificate)) = objects.certificates.get(&secret) {
                    graph.certificates.insert(secret.clone(), Arc::new(certificate.clone()));
                }
                secure.push(listener_of(&host.name, hostname, with_tls, secret, minimum));
            }
        }
        if !plain.is_empty() {
            let listener = Listener {
                name: PLAIN.to_owned(),
                hostname: Hostname::Any,
                certificates: None,
                tls_minimum: None,
                virtual_hosts: Listener::hosts(plain),
            };
            gateway.ports.insert(settings.ports.http.get(), vec![listener]);
        }
        if !secure.is_empty() {
            secure.sort_by(|one: &Listener, other| one.hostname.cmp(&other.hostname));
            gateway.ports.insert(settings.ports.https.get(), secure);
        }
        graph.gateways.insert(settings.gateway.clone(), Arc::new(gateway));
    }
}

/// The listener of a host with TLS. On its connections, requests for other hosts are misdirected.
fn listener_of(
    name: &str,
    hostname: Hostname,
    routes: Vec<Route>,
    secret: ObjectName,
    minimum: TlsVersion,
) -> Listener {
    let misdirected = Route {
        rule: RuleName(Text::default()),
        matches: Match::default(),
        action: Action::Respond {
            status: 421,
            reason: "the connection is for another host".to_owned(),
        },
        request_headers: HeaderChanges::default(),
        response_headers: HeaderChanges::default(),
        cors: None,
    };
    let others = VirtualHost {
        hostname: Hostname::Any,
        routes: vec![misdirected],
    };
    let own = VirtualHost {
        hostname: hostname.clone(),
        routes,
    };
    Listener {
        name: name.to_owned(),
        hostname,
        certificates: Some(vec![secret]),
        tls_minimum: Some(minimum),
        virtual_hosts: Listener::hosts([own, others]),
    }
}

/// With path and query, and without the port that the request names: it is that of the plain listener.
fn to_https(route: &Route, host: &str) -> Route {
    Route {
        action: Action::Redirect(Redirect {
            scheme: Some("https".to_owned()),
            hostname: Some(host.to_owned()),
            status: 301,
            ..Redirect::default()
        }),
        ..route.clone()
    }
}

/// The routes of a host, longer prefixes first, each with its sessions.
fn routes<'a>(
    host: &Host,
    served: &[Served<'a>],
    contents: &'a BTreeMap<&'a ObjectName, Result<Content<'a>, Mistake>>,
    settings: &ContourSettings,
    told: &mut Told<'a>,
) -> Vec<Found<'a>> {
    let routes = distinct(host, served, contents, told);
    let over_http = routes
        .iter()
        .filter(|route| host.tls.is_some() && settings.permit_insecure && route.rule.permit_insecure);
    let over_http: BTreeSet<(String, String)> = over_http.filter_map(|route| held(route.rule)?.cookie()).collect();
    let found = routes.into_iter().map(|Reached { object, rule, path }| {
        let held = held(rule).and_then(|held| {
            let sessions = held.on_host(&over_http);
            match sessions.foreign_domain(&host.name) {
                None => {
                    told.held.insert(object);
                    Some((sessions, held.scope(&host.name)))
                }
                Some(domain) => {
                    told.foreign
                        .entry(object)
                        .or_insert_with(|| foreign(domain, &host.name));
                    None
                }
            }
        });
        Found {
            object,
            rule,
            path,
            session: held,
        }
    });
    found.collect()
}

fn foreign(domain: &str, host: &str) -> String {
    format!(
        "metadata.annotations[session.limpet.dev/domain]: expected a domain of {host}, found {domain:?}: browsers drop \
         the cookie"
    )
}

/// Of equal prefixes the last one counts. What was delegated and matches segments leaves the rest of the text, which it
/// has no right to, to the route that was there before.
fn distinct<'a>(
    host: &Host,
    served: &[Served<'a>],
    contents: &'a BTreeMap<&'a ObjectName, Result<Content<'a>, Mistake>>,
    told: &mut Told<'a>,
) -> Vec<Reached<'a>> {
    let mut by_prefix: BTreeMap<Reverse<&str>, Vec<Reached<'a>>> = BTreeMap::new();
    for one in served {
        let Some(Ok(content)) = contents.get(one.object) else {
            continue;
        };
        let Some(rule) = content.rules.get(one.route) else {
            continue;
        };
        let path = path(rule.prefix, one.given);
        let known = by_prefix.entry(Reverse(rule.prefix)).or_default();
        for former in known.iter().filter(|former| !std::ptr::eq(former.rule, rule)) {
            let by = if former.object == one.object {
                format!("spec.routes[{}]", rule.index)
            } else {
                format!("IngressRoute {}", one.object)
            };
            told.overruled.entry(former.object).or_default().push(format!(
                "spec.routes[{}].match: on {}, {by} has the same one, and counts in its place",
                former.rule.index, host.name
            ));
        }
        known.retain(|former| matches!((&former.path, &path), (PathMatch::Text(_), PathMatch::Prefix(_))));
        let reached = Reached {
            object: one.object,
            rule,
            path,
        };
        known.insert(0, reached);
    }
    by_prefix.into_values().flatten().collect()
}

fn held<'a>(rule: &'a Rule<'_>) -> Option<&'a Held> {
    match &rule.does {
        Does::Forward(forwarding) => forwarding.session.as_ref(),
        Does::Delegate(_) => None,
    }
}

/// Contour's prefixes are plain text. But who is given `/blog` has no right to `/blogger`.
fn path(prefix: &str, given: Option<&str>) -> PathMatch {
    if prefix != "/" && !prefix.ends_with('/') && given.is_some_and(|given| given.trim_end_matches('/') == prefix) {
        PathMatch::Prefix(prefix.to_owned())
    } else {
        PathMatch::Text(prefix.to_owned())
    }
}

/// The routes, by their number, whose cookie has the name of one with another scope.
fn sharing(found: &[(&Host, Vec<Found<'_>>)], objects: &Objects) -> HashSet<usize> {
    let hosts: Vec<Hostname> = found
        .iter()
        .map(|(host, _)| Hostname::Exact(host.name.as_str().into()))
        .collect();
    let ages = ages(found.iter().flat_map(|(_, routes)| routes).filter_map(|route| {
        let (_, scope) = route.session.as_ref()?;
        let created = objects.ingress_routes.get(route.object);
        let created = created.map_or("", |object| &object.meta.creation_timestamp);
        Some((
            scope.as_str(),
            format!("{created} {} {:05}", route.object, route.rule.index),
        ))
    }));
    let mut names = SharedNames::default();
    let routes = found
        .iter()
        .zip(&hosts)
        .flat_map(|((_, routes), host)| routes.iter().map(move |route| (route, host)));
    for (writer, (route, host)) in routes.enumerate() {
        if let Some((sessions, scope)) = &route.session
            && let Some(cookie) = sessions.cookie()
        {
            let since = ages.get(scope.as_str()).map_or("", String::as_str);
            names.add(writer, (since, scope), [host], cookie);
        }
    }
    names.shared().into_keys().collect()
}
