//! Publishes what was built.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::build::{Builder, Built, ByGateway, Changes, Made};
use super::hosts::MovingGateways;
use super::metrics::Metrics;
use super::quarantine::{Quarantine, Standing};
use super::target::Target;
use crate::cluster::reconcile::delivery::{Delivery, PublishedFilter};
use crate::cluster::reconcile::manifests::Wanted;
use crate::cluster::reconcile::replicas::{RefusedRoute, View};
use crate::cluster::sessions::{Book, Published};
use limpet_api::{ObjectName, ObjectRef};
use limpet_core::time::GatewayDuration;
use limpet_model::endpoints::Endpoint;
use limpet_model::graph::{Cluster, ClusterName, Graph};
use limpet_model::{Objects, Reports};
use limpet_outputs::envoy::{self, EnvoyOptions};
use limpet_outputs::{FilterInputs, filter_config, idle_bounds, rebalancing_clusters, variables};
use limpet_resources::{Name, ResourceType, Resources, Version};
use limpet_xds::Snapshots;

#[derive(Debug)]
pub(crate) struct Publisher {
    snapshots: Snapshots,
    metrics: Metrics,
    options: Arc<EnvoyOptions>,
    target: Target,
    generation: u64,
    published: Option<Made>,
    published_filter: Option<PublishedFilter>,
    quarantine: Arc<Quarantine>,
    /// What the published resources were made of, before something was put in the place of these routes.
    objects: Option<Arc<Objects>>,
    quarantined: BTreeSet<ObjectRef>,
    /// The published clusters, by Service.
    clusters: BTreeMap<ObjectName, Vec<Served>>,
    moving: MovingGateways,
    book: Book,
    /// Deleted Gateways that still have connected Envoys.
    left: BTreeSet<ObjectName>,
}

/// A cluster, and the Gateways whose Envoys have it.
#[derive(Debug)]
struct Served {
    cluster: ClusterName,
    port_name: String,
    gateways: Vec<ObjectName>,
}

/// What was published to Envoys.
#[derive(Debug, Default)]
struct Sent {
    clusters: ServedClusters,
    /// The filter's configuration, and its version, by xDS group.
    versions: BTreeMap<Name, (Name, Version)>,
    counts: BTreeMap<&'static str, usize>,
}

type ServedClusters = BTreeMap<ClusterName, Vec<ObjectName>>;

