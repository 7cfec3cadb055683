//! The hosts with their routes, as a Gateway of the graph.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use limpet_api::{Kind, Meta, ObjectName, ObjectRef, Text};

use super::delegation_tree::{DelegatedRoute, DelegationTree};
use super::read::{Forwarding, IngressAction};
use super::roots::RootHost;
use super::sessions;
use super::{Contour, IngressRouteContents, OurIngressRoutes};
use crate::assemble::own_session;
use crate::graph::{
    Action, Connections, Destination, Forward, Gateway, Graph, HeaderChanges, Hostname, Listener, Match, PathMatch,
    Redirect, Route, RuleName, Session, Target, TlsVersion, VirtualHost,
};
use crate::objects::RuleBackend;
use crate::references::ResolvedBackend;
use crate::sessions::{RuleFacts, RuleSession, Schemes, Sessions};
use crate::{ContourSettings, Objects, RouteReplacement};

/// How long a connection lasts without a request, as in Contour.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The listener without TLS. Those with TLS are named after their hosts.
const PLAIN: &str = "http";

/// Hosts with their routes, longer prefixes first.
pub(super) type RoutesByHost<'a> = Vec<(RootHost, Vec<HostRoute<'a>>)>;

#[derive(Debug)]
pub(super) struct HostRoute<'a> {
    pub(super) object: &'a ObjectName,
    meta: &'a Meta,
    /// Among the object's routes.
    index: usize,
    prefix: &'a str,
    path: PathMatch,
    pub(super) forwarding: Rc<Forwarding<'a>>,
    pub(super) scope: Option<String>,
    /// Whether it is also served without TLS, where the host has TLS.
    permits_insecure: bool,
    /// Whether a route without TLS also has its cookie, where the host has TLS.
    shares_cookie: bool,
}

#[derive(Debug, Default)]
pub(super) struct HostFindings<'a> {
    /// Routes that others overrule.
    pub(super) overruled: BTreeMap<&'a ObjectName, Vec<String>>,
    /// Why sessions cannot be had on a host.
    pub(super) foreign: BTreeMap<&'a ObjectName, String>,
    pub(super) with_sessions: BTreeSet<&'a ObjectName>,
}

pub(super) fn hosts<'a>(
    ours: &OurIngressRoutes<'a>,
    settings: &ContourSettings,
    roots: &BTreeMap<&'a ObjectName, Result<RootHost, Arc<str>>>,
    contents: &IngressRouteContents<'a>,
    tree: &DelegationTree<'_>,
) -> (RoutesByHost<'a>, HostFindings<'a>) {
    let mut told = HostFindings::default();
    let hosts = tree.served.iter().filter_map(|(root, served)| {
        let host = roots.get(root)?.as_ref().ok()?;
        let routes = distinct(host, served, ours, contents, settings, &mut told);
        Some((host.clone(), with_sessions(host, routes, &mut told)))
    });
    (hosts.collect(), told)
}

impl<'a> Contour<'a> {
    pub(super) fn routes(&self) -> impl Iterator<Item = (&str, &HostRoute<'a>)> {
        let hosts = self.hosts.iter();
        hosts.flat_map(|(host, routes)| routes.iter().map(|route| (host.name.as_str(), route)))
    }

