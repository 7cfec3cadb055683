use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::quarantine::Quarantine;
use super::retained_policies::{Moment, RetainedByGateway, UsedByGateway, for_filters, retained_policies};
use limpet_api::{ObjectName, ObjectRef, Text};
use limpet_core::config::longest_life;
use limpet_core::config::schema::{FilterConfig, PolicyConfig};
use limpet_model::{FewSet, Graph, Incremental, Map, Memory, Objects, Reports, Settings, gateways_of};
use limpet_outputs::envoy::{EnvoyOptions, GatewayResources, ManagedOptions, MovingFilter};
use limpet_outputs::envoys;
use limpet_outputs::manifests::{ManifestInputs, Manifests};
use limpet_outputs::{ControlPlane, FilterInputs, MOST_BYTES, MOST_BYTES_OF_OBJECT, PolicyRoom, all_policies};
use limpet_resources::{Name, ResourceVersion, Resources};

#[derive(Debug)]
pub(crate) struct BuildResult {
    pub(super) reports: Reports,
    pub(crate) objects: Arc<Objects>,
    pub(crate) memory: Memory,
    /// The namespaces of the routes that lead to a Service.
    pub(crate) led_from: Map<ObjectName, FewSet<Arc<str>>>,
    /// The Services that lead to Envoys.
    pub(crate) services_of_envoys: BTreeSet<ObjectName>,
    pub(crate) took: Duration,
    /// Refused routes, and the refusals that still count.
    pub(super) quarantined: BTreeSet<ObjectRef>,
    pub(super) hits: BTreeSet<(Name, ResourceVersion)>,
    /// The refusals that were known when the build began.
    pub(super) quarantine: Arc<Quarantine>,
    /// `None`: the same is published already.
    pub(super) changes: Option<BuildChanges>,
    /// For the next build.
    pub(super) stages: BuildStages,
}

/// The last input and output of each stage of a build. The next one makes only what differs.
#[derive(Debug, Default)]
pub(crate) struct BuildStages {
    model: Incremental,
    graph: Arc<Graph>,
    used: UsedByGateway,
    policy_room: PolicyRoom,
    served: BTreeMap<ObjectName, GatewayResources>,
    envoys: envoys::EnvoyObjects,
    /// Of these policies and inputs.
    life: Option<(Map<Text, PolicyConfig>, Arc<FilterInputs>, Duration)>,
}

#[derive(Debug)]
pub(super) struct BuildChanges {
    pub(super) state: BuildState,
    /// How long a token may live unused under any of the policies.
    pub(super) life: Duration,
    /// By Gateway, without endpoints. Empty if a control plane gets objects instead.
    pub(super) resources: ByGateway,
    /// Filters with sessions that applications move, without the hosts. Empty for a control plane.
    pub(super) moving: BTreeMap<ObjectName, Arc<MovingFilter>>,
}

pub(super) type ByGateway = BTreeMap<ObjectName, Resources>;

/// A build before refusals are considered.
struct BuildAttempt {
    state: BuildState,
    reports: Reports,
    memory: Memory,
    led_from: Map<ObjectName, FewSet<Arc<str>>>,
    services_of_envoys: BTreeSet<ObjectName>,
}

/// Everything that resources depend on, and the rules of the graph for the debug page.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BuildState {
    pub(super) graph: Arc<Graph>,
    pub(super) gateways: BTreeSet<ObjectName>,
    pub(super) used: UsedByGateway,
    pub(super) inputs: Arc<FilterInputs>,
    pub(super) retained: RetainedByGateway,
    pub(super) manifests: Option<Arc<Manifests>>,
    /// For the Envoys that the controller keeps.
    pub(super) envoys: Option<Arc<Manifests>>,
}