impl Publisher {
    /// `book` is told which pods clusters have.
    pub(crate) fn new(
        snapshots: Snapshots,
        metrics: Metrics,
        options: EnvoyOptions,
        target: Target,
        book: Book,
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
            clusters: BTreeMap::new(),
            moving: MovingGateways::default(),
            book,
            left: BTreeSet::new(),
        }
    }

    pub(crate) fn builder(&self, inputs: Arc<FilterInputs>, keeps_retained: bool) -> Builder {
        Builder {
            options: Arc::clone(&self.options),
            plane: self.target.objects.as_ref().map(|objects| Arc::clone(&objects.plane)),
            managed: self.target.envoys.as_ref().map(|envoys| Arc::clone(&envoys.options)),
            inputs,
            published: self.published.clone(),
            quarantine: Arc::clone(&self.quarantine),
            asked: self.asked(),
            keeps_retained,
        }
    }

    fn asked(&self) -> BTreeSet<ObjectName> {
        let status = self.snapshots.status();
        let gateways = self.published.iter().flat_map(|published| &published.gateways);
        gateways
            .filter(|gateway| status.asked(&gateway.to_string()) > 0)
            .cloned()
            .collect()
    }

    /// What Envoys made of what is published.
    pub(crate) fn status(&self) -> limpet_xds::Status {
        self.snapshots.status()
    }

    /// Whether policies are retained that no route uses any more.
    pub(crate) fn has_retained(&self) -> bool {
        self.published
            .as_ref()
            .is_some_and(|published| !published.retained.is_empty())
    }

    pub(crate) fn is_everywhere(&self) -> bool {
        let Delivery::Xds(status) = &self.target.delivery else {
            return self
                .published_filter
                .as_ref()
                .is_none_or(|published_filter| self.target.delivery.has_all(published_filter));
        };
        let gateways = self.published.iter().flat_map(|published| &published.gateways);
        gateways
            .into_iter()
            .all(|gateway| status.is_settled(&gateway.to_string()))
    }

    /// Publishes a build. Resources that did not change are not sent again.
    pub(crate) fn publish(
        &mut self,
        built: Built,
        mut endpoints: impl FnMut(&ObjectName, &str) -> Vec<Endpoint>,
    ) -> Reports {
        self.remember(&built);
        if let Some(changes) = built.changes {
            let Changes {
                made,
                life,
                resources,
                moving,
            } = changes;
            self.leave(&made.gateways);
            self.moving = MovingGateways::new(moving);
            let sent = self.publish_resources(&made.graph, made.inputs.max_idle, resources, &mut endpoints);
            let mut clusters = sent.clusters;
            self.hand_over_envoys(&made);
            if self.hand_over_objects(&made) {
                clusters.extend(fenced_clusters(&made.graph, &mut endpoints));
            }
            for of_type in ResourceType::ALL {
                let count = sent.counts.get(of_type.name()).copied().unwrap_or_default();
                self.metrics.count_resources(of_type.name(), count);
            }
            self.published_filter = Some(PublishedFilter {
                inputs: Arc::clone(&made.inputs),
                life,
                versions: sent.versions,
                generation: self.generation,
            });
            self.clusters = by_service(&made.graph, clusters);
            self.published = Some(made);
        }
        built.reports
    }

    /// Takes in what Envoys refuse. Returns whether anything is new, which a build has to look at.
    pub(crate) fn note_refusals(&mut self) -> bool {
        let status = self.snapshots.status();
        let (refusals, asked) = (status.disapprovals(), |gateway: &str| status.asked(gateway));
        Arc::make_mut(&mut self.quarantine).note(refusals, asked)
    }

    /// Takes in what the Envoys of other replicas refuse. Returns whether anything is new.
    pub(crate) fn note_elsewhere(&mut self, others: &View) -> bool {
        Arc::make_mut(&mut self.quarantine).note_elsewhere(others)
    }

    /// The routes that Envoys of this replica refuse.
    pub(crate) fn refused_routes(&self) -> BTreeSet<RefusedRoute> {
        self.quarantine.told()
    }

    /// Before a publication: remembers the routes that it changes, as they are.
    fn remember(&mut self, built: &Built) {
        let status = self.snapshots.status();
        let refused = std::mem::replace(&mut self.quarantined, built.quarantined.clone());
        self.metrics.set_quarantined(self.quarantined.len());
        let standing = |object: &ObjectRef| {
            if refused.contains(object) {
                Standing::Refused
            } else if status.is_approved(&object.key()) {
                Standing::Accepted
            } else {
                Standing::Unknown
            }
        };
        let quarantine = Arc::make_mut(&mut self.quarantine);
        quarantine.forget(&built.quarantine, &built.hits);
        let before = self.objects.replace(Arc::clone(&built.objects));
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, &built.objects)) {
            quarantine.remember(&before, &built.objects, standing);
        }
    }

    /// Publishes the resources of each Gateway, with the endpoints of its clusters.
    fn publish_resources(
        &mut self,
        graph: &Graph,
        max_idle: Option<GatewayDuration>,
        mut resources: ByGateway,
        endpoints: &mut impl FnMut(&ObjectName, &str) -> Vec<Endpoint>,
    ) -> Sent {
        let mut sent = Sent::default();
        let mut assignments = BTreeMap::new();
        let mut observed = Vec::new();
        for (gateway, all) in &mut resources {
            let clusters = all.of_type(ResourceType::Cluster);
            let names: Vec<_> = clusters.map(|of| ClusterName(of.name().to_string())).collect();
            for name in names {
                // A cluster that is not a backend, or that DNS has the endpoints of, has none from us.
                let known = graph.clusters.get(&name);
                let Some(cluster) = known.filter(|cluster| cluster.external_name.is_none()) else {
                    continue;
                };
                let assignment = assignments.entry(name.clone()).or_insert_with(|| {
                    let endpoints = endpoints(&cluster.service, &cluster.port_name);
                    self.moving.observe(&name, &endpoints);
                    let assignment = Arc::new(envoy::load_assignment(&name, &endpoints));
                    observed.push((name.clone(), endpoints));
                    assignment
                });
                all.insert(Arc::clone(assignment));
                sent.clusters.entry(name).or_default().push(gateway.clone());
            }
        }
        let bounds = |gateway| (gateway, idle_bounds(graph, gateway, max_idle));
        let bounds: BTreeMap<_, _> = resources.keys().map(bounds).collect();
        let of = |gateway, cluster| bounds.get(gateway).and_then(|of| of.get(cluster)).cloned();
        let published = sent.clusters.iter().filter_map(|(cluster, gateways)| {
            let gateways = gateways.iter();
            Some(Published {
                cluster,
                service: &graph.clusters.get(cluster)?.service,
                gateways: gateways
                    .map(|gateway| (gateway, of(gateway, cluster).unwrap_or_default()))
                    .collect(),
            })
        });
        let endpoints = observed.iter().map(|(name, endpoints)| (name, endpoints.as_slice()));
        self.book.publish(published, endpoints);
        let rebalancing = rebalancing_clusters(graph, resources.keys());
        self.book.rebalance(rebalancing.into_iter());
        for (gateway, filter) in self.moving.changed() {
            if let Some(all) = resources.get_mut(&gateway) {
                all.insert(filter);
            }
        }
        for (gateway, all) in resources {
            for of_type in ResourceType::ALL {
                *sent.counts.entry(of_type.name()).or_insert(0) += all.of_type(of_type).count();
            }
            let group = gateway.to_string();
            if let Some(filter) = all.of_type(ResourceType::ExtensionConfig).next() {
                let version = (filter.name().clone(), filter.version());
                sent.versions.insert(group.as_str().into(), version);
            }
            self.snapshots.publish(&group, all);
        }
        sent
    }

    /// Passes the objects for a control plane on. Returns whether there is one.
    fn hand_over_objects(&mut self, made: &Made) -> bool {
        let (Some(objects), Some(manifests)) = (&self.target.objects, &made.manifests) else {
            return false;
        };
        self.generation += 1;
        let config = filter_config(BTreeMap::new(), false, &made.inputs);
        objects.wanted.send_replace(Some(Arc::new(Wanted {
            generation: self.generation,
            manifests: Arc::clone(manifests),
            gateways: made.gateways.clone(),
            variables: variables(&config).into_iter().collect(),
        })));
        true
    }

    /// Passes on what is wanted for the Envoys that the controller keeps.
    fn hand_over_envoys(&mut self, made: &Made) {
        if let (Some(envoys), Some(manifests)) = (&self.target.envoys, &made.envoys) {
            self.generation += 1;
            envoys.wanted.send_replace(Some(Arc::new(Wanted {
                generation: self.generation,
                manifests: Arc::clone(manifests),
                gateways: made.gateways.clone(),
                variables: BTreeSet::new(),
            })));
        }
    }

    /// What is published, independent of any proxy.
    pub(crate) fn graph(&self) -> Option<Arc<Graph>> {
        self.published.as_ref().map(|published| Arc::clone(&published.graph))
    }

    /// All Gateways whose Envoys get anything.
    pub(crate) fn gateways(&self) -> BTreeSet<ObjectName> {
        let published = self.published.as_ref();
        published
            .map(|published| published.gateways.clone())
            .unwrap_or_default()
    }

    /// The published configuration of the filter.
    pub(crate) fn published_filter(&self) -> Option<&PublishedFilter> {
        self.published_filter.as_ref()
    }

    /// Whether the endpoints of a Service's port are published.
    pub(crate) fn serves(&self, service: &ObjectName, port: &str) -> bool {
        let clusters = self.clusters.get(service).into_iter().flatten();
        clusters.into_iter().any(|served| served.port_name == port)
    }

    /// Takes all resources from the Envoys of deleted Gateways.
    fn leave(&mut self, gateways: &BTreeSet<ObjectName>) {
        let before = self.published.iter().flat_map(|published| &published.gateways);
        for gone in before.filter(|gateway| !gateways.contains(gateway)) {
            self.snapshots.publish(&gone.to_string(), Resources::new());
            self.left.insert(gone.clone());
        }
        let status = self.snapshots.status();
        let snapshots = &self.snapshots;
        self.left.retain(|gone| {
            let group = gone.to_string();
            let stays = !gateways.contains(gone) && status.connected(&group) > 0;
            if !stays && !gateways.contains(gone) {
                snapshots.forget(&group);
            }
            stays
        });
    }

    /// Publishes the endpoints of these Services alone. Returns the number of clusters.
    pub(crate) fn publish_endpoints(
        &mut self,
        services: &BTreeSet<ObjectName>,
        mut endpoints: impl FnMut(&ObjectName, &str) -> Vec<Endpoint>,
    ) -> u64 {
        let mut published = 0;
        for service in services {
            for served in self.clusters.get(service).into_iter().flatten() {
                let endpoints = endpoints(service, &served.port_name);
                self.moving.observe(&served.cluster, &endpoints);
                self.book.observe(&served.cluster, &endpoints);
                let assignment = Arc::new(envoy::load_assignment(&served.cluster, &endpoints));
                for gateway in &served.gateways {
                    self.snapshots
                        .publish_one(&gateway.to_string(), Arc::clone(&assignment));
                }
                published += 1;
            }
        }
        published
    }

    /// Whether hosts that filters know are others than those that are published.
    pub(crate) fn has_new_hosts(&self) -> bool {
        self.moving.has_changed()
    }

    /// Publishes the filters whose hosts have changed.
    pub(crate) fn publish_hosts(&mut self) {
        for (gateway, filter) in self.moving.changed() {
            let group = gateway.to_string();
            if let Some(published) = &mut self.published_filter {
                let version = (filter.name().clone(), filter.version());
                published.versions.insert(group.as_str().into(), version);
            }
            self.snapshots.publish_one(&group, filter);
        }
    }
}

