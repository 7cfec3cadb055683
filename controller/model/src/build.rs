//! Builds the graph and the reports: classes, then Gateways, routes and sessions.

use super::backend_tls::TlsPolicies;
use super::route_report::route_report;
use super::routes::RouteState;
use super::sessions::{RuleFacts, RuleSession, sessions};
use super::{
    Graph, Objects, Reports, Settings, assemble, backend_tls_status, foreign, gateways, references, routes,
    without_status,
};
use limpet_api::Kind;

/// The graph that `objects` describe, and a report on each object.
#[must_use]
pub fn build(objects: &Objects, settings: &Settings) -> (Graph, Reports) {
    // Another control plane serves the policies itself.
    let tls = if settings.judges() {
        TlsPolicies::read(objects)
    } else {
        TlsPolicies::default()
    };
    let references = references::References::with_tls(objects, &tls);
    let (gateway_classes, accepted) = gateways::classes(objects, settings);
    let mut gateways = gateways::gateways(objects, &accepted, &references, settings);
    let routes = routes::routes(objects, &mut gateways, &references, settings);

    let facts: Vec<Vec<RuleFacts<'_>>> = routes.iter().map(RouteState::facts).collect();
    let rules_of_routes: Vec<usize> = facts.iter().map(Vec::len).collect();
    let mut sessions = sessions(objects, settings, &facts.concat());
    let mut of_rules = std::mem::take(&mut sessions.rules).into_iter();
    let of_routes = rules_of_routes
        .into_iter()
        .map(|rules| of_rules.by_ref().take(rules).collect());
    let of_routes: Vec<Vec<RuleSession>> = of_routes.collect();

    let graph = assemble::assemble(objects, &gateways, &routes, &of_routes, &sessions);
    let mut reports = Reports {
        gateway_classes,
        gateways: gateways
            .iter()
            .filter(|_| settings.judges())
            .map(|(name, gateway)| ((*name).clone(), gateway.report()))
            .collect(),
        session_policies: sessions.session_policies,
        backends: sessions.backends,
        backend_tls_policies: backend_tls_status::reports(objects, &tls, &routes, &references),
        without_status: sessions.without_status,
        ..Reports::default()
    };
    without_status::add(objects, settings, &mut reports.without_status);
    for (route, sessions) in routes.iter().zip(&of_routes) {
        let of_kind = if route.object.kind == Kind::HttpRoute {
            &mut reports.http_routes
        } else {
            &mut reports.grpc_routes
        };
        let report = if settings.judges() {
            route_report(route, sessions)
        } else {
            foreign::route_report(route, sessions)
        };
        of_kind.insert(route.object.name.clone(), report);
    }
    if !settings.judges() {
        reports.add_unsupported(&graph, &foreign::unsupported(objects, &gateways, &routes));
        foreign::report_unknown_classes(objects, settings, &mut reports);
    }
    (graph, reports)
}