/// Builds on its own thread.
#[derive(Debug)]
pub(crate) struct Builder {
    pub(super) options: Arc<EnvoyOptions>,
    pub(super) plane: Option<Arc<ControlPlane>>,
    pub(super) managed: Option<Arc<ManagedOptions>>,
    pub(super) inputs: Arc<FilterInputs>,
    pub(super) published: Option<BuildState>,
    pub(super) quarantine: Arc<Quarantine>,
    /// Gateways whose Envoys report refusals to this replica.
    pub(super) preflighted: BTreeSet<ObjectName>,
    /// Gateways whose Envoys all have the published routes, and need nothing for earlier ones.
    pub(super) drops_retained: BTreeSet<ObjectName>,
    pub(super) now: Moment,
    pub(super) stages: BuildStages,
}

impl Builder {
    pub(crate) fn build(mut self, objects: Arc<Objects>, settings: &Settings) -> BuildResult {
        let start = Instant::now();
        let mut hits = BTreeSet::new();
        let mut tried = Arc::clone(&objects);
        let mut attempt = self.attempt(&tried, settings);
        // Ends, because each turn replaces a route, and there are few replacements.
        let mut resources = None;
        while !self.quarantine.is_empty() {
            let of_attempt = &*resources.insert(self.resources(&attempt.state));
            let refused = {
                let gateways_of = |route: &ObjectRef| gateways_of(&tried, settings, route);
                self.quarantine
                    .of(of_attempt, gateways_of, &self.preflighted, &mut hits)
            };
            if refused.is_empty() || !self.quarantine.replace(Arc::make_mut(&mut tried), &objects, refused) {
                break;
            }
            attempt = self.attempt(&tried, settings);
        }
        let BuildAttempt {
            state: made,
            reports,
            memory,
            led_from,
            services_of_envoys,
        } = attempt;
        let is_published = self.published.as_ref().is_some_and(|published| *published == made);
        let changes = (!is_published).then(|| BuildChanges {
            life: self.life(&made),
            resources: resources.unwrap_or_else(|| self.resources(&made)),
            moving: self.moving(),
            state: made,
        });
        BuildResult {
            reports,
            quarantined: tried.quarantined.keys().cloned().collect(),
            hits,
            quarantine: Arc::clone(&self.quarantine),
            objects,
            memory,
            led_from,
            services_of_envoys,
            took: start.elapsed(),
            changes,
            stages: self.stages,
        }
    }

    fn attempt(&mut self, objects: &Objects, settings: &Settings) -> BuildAttempt {
        let (mut graph, mut reports) = self.stages.model.build(objects, settings);
        // What is remembered changes no resource.
        let memory = std::mem::take(&mut graph.memory);
        let led_from = std::mem::take(&mut graph.referencing_namespaces);
        let envoys = graph.envoys.values();
        let services_of_envoys = envoys.filter_map(|envoys| envoys.service()).cloned().collect();
        // A Gateway without any route gets resources, too. Contour's is no object.
        let contour = settings.contour.iter().map(|contour| &contour.gateway);
        let gateways = reports.gateways.keys().chain(graph.gateways.keys()).chain(contour);
        let gateways: BTreeSet<ObjectName> = gateways.cloned().collect();
        let graph = Arc::new(graph);
        let used = self.used(&graph);
        let retained = self.retained(&graph, &used);
        // Of use to other control planes.
        let for_plane = self.plane.as_ref().map(|_| for_filters(&retained));
        let source = ManifestInputs {
            objects,
            graph: &graph,
            options: &self.options,
            inputs: &self.inputs,
            retained: &for_plane.unwrap_or_default(),
        };
        let manifests = self.plane.as_ref().map(|plane| Arc::new(plane.manifests(&source)));
        let managed = self.managed.as_ref();
        let envoys = managed.map(|managed| Arc::new(self.stages.envoys.catch_up(&source, managed)));
        if let Some(manifests) = &manifests {
            reports.add_unsupported(&graph, &manifests.unsupported);
        } else {
            reports.add_unsupported(&graph, &self.stages.policy_room.catch_up(&graph, &used));
        }
        let made = BuildState {
            graph,
            gateways,
            used,
            inputs: Arc::clone(&self.inputs),
            retained,
            manifests,
            envoys,
        };
        BuildAttempt {
            state: made,
            reports,
            memory,
            led_from,
            services_of_envoys,
        }
    }

