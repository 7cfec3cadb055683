//! The resources of one Gateway's Envoys, kept up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hosts::{EncodedHost, EncodedRoute, host_name};
use super::moving::MovingFilter;
use super::options::EnvoyOptions;
use super::routes::{RouteBuilder, configuration_name};
use super::{backend_tls, certificate_resource, certificates, cluster_resource, filter_resource, preflight, resource};
use crate::filter::FilterInputs;
use crate::used::{
    GatewayReferences, VirtualHostKey, VirtualHostReference, hosts, moves, object_of, references, sessions,
};
use limpet_api::{ObjectName, Text};
use limpet_model::Graph;
use limpet_model::graph::{Cluster, ClusterName, Gateway, Hostname, Listener, Route, VirtualHost};
use limpet_resources::{ResourceType, Resources, changes};

/// The result of [`super::served`] for the last graph. A copy shares all but what differs.
#[derive(Debug, Clone)]
pub struct GatewayResources {
    gateway: ObjectName,
    graph: Graph,
    options: Arc<EnvoyOptions>,
    inputs: Arc<FilterInputs>,
    used: GatewayReferences,
    resources: Resources,
    moving: Option<Arc<MovingFilter>>,
}

impl GatewayResources {
    /// Builds all of it. `used`: what the Gateway uses.
    #[must_use]
    pub fn new(
        graph: &Graph,
        gateway: &ObjectName,
        used: GatewayReferences,
        options: &Arc<EnvoyOptions>,
        inputs: &Arc<FilterInputs>,
    ) -> Self {
        let moving = MovingFilter::with_used(graph, gateway, &used, options, inputs);
        Self {
            gateway: gateway.clone(),
            resources: super::served(graph, gateway, options, inputs),
            graph: graph.clone(),
            options: Arc::clone(options),
            inputs: Arc::clone(inputs),
            moving: moving.map(Arc::new),
            used,
        }
    }

    /// The resources, except endpoints.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// What the Gateway uses.
    #[must_use]
    pub fn used(&self) -> &GatewayReferences {
        &self.used
    }

    /// The filter, if it needs the hosts of clusters.
    #[must_use]
    pub fn moving(&self) -> Option<&Arc<MovingFilter>> {
        self.moving.as_ref()
    }

    /// Takes in another graph, and makes only what changed.
    pub fn catch_up(
        &mut self,
        graph: &Graph,
        used: GatewayReferences,
        options: &Arc<EnvoyOptions>,
        inputs: &Arc<FilterInputs>,
    ) {
        let gateways = (
            self.graph.gateways.get(&self.gateway),
            graph.gateways.get(&self.gateway),
        );
        let (Some(before), Some(after)) = gateways else {
            *self = Self::new(graph, &self.gateway, used, options, inputs);
            return;
        };
        let is_alike = self.options == *options
            && options.elsewhere(&self.gateway).is_none()
            && self.options.of(&self.graph, &self.gateway) == options.of(graph, &self.gateway)
            && are_alike(before, after);
        if !is_alike {
            *self = Self::new(graph, &self.gateway, used, options, inputs);
            return;
        }
        let options = options.of(graph, &self.gateway);
        let mut resources = self.resources.clone();
        let change = VirtualHostChange {
            before: &self.graph,
            after: graph,
            from: before,
            to: after,
            routes: RouteBuilder {
                graph,
                options: &options,
            },
        };
        let places = changed_places(&self.used, (&self.graph, before), (graph, after));
        change.patch_hosts(&places, &used, &mut resources);
        let referred: BTreeSet<&VirtualHostReference> = used.changes(&self.used).collect();
        // What was used and is not, or the other way round.
        let swapped = referred.iter().copied().filter(|of| used.has(of) != self.used.has(of));
        let swapped: BTreeSet<&VirtualHostReference> = swapped.collect();
        change.patch_clusters(&swapped, &used, &options, &mut resources);
        let is_filters = |of: &&VirtualHostReference| {
            matches!(
                of,
                VirtualHostReference::Policy(_) | VirtualHostReference::NamespacePolicy(..)
            )
        };
        let policies = || changes(&self.graph.policies, &graph.policies).map(|(name, ..)| name);
        let other_filter =
            self.inputs != *inputs || policies().any(|name| used.has_policy(name)) || swapped.iter().any(is_filters);
        if other_filter {
            resources.insert(filter_resource(graph, &self.gateway, &used, &options, inputs));
        }
        let of_sessions = referred.iter().filter_map(|of| match of {
            VirtualHostReference::Session(_, policy) => Some(policy),
            _ => None,
        });
        let moves = policies()
            .chain(of_sessions)
            .any(|policy| moves(&self.graph, policy) || moves(graph, policy));
        if moves || other_filter && self.moving.is_some() {
            let moving = MovingFilter::with_used(graph, &self.gateway, &used, &options, inputs);
            self.moving = moving.map(Arc::new);
        }
        self.catch_up_certificates(graph, after, &mut resources);
        (self.resources, self.used) = (resources, used);
        (self.graph, self.inputs) = (graph.clone(), Arc::clone(inputs));
    }

