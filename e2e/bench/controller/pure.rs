//! From objects to resources, without a cluster or server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_api::ObjectName;
use limpet_model::endpoints::endpoints;
use limpet_model::{Objects, Settings};
use limpet_outputs::envoy::{self, EnvoyOptions};
use limpet_outputs::envoy_gateway::EnvoyGatewayOptions;
use limpet_outputs::istio::IstioOptions;
use limpet_outputs::manifests::ManifestInputs;
use limpet_outputs::{ControlPlane, FilterInputs, FilterKeys};
use limpet_resources::{Resource, ResourceType, ResourceVersion, Resources};

use crate::objects::{self, GeneratedObjects};
use crate::report::{kilobytes, milliseconds, peak_memory, row};

pub(crate) struct BuildResult {
    pub(crate) resources: BTreeMap<ObjectName, Vec<Arc<Resource>>>,
    graph: Duration,
    translation: Duration,
}

impl BuildResult {
    pub(crate) fn of(generated: &GeneratedObjects, objects: &Objects) -> Self {
        let settings = settings(generated);
        let start = Instant::now();
        let (graph, _reports) = limpet_model::build(objects, &settings);
        let built = Instant::now();
        let inputs = FilterInputs::with_keys(FilterKeys::Listed(Vec::new()));
        let options = EnvoyOptions::default();
        let of_gateway = |gateway: &ObjectName| {
            let resources = envoy::resources(&graph, gateway, &options, &inputs);
            (gateway.clone(), resources.into_iter().map(Arc::new).collect())
        };
        let resources = graph.gateways.keys().map(of_gateway).collect();
        Self {
            resources,
            graph: built - start,
            translation: built.elapsed(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().flatten()
    }

    fn versions(&self) -> BTreeMap<(&ObjectName, ResourceType, &str), ResourceVersion> {
        self.resources
            .iter()
            .flat_map(|(gateway, resources)| {
                resources
                    .iter()
                    .map(move |of| ((gateway, of.resource_type(), &**of.name()), of.version()))
            })
            .collect()
    }
}

fn settings(generated: &GeneratedObjects) -> Settings {
    Settings {
        controller_name: generated.controller_name.clone(),
        ..Settings::default()
    }
}

pub(crate) fn assignments(generated: &GeneratedObjects) -> Vec<Arc<Resource>> {
    let assignment = |rule| {
        let name = limpet_model::graph::ClusterName(objects::cluster_name(rule).into());
        Arc::new(envoy::load_assignment(
            &name,
            &endpoints([&objects::slice(rule)], "http", |_| false),
        ))
    };
    (0..generated.rules).map(assignment).collect()
}

pub(crate) fn of_edge(
    generated: &GeneratedObjects,
    build: &BuildResult,
    assignments: &[Arc<Resource>],
) -> Result<Resources> {
    let resources = build.resources.get(&generated.edge()).context("no Gateway edge")?;
    Ok(resources.iter().chain(assignments).cloned().collect())
}

pub(crate) fn run(generated: &GeneratedObjects) -> Result<()> {
    let before = peak_memory("self")?;
    let mut objects = generated.objects()?;
    let with_objects = peak_memory("self")?;

    let start = Instant::now();
    let first = BuildResult::of(generated, &objects);
    let translating = Instant::now();
    let assignments = assignments(generated);
    let endpoints_took = translating.elapsed();
    let published = of_edge(generated, &first, &assignments)?;
    let took = start.elapsed();
    let bytes: usize = first
        .all()
        .chain(&assignments)
        .map(|resource| resource.body().len())
        .sum();
    let clusters = published.of_type(ResourceType::Cluster).count();
    // The filter may have a cluster, too, from which it is fetched.
    ensure!(
        clusters >= generated.rules,
        "{clusters} clusters of {} rules",
        generated.rules
    );

    println!(
        "\nPure build: {} rules, {} endpoints",
        generated.rules,
        generated.endpoints()
    );
    row("first build", milliseconds(took));
    row("  objects to graph", milliseconds(first.graph));
    row("  graph to resources", milliseconds(first.translation));
    row("  endpoints to resources", milliseconds(endpoints_took));
    row("resources of the Gateway edge", published.len());
    row("  size for all Gateways", kilobytes(bytes as u64 / 1024));
    let again = (0..5)
        .map(|_| BuildResult::of(generated, &objects))
        .min_by_key(|build| build.graph + build.translation);
    let again = again.context("no build")?;
    row(
        "the same build again, best of 5",
        milliseconds(again.graph + again.translation),
    );
    ensure!(
        again.versions() == first.versions(),
        "equal objects gave other resources"
    );

    objects::add(&mut objects, &generated.route(1, true))?;
    let changed = BuildResult::of(generated, &objects);
    let (before_change, after) = (first.versions(), changed.versions());
    ensure!(before_change.keys().eq(after.keys()), "resources came or went");
    let differ = after
        .iter()
        .filter(|(name, version)| before_change.get(*name) != Some(version));
    let differ: Vec<String> = differ
        .map(|((gateway, of, name), _)| format!("{of} {name} of {gateway}"))
        .collect();
    row(
        "build with one route changed",
        milliseconds(changed.graph + changed.translation),
    );
    row("  resources that differ", differ.join(", "));
    ensure!(differ.len() == 1, "expected one resource, found {differ:?}");
    for (name, took) in objects_for_others(generated, &objects) {
        row(&format!("all objects for {name}, best of 5"), milliseconds(took));
    }
    row("peak memory before the objects", kilobytes(before));
    row("  with objects", kilobytes(with_objects));
    row("  with two builds at once", kilobytes(peak_memory("self")?));
    Ok(())
}

/// The build times of objects for other control planes, which every change rebuilds.
fn objects_for_others(generated: &GeneratedObjects, objects: &Objects) -> Vec<(&'static str, Duration)> {
    let (graph, _reports) = limpet_model::build(objects, &settings(generated));
    let source = ManifestInputs {
        objects,
        graph: &graph,
        options: &EnvoyOptions::default(),
        inputs: &FilterInputs::with_keys(FilterKeys::Listed(Vec::new())),
        retained: &BTreeMap::new(),
    };
    let istio = IstioOptions {
        url: Some("oci://registry.example/limpet".to_owned()),
        ..IstioOptions::default()
    };
    let planes = [
        ControlPlane::Istio(istio),
        ControlPlane::EnvoyGateway(EnvoyGatewayOptions::default()),
    ];
    let took = |plane: &ControlPlane| {
        let start = Instant::now();
        let made = plane.manifests(&source);
        let took = start.elapsed();
        drop(made);
        took
    };
    let best = |plane: &ControlPlane| (0..5).map(|_| took(plane)).min().unwrap_or_default();
    planes.iter().map(|plane| (plane.name(), best(plane))).collect()
}
