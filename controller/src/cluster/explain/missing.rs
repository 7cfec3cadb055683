//! What is said of a route that is not there, and of one that no Gateway serves. Pure.

use std::collections::BTreeSet;

use crate::cluster::cli::RouteArgument;
use limpet_api::{Kind, ObjectName, ObjectRef, ParentRef};
use limpet_model::{Objects, Settings};

/// The most routes that are named in place of one that is not there.
const MOST_NAMED: usize = 4;

/// The only kind of route that has this name.
///
/// # Errors
/// If none has it, or several have.
pub(super) fn only_kind(objects: &Objects, name: &ObjectName, place: &str) -> Result<Kind, String> {
    let has = |kind: &Kind| known(objects, *kind).contains(name);
    let found: Vec<Kind> = RouteArgument::KINDS.into_iter().filter(has).collect();
    match found[..] {
        [kind] => Ok(kind),
        [] => Err(format!(
            "no route {name} in the {place}: expected the name of an HTTPRoute, GRPCRoute or IngressRoute"
        )),
        _ => {
            let ways: Vec<String> = found
                .iter()
                .map(|kind| format!("{}/{}", kind.as_str().to_lowercase(), name.name))
                .collect();
            Err(format!(
                "{name}: several kinds of routes have this name: expected {}",
                ways.join(" or ")
            ))
        }
    }
}

fn known(objects: &Objects, kind: Kind) -> BTreeSet<&ObjectName> {
    match kind {
        Kind::GrpcRoute => objects.grpc_routes.keys().collect(),
        Kind::IngressRoute => objects.ingress_routes.keys().collect(),
        _ => objects.http_routes.keys().collect(),
    }
}

/// Why the route is not there; `None` if it is. `place`: where it was looked for.
pub(super) fn not_there(objects: &Objects, route: &ObjectRef, settings: &Settings, place: &str) -> Option<String> {
    let ObjectRef { kind, name } = route;
    if *kind == Kind::IngressRoute && settings.contour.is_none() {
        return Some(format!(
            "{route} is not read: the configuration has no `contour` (--config)"
        ));
    }
    let known = known(objects, *kind);
    if known.contains(name) {
        return None;
    }
    let those = |is_it: &dyn Fn(&ObjectName) -> bool| {
        let found: Vec<String> = known
            .iter()
            .filter(|name| is_it(name))
            .map(ToString::to_string)
            .collect();
        (!found.is_empty()).then_some(found)
    };
    let others = those(&|other| other.name == name.name)
        .or_else(|| those(&|other| other.namespace == name.namespace))
        .or_else(|| those(&|_| true))
        .unwrap_or_default();
    let named = others.get(..MOST_NAMED).unwrap_or(&others).join(", ");
    let rest = match (others.len(), others.len().saturating_sub(MOST_NAMED)) {
        (0, _) => format!("there is no {kind} at all"),
        (1, _) => format!("there is {named}"),
        (_, 0) => format!("there are {named}"),
        (_, more) => format!("there are {named} and {more} more"),
    };
    Some(format!("no {route} in the {place}; {rest}"))
}

/// The Gateways that the route names and whose class is not there, so that they serve nothing. `place`: where the class
/// was looked for.
pub(super) fn gateways_without_class(objects: &Objects, route: &ObjectRef, place: &str) -> Vec<String> {
    let parents = match route.kind {
        Kind::GrpcRoute => objects.grpc_routes.get(&route.name).map(|of| &of.spec.parent_refs),
        _ => objects.http_routes.get(&route.name).map(|of| &of.spec.parent_refs),
    };
    let gateway = |parent: &ParentRef| {
        let namespace = parent.namespace.as_deref().unwrap_or(&route.name.namespace);
        ObjectName::new(namespace, &parent.name)
    };
    let gateways: BTreeSet<ObjectName> = parents.into_iter().flatten().map(gateway).collect();
    let told = |name: ObjectName| {
        let class = &objects.gateways.get(&name)?.spec.gateway_class_name;
        let is_there = objects.gateway_classes.contains_key(class);
        (!is_there).then(|| format!("Gateway {name} has the GatewayClass {class}, which is not in the {place}"))
    };
    gateways.into_iter().filter_map(told).collect()
}
