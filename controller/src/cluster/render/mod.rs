//! `limpet render`: what the controller makes of objects, without a cluster.
//!
//! It takes the same path: it reads manifests into the same store, `build` makes the graph and the reports, and the
//! same output makes the resources. It writes one file for an Envoy without a controller, or a directory for an Envoy
//! that takes its configuration from files and watches them.

mod accepted;
mod command;
mod definitions;
mod files;
mod manifests;
mod unknown;
mod unserved;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::cluster::gateway_api::GatewayApi;
use crate::cluster::kube::Store;
use crate::exit::CommandFailure;
use limpet_api::{DecodeError, GatewayClassSpec, Meta, Object, ObjectName, ObjectRef};
use limpet_model::{Graph, Objects, Reports, Settings, build};
use limpet_outputs::envoy::{EnvoyOptions, load_assignment, resources};
use limpet_outputs::envoy_gateway::EnvoyGatewayOptions;
use limpet_outputs::istio::IstioOptions;
use limpet_outputs::manifests::{ManifestInputs, controller_label};
use limpet_outputs::{ControlPlane, FilterInputs, GatewayReferences, PolicyRoom, envoys, json};
use limpet_resources::{Resource, ResourceType};

pub(crate) use command::run;
pub(crate) use manifests::{ManifestFiles, files as manifest_files, read as read_manifests, read_documents};

use files::{static_file, xds_folder};
use unserved::UnservedObjects;

/// What becomes of manifests.
#[derive(Debug)]
pub struct RenderResult {
    /// What the controller would serve.
    pub graph: Graph,
    /// What became of each object.
    pub reports: Reports,
    /// Objects that could not be read.
    pub malformed: BTreeMap<ObjectRef, DecodeError>,
    /// The kinds that are not read, and how many objects there are of each.
    pub skipped: BTreeMap<String, usize>,
    /// Why documents are of no kind that exists, by their places.
    pub unknown: BTreeMap<String, String>,
    /// What is not served, and why.
    unserved: UnservedObjects,
    /// All resources of each Gateway; none for another control plane.
    pub resources: BTreeMap<ObjectName, Vec<Resource>>,
    /// The objects for another control plane.
    pub objects: Vec<Value>,
    /// The objects of the Envoys that the controller keeps.
    pub envoys: Vec<Value>,
    /// What the definitions of each release of the Gateway API refuse.
    pub refused_by: BTreeMap<GatewayApi, Vec<String>>,
    /// The release of the cluster; any one if it is not known.
    pub gateway_api: Option<GatewayApi>,
}

/// Why manifests cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RenderError(String);

impl From<CommandFailure> for RenderError {
    fn from(failure: CommandFailure) -> Self {
        Self(failure.0)
    }
}

/// Reads files and directories of manifests, and makes of them what the controller would.
///
/// # Errors
/// If a file cannot be read, or contains something that is no object. What is wrong with an object is in the reports.
pub fn render(
    paths: &[String],
    settings: &Settings,
    options: &EnvoyOptions,
    plane: Option<&ControlPlane>,
    inputs: &FilterInputs,
) -> Result<RenderResult, RenderError> {
    Ok(render_manifests(
        manifests::read(paths, settings)?,
        settings,
        options,
        plane,
        inputs,
    ))
}

/// The same of objects that were read.
pub(crate) fn render_manifests(
    files: ManifestFiles,
    settings: &Settings,
    options: &EnvoyOptions,
    plane: Option<&ControlPlane>,
    inputs: &FilterInputs,
) -> RenderResult {
    let mut objects = files.store.objects();
    if let Some(plane) = plane {
        add_classes(Arc::make_mut(&mut objects), plane);
    }
    let (graph, mut reports) = build(&objects, settings);
    let source = ManifestInputs {
        objects: &objects,
        graph: &graph,
        options,
        inputs,
        retained: &BTreeMap::new(),
    };
    let manifests = plane.map(|plane| plane.manifests(&source)).unwrap_or_default();
    let managed = options.managed.as_ref().filter(|_| settings.managed.is_some());
    let envoys = managed
        .map(|managed| envoys::manifests(&source, managed))
        .unwrap_or_default();
    reports.add_unsupported(&graph, &manifests.unsupported);
    if plane.is_none() {
        let used = |gateway: &ObjectName| (gateway.clone(), GatewayReferences::by(&graph, gateway));
        let used = graph.gateways.keys().map(used).collect();
        reports.add_unsupported(&graph, &PolicyRoom::default().catch_up(&graph, &used));
    }
    let label = controller_label(&settings.controller_name);
    let of_gateway = |gateway: &ObjectName| {
        let all = resources(&graph, gateway, options, inputs);
        with_endpoints(all, &graph, &files.store)
    };
    let resources = graph
        .gateways
        .keys()
        .filter(|_| plane.is_none())
        .map(|gateway| (gateway.clone(), of_gateway(gateway)))
        .collect();
    RenderResult {
        unserved: unserved::of(&objects, &graph, &reports, settings, &other_planes()),
        malformed: objects
            .malformed()
            .into_iter()
            .map(|(object, error)| (object, error.clone()))
            .collect(),
        skipped: files.skipped,
        unknown: files.unknown,
        refused_by: definitions::refusals(&objects),
        gateway_api: None,
        resources,
        objects: manifests.objects.iter().map(|one| one.object(&label)).collect(),
        envoys: envoys.objects.iter().map(|one| one.object(&label)).collect(),
        graph,
        reports,
    }
}

