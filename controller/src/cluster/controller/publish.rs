use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::build::{BuildChanges, BuildResult, BuildStages, BuildState, Builder, ByGateway};
use super::hosts::MovingGateways;
use super::metrics::Metrics;
use super::quarantine::{Quarantine, RouteStanding};
use super::retained_policies::{Moment, RetainedState};
use super::target::PublicationTarget;
use crate::cluster::reconcile::delivery::PublishedFilter;
use crate::cluster::reconcile::manifests::DesiredManifests;
use crate::cluster::reconcile::replicas::{RefusedRoute, ReplicaView};
use crate::cluster::sessions::{PublishedCluster, SessionRegistry};
use limpet_api::{ObjectName, ObjectRef};
use limpet_model::endpoints::Endpoint;
use limpet_model::graph::{Cluster, ClusterName, Graph};
use limpet_model::{FewMap, Objects, Reports};
use limpet_outputs::envoy::{EncodedEndpoints, EnvoyOptions};
use limpet_outputs::{FilterInputs, GatewayReferences, filter_config, variables};
use limpet_resources::{ResourceType, Resources, changes};
use limpet_xds::Snapshots;

#[derive(Debug)]
pub(crate) struct Publisher {
    snapshots: Snapshots,
    metrics: Metrics,
    options: Arc<EnvoyOptions>,
    target: PublicationTarget,
    generation: u64,
    published: Option<BuildState>,
    published_filter: Option<PublishedFilter>,
    quarantine: Arc<Quarantine>,
    /// The objects of the published resources, before these routes were replaced.
    objects: Option<Arc<Objects>>,
    quarantined: BTreeSet<ObjectRef>,
    ports: BTreeMap<PublishedPortKey, PublishedPort>,
    /// Clusters whose sessions may move.
    rebalancing: BTreeSet<ClusterName>,
    /// By Gateway, without endpoints, as the last build made it.
    built: ByGateway,
    /// By Gateway, everything that is published.
    sent: ByGateway,
    stages: BuildStages,
    moving: MovingGateways,
    session_registry: SessionRegistry,
    /// Those that still have connected Envoys.
    deleted_gateways: BTreeSet<ObjectName>,
}

type PublishedPortKey = (ObjectName, String);

#[derive(Debug, Default)]
struct PublishedPort {
    /// The Gateways whose Envoys have each.
    clusters: FewMap<ClusterName, Vec<ObjectName>>,
    /// Endpoints in each cluster.
    endpoints: usize,
}

impl PublishedPort {
    /// One cluster of Envoys for each base: clusters of one base have the same sessions and endpoints.
    fn session_clusters(&self) -> impl Iterator<Item = &ClusterName> {
        let clusters = self.clusters.iter().filter(|(_, gateways)| !gateways.is_empty());
        let mut bases = BTreeSet::new();
        let clusters = clusters.map(|(name, _)| name);
        clusters.filter(move |name| bases.insert(name.base()))
    }
}

fn port_of(cluster: &Cluster) -> PublishedPortKey {
    (cluster.service.clone(), cluster.port_name.clone())
}

impl Publisher {
    /// `session_registry` receives the pods of clusters.
    pub(crate) fn new(
        snapshots: Snapshots,
        metrics: Metrics,
        options: EnvoyOptions,
        target: PublicationTarget,
        session_registry: SessionRegistry,
    ) -> Self {
        Self {
            snapshots,
            metrics,
            options: Arc::new(options),
            target,
            generation: 0,
            published: None,
            published_filter: None,
            quarantine: Arc::default(),
            objects: None,
            quarantined: BTreeSet::new(),
            ports: BTreeMap::new(),
            rebalancing: BTreeSet::new(),
            built: ByGateway::new(),
            sent: ByGateway::new(),
            stages: BuildStages::default(),
            moving: MovingGateways::default(),
            session_registry,
            deleted_gateways: BTreeSet::new(),
        }
    }

    /// `drops_retained`: whether policies that no Envoy needs any more are dropped.
    pub(crate) fn builder(&mut self, inputs: Arc<FilterInputs>, drops_retained: bool) -> Builder {
        Builder {
            options: Arc::clone(&self.options),
            plane: self.target.objects.as_ref().map(|objects| Arc::clone(&objects.plane)),
            managed: self.target.envoys.as_ref().map(|envoys| Arc::clone(&envoys.options)),
            inputs,
            published: self.published.clone(),
            quarantine: Arc::clone(&self.quarantine),
            preflighted: self.preflighted_gateways(),
            drops_retained: if drops_retained {
                self.needless_retained()
            } else {
                BTreeSet::new()
            },
            now: Moment::now(),
            stages: std::mem::take(&mut self.stages),
        }
    }

