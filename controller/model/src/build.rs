//! Builds the graph and the reports: classes, then Gateways, routes and sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::backend_tls::TlsPolicies;
use super::contour::Contour;
use super::explained;
use super::explanation::RuleExplanation;
use super::gone_classes;
use super::graph::Session;
use super::maps::shared;
use super::memory::Memory;
use super::route_report::route_report;
use super::routes::RouteState;
use super::sessions::Context;
use super::sessions::{InCommon, RuleFacts, RuleSession, judged_services, sessions};
use super::stand_in::{self, Wrong};
use super::{
    Envoys, Graph, Objects, Reports, Settings, assemble, backend_tls_status, foreign, gateways, references, routes,
    without_status,
};
use limpet_api::{Kind, ObjectName, ObjectRef};

/// How often to build at most until the memory leads to itself. More than three times were never needed.
pub(super) const MOST_BUILDS: usize = 8;

/// The graph that `objects` describe, and a report on each object.
#[must_use]
pub fn build(objects: &Objects, settings: &Settings) -> (Graph, Reports) {
    let built = build_within(objects, settings, Context::default());
    (built.graph, built.reports)
}

/// The same, and why the rules of one route have the sessions that they have. There are none of a route that attaches
/// to none of our Gateways.
#[must_use]
pub fn explain(objects: &Objects, settings: &Settings, route: &ObjectRef) -> (Graph, Reports, Vec<RuleExplanation>) {
    let context = Context {
        explained: Some(route),
        ..Context::default()
    };
    let built = build_within(objects, settings, context);
    (built.graph, built.reports, built.explained)
}

/// As [`build`]. What is forgotten because there is no room for it is not known to the
/// next build, nor to another replica. So the graph is built without it.
pub(super) fn build_within(objects: &Objects, settings: &Settings, context: Context<'_>) -> Built {
    let mut built = build_with_stand_ins(objects, settings, context);
    let mut again: Option<Objects> = None;
    for _ in 1..MOST_BUILDS {
        let known = again.as_ref().unwrap_or(objects);
        if !built.forgot || built.graph.memory == known.memory {
            break;
        }
        let next = again.get_or_insert_with(|| objects.clone());
        next.memory.clone_from(&built.graph.memory);
        built = build_with_stand_ins(next, settings, context);
    }
    built
}

/// What a build makes.
pub(super) struct Built {
    pub(super) graph: Graph,
    pub(super) reports: Reports,
    explained: Vec<RuleExplanation>,
    /// What its sessions have in common with others.
    pub(super) in_common: InCommon,
    /// The objects that say of their sessions what cannot be followed.
    wrong: BTreeMap<ObjectRef, Wrong>,
    /// Whether something was forgotten because there is no room for it.
    forgot: bool,
}

/// Builds with what objects said of their sessions before, where these cannot be followed. Whatever is forgotten, it is
/// not built again.
pub(super) fn build_with_stand_ins(objects: &Objects, settings: &Settings, context: Context<'_>) -> Built {
    let mut built = build_once(objects, settings, context);
    while let Some(objects) = objects.with_stand_ins(&built.wrong) {
        let again = build_once(&objects, settings, context);
        let all = objects.stand_ins.keys();
        let in_vain: Vec<&ObjectRef> = all.filter(|object| again.wrong.contains_key(object)).collect();
        if in_vain.is_empty() {
            return again;
        }
        for object in in_vain {
            built.wrong.remove(object);
        }
    }
    built
}