/// A Gateway's resources, with the endpoints of its clusters.
fn with_endpoints(mut all: Vec<Resource>, graph: &Graph, store: &Store) -> Vec<Resource> {
    let used = all
        .iter()
        .filter(|resource| resource.resource_type() == ResourceType::Cluster);
    let used: BTreeSet<String> = used.map(|resource| resource.name().to_string()).collect();
    let clusters = graph.clusters.iter();
    let clusters = clusters.filter(|(name, cluster)| used.contains(name.0.as_str()) && cluster.external_name.is_none());
    all.extend(
        clusters.map(|(name, cluster)| load_assignment(name, &store.endpoints(&cluster.service, &cluster.port_name))),
    );
    all
}

/// The values of `--target` for other control planes.
fn other_planes() -> [(&'static str, ControlPlane); 2] {
    [
        ("istio", ControlPlane::Istio(IstioOptions::default())),
        (
            "envoy-gateway",
            ControlPlane::EnvoyGateway(EnvoyGatewayOptions::default()),
        ),
    ]
}

/// Adds the classes that the control plane itself creates, and that no manifest has.
pub(crate) fn add_classes(objects: &mut Objects, plane: &ControlPlane) {
    for (name, controller) in plane.own_classes() {
        objects.gateway_classes.entry((*name).into()).or_insert_with(|| {
            Arc::new(Object {
                meta: Meta {
                    name: (*name).into(),
                    ..Meta::default()
                },
                spec: GatewayClassSpec {
                    controller_name: (*controller).to_owned(),
                    parameters_ref: None,
                },
                unread: Vec::new(),
                malformed: None,
            })
        });
    }
}

impl RenderResult {
    /// Whether every object was accepted as a whole, also by the definitions of one release, and something is served.
    #[must_use]
    pub fn all_accepted(&self) -> bool {
        self.has_no_error() && !self.serves_nothing()
    }

    /// Whether no Gateway is for this target.
    pub(crate) fn serves_nothing(&self) -> bool {
        self.unserved.is_all
    }

    pub(crate) fn has_no_error(&self) -> bool {
        let accepts = |release: &GatewayApi| !self.refused_by.contains_key(release);
        let is_defined = match &self.gateway_api {
            Some(release) => accepts(release),
            None => GatewayApi::all().any(|release| accepts(&release)),
        };
        is_defined && self.unknown.is_empty() && self.malformed.is_empty() && accepted::all(&self.reports)
    }

    /// What other control planes serve, by object, and `all` if nothing is left.
    pub(crate) fn unserved(&self) -> &BTreeMap<String, String> {
        &self.unserved.objects
    }

    /// What releases of the Gateway API refuse, by their range.
    pub(crate) fn refused_by_range(&self) -> BTreeMap<String, &Vec<String>> {
        definitions::by_range(&self.refused_by)
    }

    /// Judges the objects only by the definitions of this release.
    #[must_use]
    pub fn in_release(mut self, release: GatewayApi) -> Self {
        self.refused_by.retain(|of, _| *of == release);
        self.gateway_api = Some(release);
        self
    }

    /// What became of each object.
    #[must_use]
    pub fn report(&self) -> Value {
        let mut report = to_value(&self.reports);
        if let Value::Object(report) = &mut report {
            report.retain(|_, objects| objects.as_object().is_some_and(|objects| !objects.is_empty()));
            if !self.malformed.is_empty() {
                let malformed = self.malformed.iter();
                let malformed = malformed.map(|(object, why)| (object.to_string(), why.to_string().into()));
                report.insert("malformed".to_owned(), Value::Object(malformed.collect()));
            }
            if !self.unknown.is_empty() {
                report.insert("notKnown".to_owned(), json!(self.unknown));
            }
            if !self.unserved.objects.is_empty() {
                report.insert("notServed".to_owned(), json!(self.unserved.objects));
            }
            if !self.skipped.is_empty() {
                report.insert("notRead".to_owned(), json!(self.skipped));
            }
            if !self.refused_by.is_empty() {
                let refused_by = definitions::by_range(&self.refused_by);
                report.insert("refusedByGatewayAPI".to_owned(), json!(refused_by));
            }
        }
        report
    }

    /// Everything: the graph, the reports, and the resources of each Gateway by type.
    ///
    /// # Errors
    /// If a resource is of a type that `limpet_outputs::json` does not know.
    pub fn document(&self) -> Result<Value, json::JsonError> {
        let mut gateways = serde_json::Map::new();
        for (gateway, resources) in &self.resources {
            let mut by_type: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for resource in resources {
                let of_type = by_type.entry(resource.resource_type().to_string()).or_default();
                of_type.push(json::resource(resource)?);
            }
            gateways.insert(gateway.to_string(), json!(by_type));
        }
        let mut document = json!({"graph": to_value(&self.graph), "reports": self.report()});
        if let Value::Object(document) = &mut document {
            if !self.envoys.is_empty() {
                document.insert("envoys".to_owned(), json!(self.envoys));
            }
            if self.objects.is_empty() {
                document.insert("resources".to_owned(), json!(gateways));
            } else {
                document.insert("objects".to_owned(), json!(self.objects));
            }
        }
        Ok(document)
    }
}

/// For types of Limpet only: all their keys are strings, and nothing in them fails.
fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
