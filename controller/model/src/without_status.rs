//! Findings on an object whose status has no place for them: no Gateway of ours is involved, and only the controller of
//! a Gateway may report on a route. They become Events.

use std::collections::{BTreeMap, BTreeSet};

use super::affinity;
use super::contour;
use super::grants::GrantedReferences;
use super::reports::Condition;
use super::routes::gateway_name;
use super::sessions::service_problems;
use super::{Objects, Settings, unknown_annotations};
use limpet_api::{
    GATEWAY_GROUP, GATEWAY_X_GROUP, GatewaySpec, Kind, Object, ObjectName, ObjectRef, ParentRef, ReferenceGrantSpec,
};

type WithoutStatus = BTreeMap<ObjectRef, Condition>;

/// Adds Gateways without a class or with the name of Contour's, routes to Gateways that do not exist, grants that
/// permit nothing, too long delegations, and annotations without any reader.
pub(super) fn add(
    objects: &Objects,
    settings: &Settings,
    references: &GrantedReferences<'_>,
    found: &mut WithoutStatus,
) {
    leave_to_others(objects, settings, references, found);
    if settings.serves() {
        found.extend(affinity::problems(objects));
    }
    for (service, condition) in service_problems(objects, settings) {
        found.entry(service).or_insert(condition);
    }
    let mut add = |kind: Kind, name: &ObjectName, reason: &'static str, problems: Vec<String>| {
        if !problems.is_empty() {
            let object = ObjectRef {
                kind,
                name: name.clone(),
            };
            found.insert(object, Condition::fails("Accepted", reason, problems.join("; ")));
        }
    };
    for (name, gateway) in &objects.gateways {
        let class = &gateway.spec.gateway_class_name;
        if gateway.malformed.is_none() && !objects.gateway_classes.contains_key(class) {
            let message = format!("spec.gatewayClassName: expected an existing GatewayClass, found {class}");
            add(Kind::Gateway, name, "Invalid", vec![message]);
        }
    }
    if let Some(taken) = settings
        .contour
        .as_ref()
        .filter(|_| contour::has_name_conflict(objects, settings))
    {
        let message = "contour.gateway of the controller's configuration: expected a name that no Gateway has, found \
                       this Gateway's name; it is served, and no IngressRoute is";
        add(Kind::Gateway, &taken.gateway, "Invalid", vec![message.to_owned()]);
    }
    let delegations = settings.contour.iter().flat_map(|_| contour::long_delegations(objects));
    for (name, problem) in delegations {
        add(Kind::TlsCertificateDelegation, name, "Invalid", vec![problem]);
    }
    for (name, route) in &objects.http_routes {
        let mut problems = missing_parents(objects, settings, name, &route.spec.parent_refs);
        problems.extend(other_parents(objects, settings, &route.spec.parent_refs));
        problems.extend(no_parents(route, &route.spec.parent_refs));
        add(Kind::HttpRoute, name, "NoMatchingParent", problems);
    }
    for (name, route) in &objects.grpc_routes {
        let mut problems = missing_parents(objects, settings, name, &route.spec.parent_refs);
        problems.extend(other_parents(objects, settings, &route.spec.parent_refs));
        problems.extend(no_parents(route, &route.spec.parent_refs));
        add(Kind::GrpcRoute, name, "NoMatchingParent", problems);
    }
    for (name, grant) in &objects.reference_grants {
        add(Kind::ReferenceGrant, name, "Invalid", unknown_groups(grant));
    }
    for (object, condition) in unknown_annotations::problems(objects, settings) {
        found.entry(object).or_insert(condition);
    }
}

