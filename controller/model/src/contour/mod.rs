//! Contour's `IngressRoute`s: a Gateway of the graph, and a report on each object. See `design/contour.md`.
//!
//! - `class` has our objects, `roots` their hosts, `tree` delegations.
//! - `read` has what an object says by itself; `services` and `sessions` what its routes have.
//! - `hosts` puts it together. `go` reads and writes texts as Contour does.

mod class;
mod delegation_tree;
mod explain;
mod go;
mod hosts;
mod read;
mod reports;
mod roots;
mod services;
mod sessions;

use std::collections::BTreeMap;
use std::sync::Arc;

use limpet_api::{IngressRouteSpec, IngressRule, Kind, Meta, Object, ObjectName, ObjectRef};

use crate::references::References;
use crate::remembered_sessions::SessionSettings;
use crate::reports::IngressRouteReport;
use crate::stand_in::{InvalidSessions, SessionVerdict, SessionVerdicts};
use crate::{ContourSettings, Objects, Settings};

use class::is_ours;
use delegation_tree::{DelegationTree, Edge, Vertex};
use hosts::{HostFindings, RoutesByHost};
use read::{IngressAction, IngressRouteContent, IngressRouteError, IngressRouteReader, IngressRouteRule};
use roots::RootHost;
use services::ContourServices;

pub(super) use roots::long_delegations;

/// The objects of our class.
type OurIngressRoutes<'a> = BTreeMap<&'a ObjectName, &'a Object<IngressRouteSpec>>;
type IngressRouteContents<'a> = BTreeMap<&'a ObjectName, Result<IngressRouteContent<'a>, IngressRouteError>>;

pub(super) struct Contour<'a> {
    settings: &'a ContourSettings,
    hosts: RoutesByHost<'a>,
    pub(super) reports: BTreeMap<ObjectName, IngressRouteReport>,
    pub(super) verdicts: SessionVerdicts,
}

impl<'a> Contour<'a> {
    /// `None` if the objects are not read.
    pub(super) fn build(objects: &'a Objects, references: &'a References<'a>, settings: &'a Settings) -> Option<Self> {
        let contour = settings
            .contour
            .as_ref()
            .filter(|_| !has_name_conflict(objects, settings))?;
        let ours = ours(objects, contour);
        let roots = roots::roots(&ours, objects, contour);
        let reading = IngressRouteReader {
            settings,
            services: ContourServices {
                objects,
                references,
                settings: contour,
            },
        };
        let read = |(name, object): (&&'a ObjectName, &&'a Object<IngressRouteSpec>)| {
            #[cfg(test)]
            crate::looked::at_one();
            (*name, reading.read(object))
        };
        let contents: IngressRouteContents<'a> = ours.iter().map(read).collect();
        let vertices = ours
            .iter()
            .map(|(name, object)| (*name, vertex(object, roots.get(name), contents.get(name))))
            .collect();
        let mut oldest_first: Vec<&ObjectName> = ours.keys().copied().collect();
        oldest_first.sort_by_key(|name| ours.get(name).map(|object| object.meta.precedence()));
        let tree = DelegationTree::build(&vertices, oldest_first);
        let (hosts, told) = hosts::hosts(&ours, contour, &roots, &contents, &tree);
        let reports = reports::IngressReportInputs {
            objects,
            ours: &ours,
            roots: &roots,
            contents: &contents,
            tree: &tree,
            hosts: &told,
        };
        Some(Self {
            settings: contour,
            reports: reports.reports(),
            verdicts: judged(&ours, &contents, &told),
            hosts,
        })
    }
}

pub(super) fn reads(annotation: &str) -> bool {
    class::is_class(annotation) || services::is_annotation(annotation)
}