    fn catch_up_certificates(&self, graph: &Graph, after: &Gateway, resources: &mut Resources) {
        let secrets = certificates(after);
        for (name, _, certificate) in changes(&self.graph.certificates, &graph.certificates) {
            match certificate.filter(|_| secrets.contains(name)) {
                Some(certificate) => resources.insert(certificate_resource(name, certificate)),
                None => drop(resources.remove(ResourceType::Secret, &name.to_string())),
            }
        }
    }
}

impl GatewayReferences {
    /// Takes in another graph. `self` has the references in `before`.
    pub fn catch_up(&mut self, gateway: &ObjectName, before: &Graph, after: &Graph) {
        let gateways = (before.gateways.get(gateway), after.gateways.get(gateway));
        let (Some(from), Some(to)) = gateways else {
            *self = Self::by(after, gateway);
            return;
        };
        if !are_alike(from, to) {
            *self = Self::by(after, gateway);
            return;
        }
        for place in changed_places(self, (before, from), (after, to)).keys() {
            if let Some(host) = place.find(from) {
                self.remove(place, references(before, host));
            }
            if let Some(host) = place.find(to) {
                self.add(place, references(after, host));
            }
        }
    }

    /// The policies of scopes that have others in `after`. `self` has the references in `before`.
    #[must_use]
    pub fn replaced_policies(&self, gateway: &ObjectName, before: &Graph, after: &Graph) -> BTreeSet<ReplacedPolicy> {
        let gateways = (before.gateways.get(gateway), after.gateways.get(gateway));
        let (Some(from), Some(to)) = gateways else {
            return BTreeSet::new();
        };
        let changed = are_alike(from, to).then(|| changed_places(self, (before, from), (after, to)));
        let [was, is]: [BTreeSet<_>; 2] = [(before, from), (after, to)].map(|(graph, gateway)| match &changed {
            Some(places) => {
                let hosts = places.keys().filter_map(|place| place.find(gateway));
                hosts.flat_map(|host| sessions(graph, host)).collect()
            }
            None => hosts(gateway).flat_map(|(_, host)| sessions(graph, host)).collect(),
        });
        let mut gone: BTreeMap<&Text, Vec<&Text>> = BTreeMap::new();
        for former in was.difference(&is) {
            gone.entry(&former.scope).or_default().push(&former.policy);
        }
        let mut replaced = BTreeSet::new();
        // Also what other rules with the scope had before.
        for used in &is {
            let former = gone.get(&used.scope).into_iter().flatten();
            replaced.extend(former.map(|former| ReplacedPolicy {
                namespace: used.namespace(),
                before: Text::clone(former),
                after: used.policy.clone(),
            }));
        }
        replaced
    }
}

/// A policy that scopes of a namespace had, and the one that they have now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplacedPolicy {
    /// The namespace.
    pub namespace: Text,
    /// The former one's name.
    pub before: Text,
    /// The other one's name.
    pub after: Text,
}