/// Removes policies on backends of other controllers' Gateways, which report on them, and may support what Limpet does
/// not. A route that may not refer to a backend does not count.
fn leave_to_others(
    objects: &Objects,
    settings: &Settings,
    references: &GrantedReferences<'_>,
    found: &mut WithoutStatus,
) {
    if found.is_empty() {
        return;
    }
    let of_others = objects.routes().filter(|route| {
        let gateways = route.parents.iter();
        let mut gateways = gateways.filter_map(|parent| gateway_name(&route.meta.namespace, parent));
        gateways.any(|gateway| {
            let gateway = objects.gateways.get(&gateway);
            gateway.is_some_and(|gateway| is_others(objects, settings, gateway))
        })
    });
    let reached: BTreeSet<ObjectName> = of_others
        .flat_map(|route| {
            let from = route.referrer();
            let backends = route.referenced_backends();
            backends.filter_map(move |backend| references.permitted_backend(from, backend))
        })
        .collect();
    let is_reached = |namespace: &str, target: &str| reached.contains(&ObjectName::new(namespace, target));
    for (name, policy) in &objects.session_policies {
        let mut targets = policy.spec.target_refs.iter();
        if targets.any(|target| is_reached(&name.name.namespace, &target.name)) {
            found.remove(&name.object_ref());
        }
    }
    for (name, policy) in &objects.backend_tls_policies {
        let mut targets = policy.spec.target_refs.iter();
        if targets.any(|target| is_reached(&name.namespace, &target.name)) {
            let kind = Kind::BackendTlsPolicy;
            found.remove(&ObjectRef {
                kind,
                name: name.clone(),
            });
        }
    }
}

/// Whether the Gateway is of another controller's class.
pub(super) fn is_others(objects: &Objects, settings: &Settings, gateway: &Object<GatewaySpec>) -> bool {
    let class = objects.gateway_classes.get(&gateway.spec.gateway_class_name);
    class.is_some_and(|class| !settings.selects(&class.spec.controller_name))
}

/// Parents that do not exist. Gateways of a namespace that is not read may exist.
fn missing_parents(objects: &Objects, settings: &Settings, route: &ObjectName, parents: &[ParentRef]) -> Vec<String> {
    let parents = parents.iter().enumerate().filter_map(|(index, parent)| {
        let gateway = gateway_name(&route.namespace, parent)?;
        let is_read = settings.namespaces.is_empty() || settings.namespaces.contains(gateway.namespace.as_str());
        (is_read && !objects.gateways.contains_key(&gateway))
            .then(|| format!("spec.parentRefs[{index}].name: expected an existing Gateway, found {gateway}"))
    });
    parents.collect()
}

/// Parents that are no Gateways. Parents of other groups, and Services, belong to a mesh. A `ListenerSet` is not read:
/// where another controller has Gateways, or serves them all, it may be that controller's.
fn other_parents(objects: &Objects, settings: &Settings, parents: &[ParentRef]) -> Vec<String> {
    let mut gateways = objects.gateways.values();
    if !settings.serves() || gateways.any(|gateway| is_others(objects, settings, gateway)) {
        return Vec::new();
    }
    let parents = parents.iter().enumerate();
    let others = parents.filter(|(_, parent)| {
        let is_api = [GATEWAY_GROUP, GATEWAY_X_GROUP].contains(&parent.group.as_str());
        is_api && Kind::find(&parent.group, &parent.kind) != Some(Kind::Gateway)
    });
    let told = others.map(|(index, parent)| {
        let kind = &parent.kind;
        format!("spec.parentRefs[{index}].kind: expected Gateway: {kind} is not supported")
    });
    told.collect()
}

/// A route may also ask for default Gateways, which other controllers may have.
fn no_parents<S>(route: &Object<S>, parents: &[ParentRef]) -> Option<String> {
    let asks_for_defaults = route.unread.iter().any(|field| field == "spec.useDefaultGateways");
    let is_lost = parents.is_empty() && route.malformed.is_none() && !asks_for_defaults;
    is_lost.then(|| "spec.parentRefs: expected a Gateway, found none".to_owned())
}

/// A grant may name the core group by a name that it does not have.
fn unknown_groups(grant: &Object<ReferenceGrantSpec>) -> Vec<String> {
    let from = grant.spec.from.iter().map(|from| &from.group).enumerate();
    let to = grant.spec.to.iter().map(|to| &to.group).enumerate();
    let all = from
        .map(|(index, group)| ("from", index, group))
        .chain(to.map(|(index, group)| ("to", index, group)));
    all.filter(|(.., group)| *group == "core")
        .map(|(list, index, group)| {
            format!("spec.{list}[{index}].group: expected \"\" for the core group, found {group:?}")
        })
        .collect()
}