    fn preflighted_gateways(&self) -> BTreeSet<ObjectName> {
        let status = self.snapshots.status();
        let gateways = self.published.iter().flat_map(|published| &published.gateways);
        gateways
            .filter(|gateway| status.voting_addresses(&gateway.to_string()) > 0)
            .cloned()
            .collect()
    }

    pub(crate) fn status(&self) -> limpet_xds::AckStatus {
        self.snapshots.status()
    }

    pub(crate) fn has_retained(&self) -> bool {
        self.published
            .as_ref()
            .is_some_and(|published| published.retained.values().any(RetainedState::is_for_earlier_routes))
    }

    /// The Gateways whose Envoys all have the published routes, so that none needs the retained policies. Other
    /// Gateways' Envoys do not matter.
    pub(crate) fn needless_retained(&self) -> BTreeSet<ObjectName> {
        let has_all = |gateway: &&ObjectName| self.target.delivery.has_all(gateway, self.generation);
        let retained = self.published.iter().flat_map(|published| &published.retained);
        let awaited = retained.filter(|(_, retained)| retained.is_for_earlier_routes());
        awaited.map(|(gateway, _)| gateway).filter(has_all).cloned().collect()
    }

    /// Publishes a build. Unchanged resources are not sent again. Returns the reports, and the Services with other
    /// clusters. `endpoints`: of a Service's port, for so many clusters.
    pub(crate) fn publish(
        &mut self,
        built: BuildResult,
        mut endpoints: impl FnMut(&ObjectName, &str, usize) -> Vec<Endpoint>,
    ) -> (Reports, BTreeSet<ObjectName>) {
        let mut services = BTreeSet::new();
        self.remember(&built);
        self.stages = built.stages;
        if let Some(changes) = built.changes {
            let BuildChanges {
                state: made,
                life,
                resources,
                moving,
            } = changes;
            self.leave(&made.gateways);
            let unknown = self.moving.catch_up(moving);
            services = self.publish_resources(&made, resources, unknown, &mut endpoints);
            self.hand_over_envoys(&made);
            self.hand_over_objects(&made);
            for of_type in ResourceType::ALL {
                let counts = self.sent.values().map(|sent| sent.by_name(of_type).len());
                self.metrics.count_resources(of_type.name(), counts.sum());
            }
            let versions = self.sent.iter().filter_map(|(gateway, sent)| {
                let filter = sent.of_type(ResourceType::ExtensionConfig).next()?;
                Some((
                    gateway.to_string().into(),
                    (Arc::clone(filter.name()), filter.version()),
                ))
            });
            // Other changes restart no wait for a keyring.
            let former = self.published_filter.as_ref();
            let former = former.filter(|former| former.inputs == made.inputs);
            self.published_filter = Some(PublishedFilter {
                inputs: Arc::clone(&made.inputs),
                life,
                versions: versions.collect(),
                generation: former.map_or(self.generation, |former| former.generation),
            });
            self.published = Some(made);
        }
        (built.reports, services)
    }

    /// Returns whether a refusal is new, which needs a build.
    pub(crate) fn record_refusals(&mut self) -> bool {
        let status = self.snapshots.status();
        let (refusals, asked) = (status.disapprovals(), |gateway: &str| status.voting_addresses(gateway));
        Arc::make_mut(&mut self.quarantine).record_refusals(refusals, asked)
    }

    /// The same for Envoys of other replicas.
    pub(crate) fn record_remote_refusals(&mut self, others: &ReplicaView) -> bool {
        Arc::make_mut(&mut self.quarantine).record_remote_refusals(others)
    }

    pub(crate) fn refused_routes(&self) -> BTreeSet<RefusedRoute> {
        self.quarantine.local_refusals()
    }

