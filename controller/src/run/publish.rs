//! From objects to what Envoys have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::api::ObjectName;
use crate::model::endpoints::Endpoint;
use crate::model::graph::{ClusterName, Graph};
use crate::model::{self, Objects, Reports, Settings};
use crate::xds::Snapshots;

use super::metrics::Metrics;

/// What a build gave.
#[derive(Debug)]
pub(crate) struct Built {
    graph: Graph,
    reports: Reports,
    /// What it is built from.
    pub(crate) objects: Arc<Objects>,
    /// How long it took.
    pub(crate) took: Duration,
}

/// Builds, on a thread of its own.
#[derive(Debug, Clone)]
pub(crate) struct Builder {
    published: Arc<Graph>,
}

/// Publishes, and knows what is published.
#[derive(Debug)]
#[allow(dead_code, reason = "filled next")]
pub(crate) struct Publisher {
    snapshots: Snapshots,
    metrics: Metrics,
    graph: Arc<Graph>,
    /// The clusters of a Service, each with the name of the Service's port.
    clusters: BTreeMap<ObjectName, Vec<(ClusterName, String)>>,
}

impl Builder {
    pub(crate) fn build(&self, objects: Arc<Objects>, settings: &Settings) -> Built {
        let start = Instant::now();
        let (graph, reports) = model::build(&objects, settings);
        let _changed = graph != *self.published;
        Built {
            graph,
            reports,
            objects,
            took: start.elapsed(),
        }
    }
}

impl Publisher {
    /// Of which nothing is published yet.
    pub(crate) fn new(snapshots: Snapshots, metrics: Metrics) -> Self {
        Self {
            snapshots,
            metrics,
            graph: Arc::default(),
            clusters: BTreeMap::new(),
        }
    }

    pub(crate) fn builder(&self) -> Builder {
        Builder {
            published: Arc::clone(&self.graph),
        }
    }

    /// Publishes all of it.
    pub(crate) fn publish(&mut self, built: Built, _endpoints: impl Fn(&ObjectName, &str) -> Vec<Endpoint>) -> Reports {
        self.clusters.clear();
        for (name, cluster) in &built.graph.clusters {
            let clusters = self.clusters.entry(cluster.service.clone()).or_default();
            clusters.push((name.clone(), cluster.port_name.clone()));
        }
        self.graph = Arc::new(built.graph);
        built.reports
    }

    /// Publishes the endpoints of the clusters of these Services, and nothing else. How many there were.
    pub(crate) fn publish_endpoints(
        &mut self,
        services: &BTreeSet<ObjectName>,
        endpoints: impl Fn(&ObjectName, &str) -> Vec<Endpoint>,
    ) -> u64 {
        let mut published = 0;
        for service in services {
            for (_cluster, port) in self.clusters.get(service).into_iter().flatten() {
                let _endpoints = endpoints(service, port);
                published += 1;
            }
        }
        published
    }
}