/// Whether only virtual hosts differ. If not, everything is rebuilt.
fn are_alike(before: &Gateway, after: &Gateway) -> bool {
    let listener = |before: &Listener, after: &Listener| {
        let any = |listener: &Listener| listener.virtual_hosts.contains_key(&Hostname::Any);
        let rest = |listener: &'_ Listener| (listener.certificates.is_some(), listener.tls_minimum);
        (&before.name, &before.hostname, &before.certificates) == (&after.name, &after.hostname, &after.certificates)
            && rest(before) == rest(after)
            // Whether it answers for all other hosts.
            && any(before) == any(after)
    };
    let port = |before: &Vec<Listener>, after: &Vec<Listener>| {
        before.len() == after.len() && before.iter().zip(after).all(|(before, after)| listener(before, after))
    };
    before.connections == after.connections
        && before.ports.keys().eq(after.ports.keys())
        && before
            .ports
            .values()
            .zip(after.ports.values())
            .all(|(before, after)| port(before, after))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangedHosts {
    /// Only some routes of the virtual host.
    Routes,
    /// A cluster or a policy that its routes refer to, and perhaps routes.
    Referred,
}

/// The virtual hosts that differ, or of which a cluster differs for their routes.
fn changed_places(
    used: &GatewayReferences,
    before: (&Graph, &Gateway),
    after: (&Graph, &Gateway),
) -> BTreeMap<Arc<VirtualHostKey>, ChangedHosts> {
    let mut places = BTreeMap::new();
    for (port, listeners) in &before.1.ports {
        let others = after.1.ports.get(port).into_iter().flatten();
        for (index, (listener, other)) in listeners.iter().zip(others).enumerate() {
            for (hostname, ..) in changes(&listener.virtual_hosts, &other.virtual_hosts) {
                let place = VirtualHostKey {
                    port: *port,
                    listener: index,
                    hostname: hostname.clone(),
                };
                places.insert(Arc::new(place), ChangedHosts::Routes);
            }
        }
    }
    let clusters = changes(&before.0.clusters, &after.0.clusters);
    let clusters = clusters.filter(|(_, before, after)| of_routes(*before) != of_routes(*after));
    let clusters = clusters.map(|(name, ..)| VirtualHostReference::Cluster(name.clone()));
    let policies = changes(&before.0.policies, &after.0.policies);
    let policies = policies.map(|(name, ..)| VirtualHostReference::Policy(name.clone()));
    for reference in clusters.chain(policies) {
        places.extend(
            used.places(&reference)
                .map(|place| (Arc::clone(place), ChangedHosts::Referred)),
        );
    }
    places
}

fn of_routes(cluster: Option<&Arc<Cluster>>) -> impl PartialEq + '_ {
    cluster.map(|cluster| {
        let authorities = cluster.tls.as_ref().map(|tls| &tls.authorities);
        (&cluster.session, cluster.never_begins, authorities)
    })
}

/// The step from one graph to another, where only virtual hosts of the Gateway differ.
struct VirtualHostChange<'g> {
    before: &'g Graph,
    after: &'g Graph,
    from: &'g Gateway,
    to: &'g Gateway,
    routes: RouteBuilder<'g>,
}