    /// Remembers the routes that a publication changes, as they were before.
    fn remember(&mut self, built: &BuildResult) {
        let status = self.snapshots.status();
        let refused = std::mem::replace(&mut self.quarantined, built.quarantined.clone());
        self.metrics.set_quarantined(self.quarantined.len());
        let standing = |object: &ObjectRef| {
            if refused.contains(object) {
                RouteStanding::Refused
            } else if status.is_approved(&object.key()) {
                RouteStanding::Accepted
            } else {
                RouteStanding::Unknown
            }
        };
        let quarantine = Arc::make_mut(&mut self.quarantine);
        quarantine.forget(&built.quarantine, &built.hits);
        let before = self.objects.replace(Arc::clone(&built.objects));
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, &built.objects)) {
            quarantine.remember(&before, &built.objects, standing);
        }
    }

    /// Publishes changes, with the endpoints of clusters. `unknown`: further clusters whose endpoints are needed.
    /// Returns the Services with other clusters.
    fn publish_resources(
        &mut self,
        made: &BuildState,
        resources: ByGateway,
        unknown: BTreeSet<ClusterName>,
        endpoints: &mut impl FnMut(&ObjectName, &str, usize) -> Vec<Endpoint>,
    ) -> BTreeSet<ObjectName> {
        let clusters = self.changed_clusters(made, &resources, unknown);
        let mut changed = BTreeSet::new();
        for (gateway, built) in &resources {
            let nothing = Resources::new();
            let before = self.built.get(gateway).unwrap_or(&nothing);
            let sent = self.sent.entry(gateway.clone());
            let is_new = matches!(sent, Entry::Vacant(_));
            if sent.or_default().catch_up(before, built) || is_new {
                changed.insert(gateway.clone());
            }
        }
        let mut ports = BTreeSet::new();
        for name in &clusters {
            changed.extend(self.leave_cluster(name));
            ports.extend(self.serve_cluster(name, made, &resources));
        }
        let ports = ports.into_iter().map(|port| {
            let endpoints = self.send_endpoints(&port, |name| clusters.contains(name), endpoints, &mut changed);
            (port, endpoints)
        });
        let observed = ports.collect::<Vec<_>>();
        self.built = resources;
        self.update_session_registry(&clusters, made, &observed);
        for (gateway, filter) in self.moving.changed() {
            if let Some(sent) = self.sent.get_mut(&gateway) {
                sent.insert(filter);
                changed.insert(gateway);
            }
        }
        self.send(changed);
        let graphs = self.published.iter().map(|published| &published.graph);
        let graphs = graphs.chain([&made.graph]);
        let of_graph = graphs.flat_map(|graph| clusters.iter().filter_map(|name| graph.clusters.get(name)));
        of_graph.map(|cluster| cluster.service.clone()).collect()
    }

    /// The clusters that differ from the published ones, and these.
    fn changed_clusters(
        &self,
        made: &BuildState,
        resources: &ByGateway,
        more: BTreeSet<ClusterName>,
    ) -> BTreeSet<ClusterName> {
        let published = self.published.as_ref();
        let (no_graph, no_use, nothing) = (Graph::default(), GatewayReferences::default(), Resources::new());
        let graph = published.map_or(&no_graph, |published| &*published.graph);
        let mut clusters = more;
        let same_bounds = published.is_some_and(|published| published.inputs.max_idle == made.inputs.max_idle);
        if !same_bounds {
            clusters.extend(made.graph.clusters.keys().cloned());
        }
        clusters.extend(changes(&graph.clusters, &made.graph.clusters).map(|(name, ..)| name.clone()));
        let before = published.map(|published| &published.used);
        let gateways: BTreeSet<_> = self.built.keys().chain(resources.keys()).collect();
        for gateway in gateways {
            let used = made.used.get(gateway).unwrap_or(&no_use);
            let was = before.and_then(|before| before.get(gateway)).unwrap_or(&no_use);
            clusters.extend(used.changed_clusters(was));
            let [was, is] = [&self.built, resources].map(|of| of.get(gateway).unwrap_or(&nothing));
            let [was, is] = [was, is].map(|resources| resources.by_name(ResourceType::Cluster));
            clusters.extend(changes(was, is).map(|(name, ..)| ClusterName((**name).into())));
        }
        clusters
    }

    /// Removes the endpoints of a cluster from its Gateways, and returns these.
    fn leave_cluster(&mut self, name: &ClusterName) -> Vec<ObjectName> {
        let published = self.published.as_ref();
        let cluster = published.and_then(|published| published.graph.clusters.get(name));
        let Some(port) = cluster.map(|cluster| port_of(cluster)) else {
            return Vec::new();
        };
        let Some(published) = self.ports.get_mut(&port) else {
            return Vec::new();
        };
        let gateways = published.clusters.remove(name).unwrap_or_default();
        if published.clusters.is_empty() {
            self.ports.remove(&port);
        }
        for gateway in &gateways {
            if let Some(sent) = self.sent.get_mut(gateway) {
                sent.remove(ResourceType::ClusterLoadAssignment, &name.0);
            }
        }
        gateways
    }

    /// Records the Gateways of a cluster, and returns its port. Another control plane publishes endpoints itself, but
    /// an address that changes its owner is fenced here.
    fn serve_cluster(
        &mut self,
        name: &ClusterName,
        made: &BuildState,
        resources: &ByGateway,
    ) -> Option<PublishedPortKey> {
        let cluster = made.graph.clusters.get(name)?;
        let has_it = |resources: &Resources| resources.get(ResourceType::Cluster, &name.0).is_some();
        let gateways = resources.iter().filter(|(_, resources)| has_it(resources));
        let gateways: Vec<ObjectName> = gateways.map(|(gateway, _)| gateway.clone()).collect();
        let is_elsewhere = self.target.objects.is_some();
        // Envoy gets endpoints of an external name from DNS, not from us.
        if !is_elsewhere && (gateways.is_empty() || cluster.external_name.is_some()) {
            return None;
        }
        let port = port_of(cluster);
        let published = self.ports.entry(port.clone()).or_default();
        published.clusters.insert(name.clone(), gateways);
        Some(port)
    }

    /// Sends the endpoints of a port to the Gateways that have its clusters. If their number is the same, only to
    /// clusters for which `lacks` holds. Adds the Gateways to `changed`.
    fn send_endpoints(
        &mut self,
        port: &PublishedPortKey,
        lacks: impl Fn(&ClusterName) -> bool,
        endpoints: &mut impl FnMut(&ObjectName, &str, usize) -> Vec<Endpoint>,
        changed: &mut BTreeSet<ObjectName>,
    ) -> Vec<Endpoint> {
        let Some(published) = self.ports.get_mut(port) else {
            return Vec::new();
        };
        let endpoints = endpoints(&port.0, &port.1, published.clusters.len());
        let is_as_many = std::mem::replace(&mut published.endpoints, endpoints.len()) == endpoints.len();
        let encoded = EncodedEndpoints::new(&endpoints);
        let served = published.clusters.iter().filter(|(_, gateways)| !gateways.is_empty());
        for (cluster, gateways) in served.filter(|(name, _)| !is_as_many || lacks(name)) {
            self.moving.observe(&port.0, cluster, &endpoints);
            let assignment = Arc::new(encoded.of(cluster));
            for gateway in gateways {
                if let Some(sent) = self.sent.get_mut(gateway) {
                    sent.insert(Arc::clone(&assignment));
                    changed.insert(gateway.clone());
                }
            }
        }
        endpoints
    }

    /// Updates the pods and idle bounds of these clusters.
    fn update_session_registry(
        &mut self,
        changed: &BTreeSet<ClusterName>,
        made: &BuildState,
        observed: &[(PublishedPortKey, Vec<Endpoint>)],
    ) {
        let published = self.published.as_ref();
        let mut rebalances = false;
        let mut told = Vec::new();
        for name in changed {
            let before = published.and_then(|published| published.graph.clusters.get(name));
            let Some(cluster) = made.graph.clusters.get(name).or(before) else {
                continue;
            };
            let published = self.ports.get(&port_of(cluster));
            let served = published.and_then(|published| published.clusters.get(name));
            let mut gateways = Vec::new();
            let mut begins_anew = false;
            for gateway in served.into_iter().flatten() {
                let Some(used) = made.used.get(gateway) else {
                    continue;
                };
                gateways.push((gateway, used.idle_bounds(&made.graph, name, made.inputs.max_idle)));
                begins_anew |= used.rebalances(&made.graph, name);
            }
            rebalances |= begins_anew | self.rebalancing.remove(name);
            if begins_anew {
                self.rebalancing.insert(name.clone());
            }
            told.push(PublishedCluster {
                cluster: name,
                service: &cluster.service,
                gateways,
            });
        }
        let endpoints = observed.iter().flat_map(|(port, endpoints)| {
            let published = self.ports.get(port).into_iter();
            let clusters = published.flat_map(PublishedPort::session_clusters);
            clusters.map(|name| (name, endpoints.as_slice()))
        });
        self.session_registry.publish(told.into_iter(), endpoints);
        if rebalances {
            self.session_registry.rebalance(self.rebalancing.iter());
        }
    }

    fn hand_over_objects(&mut self, made: &BuildState) {
        let (Some(objects), Some(manifests)) = (&self.target.objects, &made.manifests) else {
            return;
        };
        let config = filter_config(BTreeMap::new(), &BTreeSet::new(), false, &made.inputs);
        let desired = DesiredManifests {
            generation: self.generation + 1,
            manifests: Arc::clone(manifests),
            gateways: made.gateways.clone(),
            variables: variables(&config).into_iter().collect(),
        };
        self.generation = self.generation.max(desired.hand_over(&objects.desired));
    }

    fn hand_over_envoys(&mut self, made: &BuildState) {
        if let (Some(envoys), Some(manifests)) = (&self.target.envoys, &made.envoys) {
            let desired = DesiredManifests {
                generation: self.generation + 1,
                manifests: Arc::clone(manifests),
                gateways: made.gateways.clone(),
                variables: BTreeSet::new(),
            };
            self.generation = self.generation.max(desired.hand_over(&envoys.desired));
        }
    }

    pub(crate) fn graph(&self) -> Option<Arc<Graph>> {
        self.published.as_ref().map(|published| Arc::clone(&published.graph))
    }

    pub(crate) fn gateways(&self) -> BTreeSet<ObjectName> {
        let published = self.published.as_ref();
        published
            .map(|published| published.gateways.clone())
            .unwrap_or_default()
    }

    pub(crate) fn published_filter(&self) -> Option<&PublishedFilter> {
        self.published_filter.as_ref()
    }

    /// In how many clusters the endpoints of a Service's port are published.
    pub(crate) fn clusters_of(&self, service: &ObjectName, port: &str) -> usize {
        let published = self.ports.get(&(service.clone(), port.to_owned()));
        published.map_or(0, |published| published.clusters.len())
    }

    /// Takes all resources from the Envoys of deleted Gateways.
    fn leave(&mut self, gateways: &BTreeSet<ObjectName>) {
        let before = self.published.iter().flat_map(|published| &published.gateways);
        for gone in before.filter(|gateway| !gateways.contains(gateway)) {
            self.snapshots.publish(&gone.to_string(), Resources::new());
            self.sent.remove(gone);
            self.deleted_gateways.insert(gone.clone());
        }
        let status = self.snapshots.status();
        let snapshots = &self.snapshots;
        self.deleted_gateways.retain(|gone| {
            let group = gone.to_string();
            let stays = !gateways.contains(gone) && status.connected(&group) > 0;
            if !stays && !gateways.contains(gone) {
                snapshots.forget(&group);
            }
            stays
        });
    }

    /// Publishes only the endpoints of these Services. Returns the number of clusters.
    pub(crate) fn publish_endpoints(
        &mut self,
        services: &BTreeSet<ObjectName>,
        mut endpoints: impl FnMut(&ObjectName, &str, usize) -> Vec<Endpoint>,
    ) -> u64 {
        let mut published = 0;
        let mut changed = BTreeSet::new();
        for service in services {
            let ports = self.ports.range((service.clone(), String::new())..);
            let ports = ports.take_while(|((of, _), _)| of == service);
            for port in ports.map(|(port, _)| port.clone()).collect::<Vec<_>>() {
                let endpoints = self.send_endpoints(&port, |_| true, &mut endpoints, &mut changed);
                if let Some(of) = self.ports.get(&port) {
                    published += u64::try_from(of.clusters.len()).unwrap_or_default();
                    for cluster in of.session_clusters() {
                        self.session_registry.observe(cluster, &endpoints);
                    }
                }
            }
        }
        self.send(changed);
        published
    }

    fn send(&self, gateways: BTreeSet<ObjectName>) {
        for gateway in gateways {
            if let Some(sent) = self.sent.get(&gateway) {
                self.snapshots.publish(&gateway.to_string(), sent.clone());
            }
        }
    }

    /// Whether hosts in filters differ from the published ones.
    pub(crate) fn has_new_hosts(&self) -> bool {
        self.moving.has_changed()
    }

    pub(crate) fn services_without_moves(&self) -> BTreeSet<ObjectName> {
        self.moving.services_left_out().cloned().collect()
    }

    /// Publishes the filters whose hosts have changed.
    pub(crate) fn publish_hosts(&mut self) {
        for (gateway, filter) in self.moving.changed() {
            let group = gateway.to_string();
            if let Some(published) = &mut self.published_filter {
                let version = (filter.name().clone(), filter.version());
                published.versions.insert(group.as_str().into(), version);
            }
            if let Some(sent) = self.sent.get_mut(&gateway) {
                sent.insert(filter);
                self.snapshots.publish(&group, sent.clone());
            }
        }
    }
}

#[cfg(test)]
mod builds;
#[cfg(test)]
mod tests;