    pub(crate) fn facts(&self) -> Vec<RuleFacts<'_>> {
        self.routes().map(|(host, route)| route.facts(host)).collect()
    }

    /// `decided`: the sessions of all routes, in the order of the facts.
    pub(crate) fn add_to(&self, graph: &mut Graph, decided: &[RuleSession], all: &Sessions, objects: &Objects) {
        let settings = self.settings;
        let mut gateway = Gateway {
            connections: Connections {
                trusted_hops: settings.trusted_hops,
                http10: true,
                idle_timeout: Some(IDLE_TIMEOUT),
            },
            ..Gateway::default()
        };
        let (mut plain, mut secure) = (Vec::new(), Vec::new());
        let mut decided = decided.iter();
        for (host, routes) in &self.hosts {
            let hostname = Hostname::Exact(host.name.as_str().into());
            let mut without_tls = Vec::with_capacity(routes.len());
            let mut with_tls = Vec::new();
            for (route, decided) in routes.iter().zip(decided.by_ref()) {
                let Some(made) = route.made(graph, &decided.session, all, objects) else {
                    continue;
                };
                if host.tls.is_none() {
                    without_tls.push(made);
                    continue;
                }
                without_tls.push(if route.permits_insecure {
                    made.clone()
                } else {
                    to_https(&made, &host.name)
                });
                with_tls.push(made);
            }
            plain.push(VirtualHost {
                hostname: hostname.clone(),
                routes: without_tls,
            });
            if let Some(tls) = &host.tls {
                let secret = tls.secret.clone();
                if let Some(Ok(certificate)) = objects.certificates.get(&secret) {
                    graph.certificates.insert(secret.clone(), Arc::new(certificate.clone()));
                }
                secure.push(listener_of(&host.name, hostname, with_tls, secret, tls.minimum));
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

impl HostRoute<'_> {
    pub(super) fn object(&self) -> ObjectRef {
        ObjectRef {
            kind: Kind::IngressRoute,
            name: self.object.clone(),
        }
    }

    pub(super) fn field(&self) -> String {
        format!("spec.routes[{}]", self.index)
    }

    fn name(&self) -> String {
        format!(
            "ingressroute/{}/{}/{}",
            self.object.namespace, self.object.name, self.prefix
        )
    }

    pub(super) fn facts(&self, host: &str) -> RuleFacts<'_> {
        let hosts = BTreeSet::from([Hostname::Exact(host.into())]);
        let affine = self
            .forwarding
            .services
            .iter()
            .filter(|service| service.affinity.is_some());
        RuleFacts {
            route: self.object(),
            meta: self.meta,
            field: self.field(),
            name: RuleName(self.scope.clone().unwrap_or_else(|| self.name()).into()),
            inline: None,
            foreign: Some(self),
            sessionless: None,
            backends: affine
                .map(|service| RuleBackend::Service(service.name.clone()))
                .collect(),
            clusters: Vec::new(),
            refused_backends: BTreeMap::new(),
            paths: Vec::new(),
            gateways: BTreeSet::new(),
            schemes: if self.shares_cookie {
                Schemes {
                    over_http: hosts.clone(),
                    over_https: hosts.clone(),
                }
            } else {
                Schemes::default()
            },
            hosts,
            places: Arc::default(),
        }
    }

    fn made(&self, graph: &mut Graph, session: &Session, all: &Sessions, objects: &Objects) -> Option<Route> {
        let quarantined = objects.quarantined.get(&self.object());
        let action = match quarantined.map(|quarantined| quarantined.serves) {
            None | Some(RouteReplacement::Former) => self.forward(graph, session, all),
            Some(RouteReplacement::Status500) => Action::Respond {
                status: 500,
                reason: "refused by Envoy".to_owned(),
            },
            Some(RouteReplacement::Nothing) => return None,
        };
        Some(Route {
            rule: RuleName(self.name().into()),
            matches: Match {
                path: self.path.clone(),
                ..Match::default()
            },
            action,
            request_headers: HeaderChanges::default(),
            response_headers: HeaderChanges::default(),
            cors: None,
        })
    }

    fn forward(&self, graph: &mut Graph, session: &Session, all: &Sessions) -> Action {
        let forwarding = &self.forwarding;
        let mut destinations = Vec::with_capacity(forwarding.services.len());
        for (weight, ResolvedBackend { cluster, spec, .. }) in self.destinations(all) {
            let namespaces = Arc::make_mut(graph.referencing_namespaces.entry(spec.service.clone()).or_default());
            namespaces.insert(spec.service.namespace.as_str().into());
            destinations.push(Destination {
                weight,
                target: Target::Cluster(cluster.clone()),
                request_headers: HeaderChanges::default(),
                response_headers: HeaderChanges::default(),
            });
            graph.clusters.entry(cluster).or_insert_with(|| Arc::new(spec));
        }
        Action::Forward(Forward {
            destinations,
            session: session.clone(),
            hash: sessions::hash(&forwarding.services, forwarding.session.as_ref()),
            refuses_websockets: !forwarding.websockets,
            rewrite: forwarding.rewrite.clone(),
            request_timeout: forwarding.request_timeout,
            backend_timeout: forwarding.try_timeout,
            retry: forwarding.retry.clone(),
            ..Forward::default()
        })
    }

    pub(super) fn destinations(&self, all: &Sessions) -> impl Iterator<Item = (u32, ResolvedBackend)> {
        let services = &self.forwarding.services;
        // All of them zero: equal shares. The weight of a single one does not count.
        let is_equal = services.len() == 1 || services.iter().all(|service| service.weight == 0);
        services.iter().map(move |service| {
            let mut backend = service.backend(self.scope.is_some() && !sessions::begins_at(service));
            backend.spec.session = service.affinity.and_then(|_| own_session(&backend, all));
            (if is_equal { 1 } else { service.weight }, backend)
        })
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

/// Keeps path and query, and not the port of the request, which is the plain listener's.
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

fn with_sessions<'a>(
    host: &RootHost,
    mut routes: Vec<HostRoute<'a>>,
    told: &mut HostFindings<'a>,
) -> Vec<HostRoute<'a>> {
    let over_http = routes
        .iter()
        .filter(|route| host.tls.is_some() && route.permits_insecure);
    let over_http: BTreeSet<(String, String)> = over_http
        .filter_map(|route| route.forwarding.session.as_ref()?.cookie())
        .collect();
    for route in &mut routes {
        let Some(held) = &route.forwarding.session else {
            continue;
        };
        if let Some(domain) = held.sessions.foreign_domain(&host.name) {
            let of_object = told.foreign.entry(route.object);
            of_object.or_insert_with(|| foreign(domain, &host.name));
            continue;
        }
        told.with_sessions.insert(route.object);
        route.shares_cookie = held.cookie().is_some_and(|cookie| over_http.contains(&cookie));
        route.scope = Some(held.scope(&host.name));
    }
    routes
}

fn foreign(domain: &str, host: &str) -> String {
    format!(
        "metadata.annotations[session.limpet.dev/domain]: expected a domain of {host}, found {domain:?}: browsers drop \
         the cookie"
    )
}

/// The routes of a host, longer prefixes first. Of equal prefixes the last one counts. A delegated prefix matches
/// segments; the rest of the text stays with the route that was there before.
fn distinct<'a>(
    host: &RootHost,
    served: &[DelegatedRoute<'_>],
    ours: &OurIngressRoutes<'a>,
    contents: &IngressRouteContents<'a>,
    settings: &ContourSettings,
    told: &mut HostFindings<'a>,
) -> Vec<HostRoute<'a>> {
    let mut by_prefix: BTreeMap<Reverse<&str>, Vec<HostRoute<'a>>> = BTreeMap::new();
    for one in served {
        let (Some((name, object)), Some(Ok(content))) = (ours.get_key_value(one.object), contents.get(one.object))
        else {
            continue;
        };
        let Some((rule, IngressAction::Forward(forwarding))) =
            content.rules.get(one.route).map(|rule| (rule, &rule.action))
        else {
            continue;
        };
        let path = path(rule.prefix, one.delegated_prefix);
        let known = by_prefix.entry(Reverse(rule.prefix)).or_default();
        for former in known
            .iter()
            .filter(|former| !Rc::ptr_eq(&former.forwarding, forwarding))
        {
            let by = if former.object == *name {
                format!("spec.routes[{}]", rule.index)
            } else {
                format!("IngressRoute {name}")
            };
            told.overruled.entry(former.object).or_default().push(format!(
                "{}.match: on {}, {by} has the same one, and counts in its place",
                former.field(),
                host.name
            ));
        }
        known.retain(|former| matches!((&former.path, &path), (PathMatch::Text(_), PathMatch::Prefix(_))));
        let route = HostRoute {
            object: name,
            meta: &object.meta,
            index: rule.index,
            prefix: rule.prefix,
            path,
            forwarding: Rc::clone(forwarding),
            scope: None,
            permits_insecure: rule.permit_insecure && settings.permit_insecure,
            shares_cookie: false,
        };
        known.insert(0, route);
    }
    by_prefix.into_values().flatten().collect()
}

/// Contour's prefixes are plain text. But a delegate of `/blog` has no right to `/blogger`.
fn path(prefix: &str, given: Option<&str>) -> PathMatch {
    if prefix != "/" && !prefix.ends_with('/') && given.is_some_and(|given| given.trim_end_matches('/') == prefix) {
        PathMatch::Prefix(prefix.to_owned())
    } else {
        PathMatch::Text(prefix.to_owned())
    }
}
