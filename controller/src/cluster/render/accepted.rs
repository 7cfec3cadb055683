//! Whether every object was accepted.

use limpet_model::reports::{Condition, ConditionStatus, IngressRouteStatus, Reports};

/// Whether no condition of any object says that a part of it is not followed.
pub(super) fn all(reports: &Reports) -> bool {
    let Reports {
        gateway_classes,
        gateways,
        http_routes,
        grpc_routes,
        session_policies,
        backends,
        backend_tls_policies,
        ingress_routes,
        without_status,
    } = reports;
    let classes = gateway_classes.values().flat_map(|report| &report.conditions);
    let of_gateways = gateways.values().flat_map(|report| {
        let listeners = report.listeners.iter().flat_map(|listener| &listener.conditions);
        report.conditions.iter().chain(listeners)
    });
    let routes = http_routes.values().chain(grpc_routes.values());
    let of_routes = routes
        .flat_map(|report| &report.parents)
        .flat_map(|parent| &parent.conditions);
    let policies = session_policies.values().chain(backends.values());
    let policies = policies.chain(backend_tls_policies.values());
    let of_policies = policies
        .flat_map(|report| &report.ancestors)
        .flat_map(|ancestor| &ancestor.conditions);
    let all = classes.chain(of_gateways).chain(of_routes).chain(of_policies);
    let mut routes = ingress_routes.values();
    all.chain(without_status.values().map(|condition| &**condition))
        .all(is_good)
        && routes.all(|report| report.status == IngressRouteStatus::Valid && report.notes.is_empty())
}

/// Two kinds are bad if they are true, all others if they are false.
fn is_good(condition: &Condition) -> bool {
    let bad = match condition.kind {
        "Conflicted" | "PartiallyInvalid" => ConditionStatus::True,
        _ => ConditionStatus::False,
    };
    // Only a cluster assigns addresses.
    condition.status != bad || condition.reason == "AddressNotAssigned"
}
