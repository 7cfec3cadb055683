//! Which Gateways have routes that name the targets of policies, as valid backends or not. Routes that may not refer to
//! the target do not count: routes of other namespaces would fill the policy's status.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::objects::PolicyObject;
use super::rules::RuleChoice;
use crate::Objects;
use crate::grants::GrantedReferences;
use limpet_api::{BackendRef, Kind, ObjectName, ObjectRef, PolicyTarget};

#[derive(Debug, Clone, Default)]
pub(super) struct NamingRoutes<'p> {
    pub(super) routes: BTreeSet<&'p ObjectRef>,
    pub(super) any_usable: bool,
}

pub(super) type NamingGateways<'p> = BTreeMap<&'p PolicyObject<'p>, BTreeMap<&'p ObjectName, NamingRoutes<'p>>>;

/// Group, kind, namespace and name.
type TargetKey<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Gateways of rules that name a target other than as a valid backend, or that are targets themselves. `serving`: the
/// Gateways that serve.
pub(super) fn naming_gateways<'p>(
    objects: &Objects,
    policies: &'p [PolicyObject<'p>],
    chosen: &[RuleChoice<'p>],
    serving: &BTreeSet<&'p ObjectName>,
) -> NamingGateways<'p> {
    let mut naming = NamingGateways::new();
    if policies.is_empty() {
        return naming;
    }
    let mut by_target: HashMap<TargetKey<'_>, BTreeSet<&PolicyObject<'_>>> = HashMap::new();
    for policy in policies {
        for target in &policy.object.spec.target_refs {
            let key = of_target(&policy.name.name.namespace, target);
            by_target.entry(key).or_default().insert(policy);
            // A policy on a Gateway has no effect, which its status says.
            if (key.0, key.1) == (Kind::Gateway.group(), Kind::Gateway.as_str())
                && let Some(gateway) = serving.get(&ObjectName::new(key.2, key.3))
            {
                naming.entry(policy).or_default().entry(gateway).or_default();
            }
        }
    }
    let permitted = GrantedReferences::new(objects);
    for (route, RouteTargets { valid, gateways }) in of_routes(chosen) {
        let mut add = |key: TargetKey<'_>, gateways: &mut dyn Iterator<Item = &'p ObjectName>| {
            let Some(policies) = by_target.get(&key) else { return };
            let any_usable = key.1 == Kind::Service.as_str() && why_unusable(objects, key.2, key.3).is_none();
            for gateway in gateways {
                for policy in policies {
                    let naming: &mut NamingRoutes<'_> = naming.entry(*policy).or_default().entry(gateway).or_default();
                    naming.routes.insert(route);
                    naming.any_usable |= any_usable;
                }
            }
        };
        let kind = route.kind;
        let key = (
            kind.group(),
            kind.as_str(),
            route.name.namespace.as_str(),
            route.name.name.as_str(),
        );
        add(key, &mut gateways.iter().copied());
        // Valid backends are in the outcomes of their rules.
        let Some(references) = objects.route(route).filter(|route| route.backends.len() > valid) else {
            continue;
        };
        let from = references.referrer();
        for backend in references.backends {
            if permitted.permitted_backend(from, backend).is_some() {
                add(of_backend(from.namespace, backend), &mut gateways.iter().copied());
            }
        }
    }
    naming
}

pub(super) fn why_unusable(objects: &Objects, namespace: &str, name: &str) -> Option<String> {
    let name = ObjectName::new(namespace, name);
    let Some(service) = objects.services.get(&name) else {
        return Some(format!("expected an existing Service, found {name}"));
    };
    if service.malformed.is_some() {
        return Some(format!("expected a Service that can be read, found {name}"));
    }
    let is_external = service.spec.kind.as_deref() == Some("ExternalName");
    is_external.then(|| format!("expected a Service with endpoints, found {name} of type ExternalName"))
}

#[derive(Default)]
struct RouteTargets<'p> {
    /// The number of valid backends.
    valid: usize,
    gateways: BTreeSet<&'p ObjectName>,
}

fn of_routes<'p>(chosen: &[RuleChoice<'p>]) -> HashMap<&'p ObjectRef, RouteTargets<'p>> {
    let mut routes: HashMap<&ObjectRef, RouteTargets<'_>> = HashMap::new();
    for RuleChoice { facts, .. } in chosen {
        let route = routes.entry(&facts.route).or_default();
        route.valid += facts.backends.len();
        route.gateways.extend(&facts.gateways);
    }
    routes
}

fn of_target<'a>(namespace: &'a str, target: &'a PolicyTarget) -> TargetKey<'a> {
    // Not a group of Kubernetes, but what it can only mean.
    let group = if target.group == "core" { "" } else { &target.group };
    (group, &target.kind, namespace, &target.name)
}

fn of_backend<'a>(namespace: &'a str, backend: &'a BackendRef) -> TargetKey<'a> {
    let namespace = backend.namespace.as_deref().unwrap_or(namespace);
    (&backend.group, &backend.kind, namespace, &backend.name)
}
