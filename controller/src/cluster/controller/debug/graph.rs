use std::collections::{BTreeMap, BTreeSet};

use super::index::{Index, IndexedRoute, IndexedRule, ServicePortKey};
use super::judged::{ObjectVerdicts, ReportedObject};
use super::pods::{PodEntry, PodIndex};
use super::rules;
use super::search::{MatchedWords, SearchWords};
use super::view::{DebugView, GatewayView, LeftOut, ListenerView, ObjectVerdict, ObjectView, RouteView, ServiceView};
use crate::cluster::controller::present::PublishedSnapshot;
use crate::cluster::sessions::PodSessions;
use limpet_api::{Kind, ObjectName, ObjectRef, ParentRef};
use limpet_model::Reports;
use limpet_model::endpoints::Endpoint;
use limpet_model::graph::{Cluster, Graph};
use limpet_model::reports::RouteReport;

/// Limits: as much as a browser draws at once, and a person reads.
const MOST_GATEWAYS: usize = 50;
const MOST_ROUTES: usize = 100;
/// Of all routes together.
const MOST_RULES: usize = 400;
const MOST_SERVICES: usize = 300;
/// Of one Service, and of all together.
const MOST_PODS_OF_SERVICE: usize = 20;
const MOST_PODS: usize = 1000;
const MOST_REFUSED: usize = 100;
/// Of a route.
const MOST_HOSTNAMES: usize = 16;
/// Of a Gateway.
const MOST_LISTENERS: usize = 64;

struct GraphView<'a> {
    search: &'a SearchWords,
    graph: &'a Graph,
    index: &'a Index<'a>,
    judged: &'a ObjectVerdicts<'a>,
    pods: &'a PodIndex<'a>,
    left_out: LeftOut,
}

/// The published state as far as it matches `query`. `envoys`: connected ones by Gateway.
pub(super) fn view(
    present: &PublishedSnapshot,
    sessions: &[PodSessions],
    envoys: &BTreeMap<String, usize>,
    query: &str,
) -> DebugView {
    let search = SearchWords::new(query);
    let nothing = Graph::default();
    let graph = present.graph.as_deref().unwrap_or(&nothing);
    let unsaid = Reports::default();
    let reported = present.reported.as_ref();
    let reports = reported.map_or(&unsaid, |reported| &reported.reports);
    let index = Index::new(graph);
    let judged = ObjectVerdicts::new(reports);
    let pods = PodIndex::new(present, sessions);
    let mut shown = GraphView {
        search: &search,
        graph,
        index: &index,
        judged: &judged,
        pods: &pods,
        left_out: LeftOut::default(),
    };
    let asked = requested_gateways(reports);
    let (routes, gateways) = shown.routes(&asked);
    let gateways = shown.gateways(reports, &gateways, envoys);
    let refused = shown.refused();
    let (routes, ports) = shown.rules(routes);
    let services = shown.services(&ports);
    DebugView {
        published: present.graph.is_some(),
        gateways,
        routes,
        services,
        refused,
        left_out: shown.left_out,
        search: search.words().to_vec(),
    }
}

/// The Gateways that each route asks for, whether they serve it or not.
fn requested_gateways(reports: &Reports) -> BTreeMap<ObjectRef, BTreeSet<ObjectName>> {
    let of = |kind: Kind, name: &ObjectName, report: &RouteReport| {
        let gateways = report.parents.iter().map(|parent| &parent.parent_ref);
        let gateways = gateways.filter(|parent| parent.kind == Kind::Gateway.as_str());
        let gateways = gateways.map(|parent| {
            let ParentRef {
                namespace, name: of, ..
            } = parent;
            ObjectName::new(namespace.as_deref().unwrap_or(&name.namespace), of)
        });
        let name = name.clone();
        (ObjectRef { kind, name }, gateways.collect())
    };
    let http = reports.http_routes.iter();
    let http = http.map(|(name, report)| of(Kind::HttpRoute, name, report));
    let grpc = reports.grpc_routes.iter();
    let grpc = grpc.map(|(name, report)| of(Kind::GrpcRoute, name, report));
    let ingress = reports.ingress_routes.keys().map(|name| {
        let (kind, name) = (Kind::IngressRoute, name.clone());
        (ObjectRef { kind, name }, BTreeSet::new())
    });
    http.chain(grpc).chain(ingress).collect()
}

