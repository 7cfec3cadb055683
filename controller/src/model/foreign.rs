//! What is said of routes that another control plane serves: of their sessions alone.

use std::collections::BTreeMap;

use crate::api::{ObjectName, ParentRef};

use super::gateways::GatewayState;
use super::reports::{Condition, ParentReport, RouteReport};
use super::routes::{RouteState, gateway_name};
use super::sessions::RuleSession;
use super::{Loss, Lost, Objects};

/// What became of the sessions that a route asks for. Whether it is served is not ours to say.
pub(super) fn route_report(route: &RouteState<'_>, sessions: &[RuleSession]) -> RouteReport {
    let notes: Vec<&str> = sessions
        .iter()
        .flat_map(|session| &session.notes)
        .map(String::as_str)
        .collect();
    let message = ["Its sessions are taken in"]
        .into_iter()
        .chain(notes)
        .collect::<Vec<_>>();
    let problems = sessions.iter().flat_map(|session| &session.problems);
    let problems: Vec<String> = problems
        .map(|problem| format!("{}: {} (there are no sessions)", problem.field, problem.message))
        .collect();
    let mut conditions = vec![Condition::holds("Accepted", "Accepted", message.join("; "))];
    if !problems.is_empty() {
        conditions.push(Condition::holds(
            "PartiallyInvalid",
            "UnsupportedValue",
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
    }
}

/// What rules do not get: those whose matches can not be read, and those that are attached to Gateways of others as well.
pub(super) fn losses(
    objects: &Objects,
    gateways: &BTreeMap<&ObjectName, GatewayState<'_>>,
    routes: &[RouteState<'_>],
) -> Vec<Loss> {
    let mut losses = Vec::new();
    for route in routes {
        let elsewhere = elsewhere(objects, gateways, route);
        for rule in &route.rules {
            let refused = rule.refused.iter().filter(|refused| refused.drops_rule);
            // Whoever serves it may know what it means, but which sessions are its own is not known here.
            losses.extend(refused.map(|refused| Loss {
                rule: rule.name.clone(),
                gateway: None,
                lost: Lost::All,
                message: format!(
                    "{}: {} (there are no sessions)",
                    refused.problem.field, refused.problem.message
                ),
            }));
            losses.extend(elsewhere.iter().map(|message| Loss {
                rule: rule.name.clone(),
                gateway: None,
                lost: Lost::Part,
                message: message.clone(),
            }));
        }
    }
    losses
}

/// The route's parents of classes that are not read, if the Gateway is there.
fn elsewhere(
    objects: &Objects,
    gateways: &BTreeMap<&ObjectName, GatewayState<'_>>,
    route: &RouteState<'_>,
) -> Vec<String> {
    let parents: &[ParentRef] = match route.object.kind {
        "HTTPRoute" => objects
            .http_routes
            .get(&route.object.name)
            .map(|route| &*route.spec.parent_refs),
        _ => objects
            .grpc_routes
            .get(&route.object.name)
            .map(|route| &*route.spec.parent_refs),
    }
    .unwrap_or_default();
    let place = |(index, parent): (usize, &ParentRef)| {
        let name = gateway_name(&route.meta.namespace, parent)?;
        let gateway = objects.gateways.get(&name).filter(|_| !gateways.contains_key(&name))?;
        let class = &gateway.spec.gateway_class_name;
        Some(format!(
            "spec.parentRefs[{index}]: expected Gateways of one control plane, found {name} of class {class}, which has no sessions from here"
        ))
    };
    parents.iter().enumerate().filter_map(place).collect()
}
