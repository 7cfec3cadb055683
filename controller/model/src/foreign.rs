//! Reports on routes that another control plane serves: on their sessions only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::gateways::GatewayState;
use super::grants::GrantedReferences;
use super::reports::{Condition, ParentReport, RouteReport, UNSUPPORTED_VALUE};
use super::routes::{RouteState, gateway_name};
use super::sessions::{MAX_ANCESTORS, RuleSession, ancestor, notes_on};
use super::unsupported::{Extent, Unsupported};
use super::{GatewayOwner, Objects, Reports, Settings, StandIn};
use limpet_api::{GatewaySpec, Kind, Object, ObjectName, ParentRef};

/// Reports on the sessions that a route asks for; the other control plane reports the rest. `stand_in`: the fault of
/// the sessions that former ones replace.
pub(super) fn route_report(
    route: &RouteState<'_>,
    sessions: &[RuleSession],
    stand_in: Option<&StandIn>,
) -> RouteReport {
    let message = std::iter::once("The sessions of the route are configured").chain(notes_on(sessions));
    let message: Vec<&str> = message.collect();
    let problems = sessions.iter().flat_map(|session| &session.problems);
    let problems = problems.map(|problem| format!("{}: {} (there are no sessions)", problem.field, problem.message));
    let kept = stand_in.map(|stand_in| format!("Fall Back: {stand_in}"));
    let problems: Vec<String> = kept.into_iter().chain(problems).collect();
    let mut conditions = vec![Condition::holds("Accepted", "Accepted", message.join("; "))];
    if !problems.is_empty() {
        conditions.push(Condition::holds(
            "PartiallyInvalid",
            UNSUPPORTED_VALUE,
            problems.join("; "),
        ));
    }
    let parents = route.parents.iter().filter(|parent| parent.accepted.is_true());
    let parents = parents.map(|parent| ParentReport {
        parent_ref: parent.reference.clone(),
        conditions: conditions.clone(),
    });
    RouteReport {
        observed_generation: route.meta.generation,
        parents: parents.collect(),
        ignored: Vec::new(),
    }
}

/// Problems of rules with unreadable matches, or also attached to Gateways of other control planes.
pub(super) fn unsupported(
    objects: &Objects,
    gateways: &BTreeMap<&ObjectName, GatewayState<'_>>,
    routes: &[RouteState<'_>],
) -> Vec<Unsupported> {
    let mut unsupported = Vec::new();
    for route in routes {
        let elsewhere = elsewhere(objects, gateways, route);
        for rule in &route.rules {
            let refused = rule.refused.iter().filter(|refused| refused.drops_rule);
            // The control plane may know what the match means. Limpet cannot tell which requests are the rule's.
            unsupported.extend(refused.map(|refused| Unsupported {
                rule: rule.name.clone(),
                gateway: None,
                extent: Extent::All,
                message: format!(
                    "{}: {} (there are no sessions)",
                    refused.problem.field, refused.problem.message
                ),
            }));
            unsupported.extend(elsewhere.iter().map(|message| Unsupported {
                rule: rule.name.clone(),
                gateway: None,
                extent: Extent::Part,
                message: message.clone(),
            }));
        }
    }
    unsupported
}

/// Reports missing GatewayClasses on policies, because no other controller does.
pub(super) fn report_unknown_classes(
    objects: &Objects,
    settings: &Settings,
    references: &GrantedReferences<'_>,
    reports: &mut Reports,
) {
    let nowhere = unknown_classes(objects, references);
    if nowhere.is_empty() {
        return;
    }
    let GatewayOwner::Of(controllers) = &settings.gateways else {
        return;
    };
    let controllers: Vec<&str> = controllers.iter().map(String::as_str).collect();
    for (name, policy) in &objects.session_policies {
        let Some(report) = reports.session_policies.get_mut(name) else {
            continue;
        };
        let targets = policy.spec.target_refs.iter();
        let targets = targets.filter(|target| Kind::find(&target.group, &target.kind) == Some(Kind::Service));
        let targets: BTreeSet<ObjectName> = targets
            .map(|target| ObjectName::new(&name.name.namespace, &target.name))
            .collect();
        let of_targets = nowhere.iter().filter(|(_, services)| !services.is_disjoint(&targets));
        for (gateway, _) in of_targets.take(MAX_ANCESTORS.saturating_sub(report.ancestors.len())) {
            let class = objects
                .gateways
                .get(*gateway)
                .map(|gateway| gateway.spec.gateway_class_name.as_str());
            let message = format!(
                "Gateway {gateway} spec.gatewayClassName: expected a GatewayClass of {}, found {}, which does not \
                 exist",
                controllers.join(" or "),
                class.unwrap_or_default()
            );
            let condition = Condition::fails("Accepted", "TargetNotFound", message);
            Arc::make_mut(report).ancestors.push(ancestor(gateway, vec![condition]));
            reports.without_status.remove(&name.object_ref());
        }
    }
}

fn unknown_classes<'a>(
    objects: &'a Objects,
    references: &GrantedReferences<'_>,
) -> BTreeMap<&'a ObjectName, BTreeSet<ObjectName>> {
    let is_unknown =
        |gateway: &Object<GatewaySpec>| !objects.gateway_classes.contains_key(&gateway.spec.gateway_class_name);
    let mut unknown: BTreeMap<&ObjectName, BTreeSet<ObjectName>> = objects
        .gateways
        .iter()
        .filter(|(_, gateway)| is_unknown(gateway))
        .map(|(name, _)| (name, BTreeSet::new()))
        .collect();
    if unknown.is_empty() {
        return unknown;
    }
    for route in objects.routes() {
        let gateways = route
            .parents
            .iter()
            .filter_map(|parent| gateway_name(&route.meta.namespace, parent));
        for gateway in gateways {
            if let Some(services) = unknown.get_mut(&gateway) {
                services.extend(route.services(references));
            }
        }
    }
    unknown
}

fn elsewhere(
    objects: &Objects,
    gateways: &BTreeMap<&ObjectName, GatewayState<'_>>,
    route: &RouteState<'_>,
) -> Vec<String> {
    let parents = objects.route(&route.object).map_or(&[][..], |route| route.parents);
    let place = |(index, parent): (usize, &ParentRef)| {
        let name = gateway_name(&route.meta.namespace, parent)?;
        let gateway = objects.gateways.get(&name).filter(|_| !gateways.contains_key(&name))?;
        let class = &gateway.spec.gateway_class_name;
        Some(format!(
            "spec.parentRefs[{index}]: expected Gateways of one control plane, found {name} of class {class}, where \
             Limpet adds no sessions"
        ))
    };
    parents.iter().enumerate().filter_map(place).collect()
}