/// All clusters. Another control plane publishes their endpoints, but an address that changes its owner is fenced here.
fn fenced_clusters(graph: &Graph, endpoints: &mut impl FnMut(&ObjectName, &str) -> Vec<Endpoint>) -> ServedClusters {
    let observe = |(name, cluster): (&ClusterName, &Arc<Cluster>)| {
        endpoints(&cluster.service, &cluster.port_name);
        (name.clone(), Vec::new())
    };
    graph.clusters.iter().map(observe).collect()
}

fn by_service(graph: &Graph, clusters: ServedClusters) -> BTreeMap<ObjectName, Vec<Served>> {
    let mut services: BTreeMap<ObjectName, Vec<Served>> = BTreeMap::new();
    for (name, gateways) in clusters {
        if let Some(cluster) = graph.clusters.get(&name) {
            services.entry(cluster.service.clone()).or_default().push(Served {
                cluster: name,
                port_name: cluster.port_name.clone(),
                gateways,
            });
        }
    }
    services
}

#[cfg(test)]
mod tests {
    use super::*;

    use limpet_model::Settings;
    use limpet_model::graph::{Balance, ClusterLimits, Protocol};
    use limpet_outputs::FilterKeys;
    use limpet_resources::Resource;

    fn publisher() -> (Publisher, Snapshots) {
        let snapshots = Snapshots::new();
        let target = Target {
            delivery: Delivery::Xds(snapshots.status()),
            objects: None,
            envoys: None,
        };
        let (metrics, _) = Metrics::new();
        let publisher = Publisher::new(snapshots.clone(), metrics, EnvoyOptions::default(), target, Book::new());
        (publisher, snapshots)
    }