impl<'a> GraphView<'a> {
    /// The matching routes, and their Gateways.
    fn routes(
        &mut self,
        asked: &BTreeMap<ObjectRef, BTreeSet<ObjectName>>,
    ) -> (Vec<(ObjectRef, RouteView)>, BTreeSet<ObjectName>) {
        let in_services = self.match_services();
        let none = BTreeSet::new();
        let all: BTreeSet<&ObjectRef> = asked.keys().chain(self.index.routes.keys()).collect();
        let mut routes = Vec::new();
        let mut all_gateways = BTreeSet::new();
        for object in all {
            let served = self.index.routes.get(object);
            let judged = self.judged.get(object);
            let asks = asked.get(object).unwrap_or(&none).iter();
            let serve = served.iter().flat_map(|route| route.gateways.iter().copied());
            let gateways: BTreeSet<&ObjectName> = asks.chain(serve).collect();
            if !self.search.is_empty() {
                let own = self.search.match_words([object.key()]);
                let own = own.or(self.search.match_words(gateways.iter().map(ToString::to_string)));
                let said = judged.map(|judged| judged.match_words(self.search));
                let found = own.or(said.unwrap_or_default());
                let leads = served.map(|route| {
                    route
                        .match_words(self.search)
                        .or(self.match_destinations(route, &in_services))
                });
                if !self.search.is_whole(found.or(leads.unwrap_or_default())) {
                    continue;
                }
            }
            if routes.len() == MOST_ROUTES {
                self.left_out.routes += 1;
                continue;
            }
            let hostnames = served.iter().flat_map(|route| &route.hostnames);
            let view = RouteView {
                id: object.key(),
                kind: object.kind.as_str(),
                namespace: object.name.namespace.to_string(),
                name: object.name.name.to_string(),
                verdict: judged.map_or(ObjectVerdict::Accepted, ReportedObject::verdict),
                conditions: judged.map(ReportedObject::conditions).unwrap_or_default(),
                gateways: gateways.iter().map(ToString::to_string).collect(),
                hostnames: hostnames.take(MOST_HOSTNAMES).map(ToString::to_string).collect(),
                rules: Vec::new(),
            };
            all_gateways.extend(gateways.into_iter().cloned());
            routes.push((object.clone(), view));
        }
        (routes, all_gateways)
    }

