//! What other control planes serve, and whether anything is left. `withoutStatus` has what no control plane serves.

use std::collections::BTreeMap;

use limpet_api::{Kind, ObjectName, ObjectRef, ParentRef};
use limpet_model::{CONTROLLER_NAME, Graph, Objects, Reports, Settings};
use limpet_outputs::ControlPlane;

/// What is not served here.
#[derive(Debug, Default)]
pub(super) struct UnservedObjects {
    /// Why, by object.
    pub(super) objects: BTreeMap<String, String>,
    /// Whether nothing is served.
    pub(super) is_all: bool,
}

/// `planes`: other control planes, and the values of `--target` for them.
pub(super) fn of(
    objects: &Objects,
    graph: &Graph,
    reports: &Reports,
    settings: &Settings,
    planes: &[(&str, ControlPlane)],
) -> UnservedObjects {
    let others = UnservedSearch {
        objects,
        settings,
        planes,
    };
    let mut unserved = UnservedObjects::default();
    for (name, gateway) in &objects.gateways {
        unserved.add(
            reports,
            Kind::Gateway,
            name,
            others.class(&gateway.spec.gateway_class_name),
        );
    }
    let http = objects.http_routes.iter();
    let http = http.filter(|(name, _)| !reports.http_routes.contains_key(*name));
    let http = http.map(|(name, route)| (Kind::HttpRoute, name, &route.spec.parent_refs));
    let grpc = objects.grpc_routes.iter();
    let grpc = grpc.filter(|(name, _)| !reports.grpc_routes.contains_key(*name));
    let grpc = grpc.map(|(name, route)| (Kind::GrpcRoute, name, &route.spec.parent_refs));
    for (kind, name, parents) in http.chain(grpc) {
        unserved.add(reports, kind, name, others.route(name, parents));
    }
    unserved.is_all = graph.gateways.is_empty() && reports.ingress_routes.is_empty();
    if unserved.is_all {
        let why = format!("there is no Gateway of the controller {}", settings.controller_name);
        unserved.objects.insert("all".to_owned(), why);
    }
    unserved
}

impl UnservedObjects {
    fn add(&mut self, reports: &Reports, kind: Kind, name: &ObjectName, why: Option<String>) {
        let object = ObjectRef {
            kind,
            name: name.clone(),
        };
        if let Some(why) = why.filter(|_| !reports.without_status.contains_key(&object)) {
            self.objects.insert(object.to_string(), why);
        }
    }
}

struct UnservedSearch<'a> {
    objects: &'a Objects,
    settings: &'a Settings,
    planes: &'a [(&'a str, ControlPlane)],
}

impl UnservedSearch<'_> {
    /// The control plane that serves Gateways of this class, if it is another one.
    fn class(&self, class: &str) -> Option<String> {
        let controller = &self.objects.gateway_classes.get(class)?.spec.controller_name;
        if self.settings.selects(controller) {
            return None;
        }
        let serves = |(_, plane): &&(&str, ControlPlane)| plane.gateway_controllers().contains(&controller.as_str());
        let target = match self.planes.iter().find(serves) {
            Some((target, _)) => Some(*target),
            None => (controller == CONTROLLER_NAME).then_some("envoy"),
        };
        let instead = target
            .map(|target| format!(": try --target {target}"))
            .unwrap_or_default();
        Some(format!(
            "GatewayClass {class} is of the controller {controller}{instead}"
        ))
    }

    /// The same of the first such Gateway that the route names.
    fn route(&self, route: &ObjectName, parents: &[ParentRef]) -> Option<String> {
        parents.iter().enumerate().find_map(|(index, parent)| {
            let name = ObjectName::new(parent.namespace.as_deref().unwrap_or(&route.namespace), &parent.name);
            let gateway = self.objects.gateways.get(&name).filter(|_| parent.kind == "Gateway")?;
            let why = self.class(&gateway.spec.gateway_class_name)?;
            Some(format!("spec.parentRefs[{index}]: Gateway {name}: {why}"))
        })
    }
}