    fn built(publisher: &Publisher) -> Built {
        let contour = serde_json::json!({"gateway": "web/contour"});
        let settings = Settings {
            contour: Some(serde_json::from_value(contour).unwrap()),
            ..Settings::default()
        };
        let inputs = Arc::new(FilterInputs::with_keys(FilterKeys::Listed(Vec::new())));
        publisher.builder(inputs, false).build(Arc::default(), &settings)
    }

    #[test]
    fn contours_envoys_get_resources_before_there_is_any_object() {
        let (mut publisher, snapshots) = publisher();
        let built = built(&publisher);
        assert_eq!(built.reports, Reports::default());
        let gateway = ObjectName::new("web", "contour");
        let changes = built.changes.as_ref().unwrap();
        let filters = changes.resources[&gateway].of_type(ResourceType::ExtensionConfig);
        assert_eq!(filters.count(), 1);
        publisher.publish(built, |_, _| Vec::new());
        assert_eq!(publisher.gateways(), [gateway].into());
        let groups = snapshots.status().groups();
        let groups: Vec<_> = groups.into_keys().map(|group| group.to_string()).collect();
        assert_eq!(groups, ["web/contour"]);
    }

    #[test]
    fn what_dns_has_the_endpoints_of_gets_none_from_us() {
        let (mut publisher, _) = publisher();
        let mut built = built(&publisher);
        let changes = built.changes.as_mut().unwrap();
        let service = |name: &str| ObjectName::new("shop", name);
        for (name, external_name) in [("inside", None), ("outside", Some("shop.example".to_owned()))] {
            let cluster = Cluster {
                service: service(name),
                port: 80,
                port_name: "http".to_owned(),
                protocol: Protocol::Http1,
                tls: None,
                balance: Balance::RoundRobin,
                health_check: None,
                external_name,
                limits: ClusterLimits::default(),
                never_begins: false,
                session: None,
            };
            let graph = Arc::make_mut(&mut changes.made.graph);
            graph.clusters.insert(ClusterName(name.to_owned()), Arc::new(cluster));
            for resources in changes.resources.values_mut() {
                resources.insert(Resource::new(ResourceType::Cluster, name, Vec::new()));
            }
        }
        let mut asked = Vec::new();
        publisher.publish(built, |service, _| {
            asked.push(service.clone());
            Vec::new()
        });
        assert_eq!(asked, [service("inside")]);
        assert!(publisher.serves(&service("inside"), "http"));
        assert!(!publisher.serves(&service("outside"), "http"));
        let both = [service("inside"), service("outside")].into();
        assert_eq!(publisher.publish_endpoints(&both, |_, _| Vec::new()), 1);
    }
}