impl<'g> VirtualHostChange<'g> {
    fn listener(&self, place: &VirtualHostKey) -> Option<&'g Listener> {
        self.to.ports.get(&place.port)?.get(place.listener)
    }

    fn patch_hosts(
        &self,
        places: &BTreeMap<Arc<VirtualHostKey>, ChangedHosts>,
        used: &GatewayReferences,
        resources: &mut Resources,
    ) {
        let mut objects = BTreeSet::new();
        for (place, differs) in places {
            let (was, is) = (place.find(self.from), place.find(self.to));
            objects.extend(changed_objects(was, is, *differs));
            if let (None, Some(listener)) = (is, self.listener(place)) {
                let configuration = configuration_name(place.port, listener);
                let name = host_name(&configuration, &place.hostname.to_string());
                resources.remove(ResourceType::VirtualHost, &name);
            }
        }
        let mut encoded: BTreeMap<&VirtualHostKey, ByObject> = BTreeMap::new();
        for place in places.keys() {
            let (Some(listener), Some(host)) = (self.listener(place), place.find(self.to)) else {
                continue;
            };
            let host = EncodedHost::of(self.routes.host(place.port, listener, host));
            resources.extend(host.apart(&configuration_name(place.port, listener)));
            encoded.insert(place, by_object(host.routes));
        }
        for object in objects {
            let mut routes = Vec::new();
            for place in used.places(&VirtualHostReference::Object(object.into())) {
                match encoded.get(&**place) {
                    Some(known) => routes.extend(known.get(object).into_iter().flatten().cloned()),
                    None => routes.extend(self.encoded(place, object)),
                }
            }
            match preflight::unit(object, routes.iter()) {
                Some(unit) => resources.insert_unit(unit),
                None => resources.remove_unit(object),
            }
        }
    }

    fn encoded(&self, place: &VirtualHostKey, object: &str) -> Vec<EncodedRoute> {
        let (Some(listener), Some(host)) = (self.listener(place), place.find(self.to)) else {
            return Vec::new();
        };
        let own = host
            .routes
            .iter()
            .filter(|route| object_of(&route.rule.0) == Some(object));
        let own = VirtualHost {
            hostname: host.hostname.clone(),
            routes: own.cloned().collect(),
        };
        EncodedHost::of(self.routes.host(place.port, listener, &own)).routes
    }

    fn patch_clusters(
        &self,
        swapped: &BTreeSet<&VirtualHostReference>,
        used: &GatewayReferences,
        options: &EnvoyOptions,
        resources: &mut Resources,
    ) {
        let mut clusters: BTreeSet<&ClusterName> = BTreeSet::new();
        for reference in swapped {
            match reference {
                VirtualHostReference::Cluster(cluster) => drop(clusters.insert(cluster)),
                VirtualHostReference::Authorities(name) if !used.has(reference) => {
                    resources.remove(ResourceType::Secret, name);
                }
                _ => {}
            }
        }
        clusters.extend(changes(&self.before.clusters, &self.after.clusters).map(|(name, ..)| name));
        let mut made = Vec::new();
        for name in clusters {
            let Some(cluster) = self.after.clusters.get(name).filter(|_| used.has_cluster(name)) else {
                resources.remove(ResourceType::Cluster, &name.0);
                continue;
            };
            resources.insert(cluster_resource(name, cluster, options));
            made.push(&**cluster);
        }
        for secret in backend_tls::secrets(made.into_iter(), options) {
            resources.insert(resource(ResourceType::Secret, &secret.name, &secret));
        }
    }
}

type ByObject = BTreeMap<String, Vec<EncodedRoute>>;

fn by_object(routes: Vec<EncodedRoute>) -> ByObject {
    let mut objects = ByObject::new();
    for route in routes {
        if let Some(object) = object_of(&route.name).map(str::to_owned) {
            objects.entry(object).or_default().push(route);
        }
    }
    objects
}

/// The objects whose routes differ. If a cluster or a policy does, any may.
fn changed_objects<'h>(
    was: Option<&'h Arc<VirtualHost>>,
    is: Option<&'h Arc<VirtualHost>>,
    differs: ChangedHosts,
) -> BTreeSet<&'h str> {
    let of = |host: Option<&'h Arc<VirtualHost>>| {
        let mut objects: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
        for route in host.iter().flat_map(|host| &host.routes) {
            if let Some(object) = object_of(&route.rule.0) {
                objects.entry(object).or_default().push(route);
            }
        }
        objects
    };
    let (before, after) = (of(was), of(is));
    let mut all = before.keys().chain(after.keys()).copied().collect::<BTreeSet<_>>();
    all.retain(|object| differs == ChangedHosts::Referred || before.get(object) != after.get(object));
    all
}