/// What an object says of delegation. `content`: what it says by itself.
fn vertex<'a>(
    object: &'a Object<IngressRouteSpec>,
    root: Option<&Result<RootHost, Arc<str>>>,
    content: Option<&Result<IngressRouteContent<'a>, IngressRouteError>>,
) -> Vertex<'a> {
    let is_refused = matches!(root, Some(Err(_))) || matches!(content, Some(Err(_)));
    let edges: Vec<Edge<'_>> = if let Some(Ok(content)) = content {
        content.rules.iter().map(edge).collect()
    } else {
        // For messages: nothing of it counts.
        let rules = object.spec.routes.iter().enumerate();
        rules.filter_map(|(index, rule)| written(object, index, rule)).collect()
    };
    Vertex::new(object.spec.virtualhost.is_some(), is_refused, edges)
}

fn edge<'a>(rule: &IngressRouteRule<'a>) -> Edge<'a> {
    Edge {
        index: rule.index,
        prefix: rule.prefix,
        to: match &rule.action {
            IngressAction::Delegate(to) => Some(to.clone()),
            IngressAction::Forward(_) => None,
        },
        services: match &rule.action {
            IngressAction::Delegate(_) => 0,
            IngressAction::Forward(forwarding) => forwarding.services.len(),
        },
    }
}

fn written<'a>(object: &'a Object<IngressRouteSpec>, index: usize, rule: &'a IngressRule) -> Option<Edge<'a>> {
    let delegate = rule.delegate.as_ref();
    (!rule.services.is_empty() || delegate.is_some()).then(|| Edge {
        index,
        prefix: &rule.prefix,
        to: delegate
            .filter(|_| rule.services.is_empty())
            .map(|delegate| read::delegate_of(object, delegate)),
        services: rule.services.len(),
    })
}

/// An object with sessions must have them on one of its hosts.
fn judged(
    ours: &OurIngressRoutes<'_>,
    contents: &IngressRouteContents<'_>,
    told: &HostFindings<'_>,
) -> SessionVerdicts {
    let judged = ours.iter().filter_map(|(name, object)| {
        let foreign = told.foreign.get(name).filter(|_| !told.with_sessions.contains(name));
        let wrong = match contents.get(name)? {
            Err(mistake) => Some(mistake.text.clone()),
            Ok(_) => foreign.cloned(),
        };
        let judged = match wrong {
            None => SessionVerdict::Valid(Box::new(SessionSettings::annotated(&object.meta))),
            Some(problems) => SessionVerdict::Wrong(InvalidSessions {
                problems,
                ..InvalidSessions::default()
            }),
        };
        let (kind, name) = (Kind::IngressRoute, (*name).clone());
        Some((ObjectRef { kind, name }, judged))
    });
    judged.collect()
}

/// Whether a Gateway of ours has the name of Contour's Gateway. Their Envoys would be the same, so only the former is
/// served.
pub(super) fn has_name_conflict(objects: &Objects, settings: &Settings) -> bool {
    let gateway = |contour: &ContourSettings| objects.gateways.get(&contour.gateway);
    let class = settings.contour.as_ref().and_then(gateway);
    let class = class.and_then(|gateway| objects.gateway_classes.get(&gateway.spec.gateway_class_name));
    class.is_some_and(|class| settings.selects(&class.spec.controller_name))
}

pub(super) fn ours<'a>(objects: &'a Objects, settings: &ContourSettings) -> OurIngressRoutes<'a> {
    let all = objects.ingress_routes.iter().map(|(name, object)| (name, &**object));
    all.filter(|(_, object)| is_ours(&object.meta, settings)).collect()
}

/// The Secrets of hosts of our class, each with its root, existing and permitted or not.
#[must_use]
pub fn contour_secrets<'a>(objects: &'a Objects, settings: &ContourSettings) -> Vec<(&'a Meta, ObjectName)> {
    let roots = ours(objects, settings)
        .into_iter()
        .filter(|(name, _)| settings.permits_roots(&name.namespace));
    let secrets = roots.filter_map(|(name, object)| {
        let tls = object.spec.virtualhost.as_ref()?.tls.as_ref()?;
        Some((&object.meta, roots::secret(name, &tls.secret_name)))
    });
    let is_name = |name: &ObjectName| services::is_host_name(&name.name) && services::is_host_name(&name.namespace);
    secrets.filter(|(_, name)| is_name(name)).collect()
}