/// Builds once.
fn build_once(objects: &Objects, settings: &Settings, context: Context<'_>) -> Built {
    let explained_route = context.explained;
    // Another control plane serves the policies itself.
    let tls = if settings.judges() {
        TlsPolicies::read(objects)
    } else {
        TlsPolicies::default()
    };
    let references = references::References::to_serve(objects, &tls, settings.judges());
    let (gateway_classes, accepted) = gateways::classes(objects, settings);
    let mut gateways = gateways::gateways(objects, &accepted, &references, settings);
    let routes = routes::routes(objects, &mut gateways, &references, settings);

    let mut contour = Contour::of(objects, &references, settings);

    let of_routes = routes.iter().map(RouteState::facts);
    let facts: Vec<Vec<RuleFacts<'_>>> = of_routes.chain(contour.iter().map(Contour::facts)).collect();
    let rules_of_routes: Vec<usize> = facts.iter().map(Vec::len).collect();
    let serving = gateways.iter().filter(|(_, gateway)| gateway.serves());
    let serving: BTreeSet<&ObjectName> = serving.map(|(name, _)| *name).collect();
    let mut sessions = sessions(objects, settings, &facts.concat(), &serving, context);
    let mut of_rules = std::mem::take(&mut sessions.rules).into_iter();
    let of_routes = rules_of_routes
        .into_iter()
        .map(|rules| of_rules.by_ref().take(rules).collect());
    let mut of_routes: Vec<Vec<RuleSession>> = of_routes.collect();
    let of_contour = of_routes.split_off(routes.len()).concat();
    for (route, sessions) in routes.iter().zip(&mut of_routes) {
        note_unnamed(route, sessions);
    }

    // Also those with sessions that no policy or rule asks for, by `sessionAffinity`: these have no name.
    let has_any = |sessions: &[RuleSession]| sessions.iter().any(|rule| rule.session != Session::None);
    let has_sessions = routes.iter().zip(&of_routes).filter(|(_, sessions)| has_any(sessions));
    let has_sessions: BTreeSet<&ObjectRef> = has_sessions.map(|(route, _)| &route.object).collect();
    let mut graph = assemble::assemble(objects, &gateways, &routes, &of_routes, &sessions);
    let explained = std::mem::take(&mut sessions.explained);
    let mut explained_state = routes.iter().zip(&of_routes);
    let explained_state = explained_state.find(|(route, _)| Some(&route.object) == explained_route);
    let explained = match (explained_state, &contour, explained_route) {
        (Some((route, of_rules)), ..) => explained::of_route(route, of_rules, explained, &sessions),
        (None, Some(contour), Some(object)) => contour.explained(object, &of_contour, explained, &sessions),
        _ => Vec::new(),
    };
    let mut ingress_routes = BTreeMap::new();
    let mut judged = std::mem::take(&mut sessions.judged);
    judged.extend(judged_services(objects));
    if let Some(contour) = &mut contour {
        ingress_routes = std::mem::take(&mut contour.reports);
        judged.append(&mut contour.judged);
        contour.add_to(&mut graph, &of_contour, &sessions, objects);
    }
    let with_sessions: BTreeSet<&ObjectRef> = graph.rules.values().map(|rule| &rule.route).collect();
    graph.memory = Memory {
        rule_names: routes::rule_names(objects, &routes, |route| with_sessions.contains(route)),
        sessions: stand_in::remembered(objects, &judged, |route| has_sessions.contains(route)),
        classes: gone_classes::remembered(objects, settings),
    };
    graph.envoys = gateways
        .iter()
        .filter(|(_, gateway)| gateway.envoys != Envoys::default())
        .map(|(name, gateway)| ((*name).clone(), Arc::new(gateway.envoys.clone())))
        .collect();
    let forgot = graph.memory.fit(context.limits.most_bytes);
    let (backend_tls_policies, tls_without_status) = backend_tls_status::reports(objects, &tls, &routes, &references);
    sessions.without_status.extend(tls_without_status);
    without_status::add(objects, settings, &mut sessions.without_status);
    let of_gateways = gateways.iter().filter(|_| settings.judges());
    let of_gateways = of_gateways.map(|(name, gateway)| ((*name).clone(), gateway.report()));
    let mut reports = Reports {
        gateway_classes: shared(gateway_classes),
        gateways: shared(of_gateways),
        session_policies: shared(sessions.session_policies),
        backends: shared(sessions.backends),
        backend_tls_policies: shared(backend_tls_policies),
        ingress_routes: shared(ingress_routes),
        without_status: shared(sessions.without_status),
        ..Reports::default()
    };
    for (route, sessions) in routes.iter().zip(&of_routes) {
        let of_kind = if route.object.kind == Kind::HttpRoute {
            &mut reports.http_routes
        } else {
            &mut reports.grpc_routes
        };
        let report = if settings.judges() {
            route_report(route, sessions, objects.stand_ins.get(&route.object))
        } else {
            foreign::route_report(route, sessions, objects.stand_ins.get(&route.object))
        };
        of_kind.insert(route.object.name.clone(), Arc::new(report));
    }
    if !settings.judges() {
        reports.add_unsupported(&graph, &foreign::unsupported(objects, &gateways, &routes));
        foreign::report_unknown_classes(objects, settings, &mut reports);
    }
    Built {
        graph,
        reports,
        explained,
        in_common: sessions.in_common,
        wrong: stand_in::all_wrong(judged),
        forgot,
    }
}

/// Says beforehand that rules without a name may lose their sessions, and which names would keep them. One such rule is
/// always known again.
fn note_unnamed(route: &RouteState<'_>, sessions: &mut [RuleSession]) {
    let rules = route.rules.iter().zip(&*sessions);
    let unnamed = rules.filter(|(rule, session)| rule.own_name.is_none() && session.asked_by.is_some());
    let unnamed: Vec<String> = unnamed
        .map(|(rule, _)| format!("{} {}", rule.field, rule.name.last()))
        .collect();
    if let (true, Some(session)) = (unnamed.len() > 1, sessions.first_mut()) {
        session.notes.push(format!(
            "rules have no name, and their sessions stay if one of them changes its matches, but may move if several \
             rules change at once: to prevent that, name {}",
            unnamed.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests;