    /// Matches the ports of all Services and their pods.
    fn match_services(&self) -> BTreeMap<ServicePortKey<'a>, MatchedWords> {
        if self.search.is_empty() {
            return BTreeMap::new();
        }
        let services = self.index.services.iter().map(|(port, cluster)| {
            let external = cluster.external_name.as_deref().unwrap_or_default();
            let mut found = self.search.match_words([port.id().as_str(), external]);
            let endpoints = self.endpoints(cluster);
            for pod in self.pods.pods(port.service, &endpoints) {
                found = found.or(pod.match_words(self.search));
            }
            (*port, found)
        });
        services.collect()
    }

    fn endpoints(&self, cluster: &Cluster) -> Vec<Endpoint> {
        self.pods.endpoints(&cluster.service, &cluster.port_name)
    }

    /// Matches the destinations of a route.
    fn match_destinations(
        &self,
        route: &IndexedRoute<'a>,
        services: &BTreeMap<ServicePortKey<'a>, MatchedWords>,
    ) -> MatchedWords {
        let clusters = route.rules.values().flat_map(IndexedRule::clusters);
        let ports =
            clusters.filter_map(|name| self.graph.clusters.get(name).map(|cluster| ServicePortKey::of(cluster)));
        ports.fold(MatchedWords::default(), |found, port| {
            found.or(services.get(&port).copied().unwrap_or_default())
        })
    }

    /// The Gateways of the routes, and those that match themselves.
    fn gateways(
        &mut self,
        reports: &Reports,
        of_routes: &BTreeSet<ObjectName>,
        envoys: &BTreeMap<String, usize>,
    ) -> Vec<GatewayView> {
        let known: BTreeSet<&ObjectName> = reports.gateways.keys().chain(self.graph.gateways.keys()).collect();
        let is_found = |name: &ObjectName| {
            let judged = self.judged.get(&gateway(name));
            let said = judged.map(|judged| judged.match_words(self.search));
            let own = self.search.match_words([format!("gateway/{name}")]);
            self.search.is_whole(own.or(said.unwrap_or_default()))
        };
        let found = known
            .iter()
            .filter(|name| !of_routes.contains(**name) && is_found(name));
        let of_routes = of_routes.iter().filter(|name| known.contains(name));
        let all: Vec<&ObjectName> = of_routes.chain(found.copied()).collect();
        self.left_out.gateways = all.len().saturating_sub(MOST_GATEWAYS);
        let mut views: Vec<_> = all.into_iter().take(MOST_GATEWAYS).collect();
        views.sort();
        let view = |name: &ObjectName| {
            let judged = self.judged.get(&gateway(name));
            let ports = self.graph.gateways.get(name).into_iter().flat_map(|of| &of.ports);
            let listeners = ports.flat_map(|(port, listeners)| listeners.iter().map(move |of| (port, of)));
            let listeners = listeners.take(MOST_LISTENERS).map(|(port, listener)| ListenerView {
                name: listener.name.clone(),
                port: *port,
                hostname: listener.hostname.to_string(),
                tls: listener.certificates.is_some(),
            });
            let report = reports.gateways.get(name);
            let addresses = report.and_then(|report| report.addresses.as_ref());
            let addresses = addresses.into_iter().flatten().map(|address| address.value.clone());
            let id = name.to_string();
            GatewayView {
                verdict: judged.map_or(ObjectVerdict::Accepted, ReportedObject::verdict),
                conditions: judged.map(ReportedObject::conditions).unwrap_or_default(),
                listeners: listeners.collect(),
                addresses: addresses.collect(),
                routes: self.index.served.get(name).copied().unwrap_or_default(),
                envoys: envoys.get(&id).copied().unwrap_or_default(),
                id,
            }
        };
        views.into_iter().map(view).collect()
    }

    fn refused(&mut self) -> Vec<ObjectView> {
        let wrong = self.judged.iter();
        let wrong = wrong.filter(|(object, judged)| {
            judged.verdict() != ObjectVerdict::Accepted
                && (self.search.is_empty()
                    || self.search.is_whole(
                        judged
                            .match_words(self.search)
                            .or(self.search.match_words([object.key()])),
                    ))
        });
        let mut wrong: Vec<_> = wrong.collect();
        // Objects that do not count at all come first.
        wrong.sort_by_key(|(_, judged)| std::cmp::Reverse(judged.verdict()));
        self.left_out.refused = wrong.len().saturating_sub(MOST_REFUSED);
        let wrong = wrong.into_iter().take(MOST_REFUSED);
        wrong.map(|(object, judged)| judged.refused(object)).collect()
    }

    /// Returns the ports of Services that the rules lead to.
    fn rules(&mut self, routes: Vec<(ObjectRef, RouteView)>) -> (Vec<RouteView>, Vec<ServicePortKey<'a>>) {
        let mut shown = 0;
        let mut ports = Vec::new();
        let mut known = BTreeSet::new();
        let routes = routes.into_iter().map(|(object, mut view)| {
            let Some(route) = self.index.routes.get(&object) else {
                return view;
            };
            for (name, rule) in rules::in_order(self.graph, route) {
                if shown == MOST_RULES {
                    self.left_out.rules += 1;
                    continue;
                }
                shown += 1;
                view.rules.push(rules::view(self.graph, name, rule));
                let clusters = rule.clusters();
                let found = clusters
                    .filter_map(|name| self.graph.clusters.get(name).map(|cluster| ServicePortKey::of(cluster)));
                ports.extend(found.filter(|port| known.insert(*port)));
            }
            view
        });
        (routes.collect(), ports)
    }

    fn services(&mut self, ports: &[ServicePortKey<'a>]) -> Vec<ServiceView> {
        self.left_out.services = ports.len().saturating_sub(MOST_SERVICES);
        let mut room = MOST_PODS;
        let mut views = Vec::new();
        for port in ports.iter().take(MOST_SERVICES) {
            let Some(cluster) = self.index.services.get(port) else {
                continue;
            };
            let endpoints = self.endpoints(cluster);
            let mut pods = self.pods.pods(port.service, &endpoints);
            let (gone, there): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.is_gone());
            let sum = |pods: &[&PodEntry<'_>]| -> Option<usize> {
                let sessions: BTreeMap<_, usize> = pods.iter().filter_map(|pod| pod.sessions()).collect();
                (!sessions.is_empty()).then(|| sessions.values().sum())
            };
            let (sessions, gone_sessions, gone_pods) = (sum(&there), sum(&gone), gone.len());
            // If there are too many, matching pods come first, and gone ones last.
            let rank = |pod: &PodEntry<'_>| {
                (
                    pod.match_words(self.search).is_nothing(),
                    pod.is_gone(),
                    !pod.is_special(),
                )
            };
            pods.sort_by_cached_key(rank);
            let most = MOST_PODS_OF_SERVICE.min(room);
            let more_pods = pods.len().saturating_sub(most);
            self.left_out.pods += more_pods;
            pods.truncate(most);
            room -= pods.len();
            views.push(ServiceView {
                id: port.id(),
                namespace: port.service.namespace.to_string(),
                name: port.service.name.to_string(),
                port: port.port,
                tls: cluster.tls.is_some(),
                external_name: cluster.external_name.clone(),
                pods: pods.iter().map(PodEntry::view).collect(),
                more_pods,
                sessions,
                gone_pods,
                gone_sessions,
            });
        }
        views
    }
}

fn gateway(name: &ObjectName) -> ObjectRef {
    ObjectRef {
        kind: Kind::Gateway,
        name: name.clone(),
    }
}