    fn used(&mut self, graph: &Arc<Graph>) -> UsedByGateway {
        let before = std::mem::replace(&mut self.stages.graph, Arc::clone(graph));
        let mut known = std::mem::take(&mut self.stages.used);
        for gateway in graph.gateways.keys() {
            let mut used = known.remove(gateway).unwrap_or_default();
            used.catch_up(gateway, &before, graph);
            self.stages.used.insert(gateway.clone(), used);
        }
        self.stages.used.clone()
    }

    fn retained(&self, graph: &Graph, used: &UsedByGateway) -> RetainedByGateway {
        let Some(published) = &self.published else {
            return RetainedByGateway::new();
        };
        let mut kept = published.retained.clone();
        for gateway in &self.drops_retained {
            if let Some(retained) = kept.get_mut(gateway) {
                retained.drop_earlier_routes();
            }
        }
        let graphs = [(&*published.graph, &published.used), (graph, used)];
        let most_bytes = match &self.plane {
            Some(_) => MOST_BYTES_OF_OBJECT,
            None => MOST_BYTES,
        };
        retained_policies(&kept, graphs, (self.inputs.max_idle, most_bytes), self.now)
    }

    /// Empty if a control plane gets objects instead.
    fn resources(&mut self, made: &BuildState) -> ByGateway {
        let mut known = std::mem::take(&mut self.stages.served);
        for gateway in made.gateways.iter().filter(|_| self.plane.is_none()) {
            let inputs = self.inputs_of(made, gateway);
            let used = made.used.get(gateway).cloned().unwrap_or_default();
            let served = match known.remove(gateway) {
                Some(mut served) => {
                    served.catch_up(&made.graph, used, &self.options, &inputs);
                    served
                }
                None => GatewayResources::new(&made.graph, gateway, used, &self.options, &inputs),
            };
            self.stages.served.insert(gateway.clone(), served);
        }
        let served = self.stages.served.iter();
        served
            .map(|(gateway, served)| (gateway.clone(), served.resources().clone()))
            .collect()
    }

    fn moving(&self) -> BTreeMap<ObjectName, Arc<MovingFilter>> {
        let served = self.stages.served.iter();
        let filters = served.filter_map(|(gateway, served)| Some((gateway.clone(), Arc::clone(served.moving()?))));
        filters.collect()
    }

    fn inputs_of(&self, made: &BuildState, gateway: &ObjectName) -> Arc<FilterInputs> {
        let Some(retained) = made.retained.get(gateway) else {
            return Arc::clone(&self.inputs);
        };
        Arc::new(FilterInputs {
            retained: retained.for_filter(),
            ..FilterInputs::clone(&self.inputs)
        })
    }

    /// How long a token may live unused, also one from before an idle timeout became shorter.
    fn life(&mut self, made: &BuildState) -> Duration {
        let former = made
            .retained
            .values()
            .filter_map(|retained| retained.former_lags.longest());
        let longest = former.max().unwrap_or_default();
        self.life_of_policies(&made.graph) + longest
    }

    fn life_of_policies(&mut self, graph: &Graph) -> Duration {
        if let Some((policies, inputs, life)) = &self.stages.life
            && (policies, inputs) == (&graph.policies, &self.inputs)
        {
            return *life;
        }
        let mut config = FilterConfig::without_keys(all_policies(graph));
        config.max_idle = self.inputs.max_idle;
        config.clock_skew = self.inputs.clock_skew;
        let life = longest_life(&config);
        self.stages.life = Some((graph.policies.clone(), Arc::clone(&self.inputs), life));
        life
    }
}
