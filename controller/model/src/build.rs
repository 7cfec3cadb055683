//! Builds the graph and the reports: classes, then Gateways, routes and sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::backend_tls::TlsPolicies;
use super::contour::Contour;
use super::explained;
use super::explanation::RuleExplanation;
use super::gateways::GatewayState;
use super::gone_classes;
use super::graph::Session;
use super::maps::shared;
use super::memory::Memory;
use super::route_report::route_report;
use super::routes::RouteState;
use super::sessions::{
    BuildContext, ExplainedRule, RuleFacts, RuleSession, Sessions, SharedCookies, judged_services, sessions,
};
use super::stand_in::{self, InvalidSessions, SessionVerdicts};
use super::{
    Envoys, Graph, Map, Objects, Reports, Settings, assemble, backend_tls_status, foreign, gateways, references,
    routes, without_status,
};
use limpet_api::{Kind, ObjectName, ObjectRef};

/// The most builds until the memory leads to itself. More than three were never needed.
pub(super) const MOST_BUILDS: usize = 8;

/// Builds the graph of `objects`, and a report on each object.
#[must_use]
pub fn build(objects: &Objects, settings: &Settings) -> (Graph, Reports) {
    let built = build_within(objects, settings, BuildContext::default());
    (built.graph, built.reports)
}

/// As [`build`], and explains the sessions of one route's rules, if it attaches to any of our Gateways.
#[must_use]
pub fn explain(objects: &Objects, settings: &Settings, route: &ObjectRef) -> (Graph, Reports, Vec<RuleExplanation>) {
    let context = BuildContext {
        explained: Some(route),
        ..BuildContext::default()
    };
    let built = build_within(objects, settings, context);
    (built.graph, built.reports, built.explained)
}

/// As [`build`]. The next build and other replicas do not know what is forgotten, so the graph is built without it.
pub(super) fn build_within(objects: &Objects, settings: &Settings, context: BuildContext<'_>) -> BuildOutput {
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

pub(super) struct BuildOutput {
    pub(super) graph: Graph,
    pub(super) reports: Reports,
    explained: Vec<RuleExplanation>,
    pub(super) in_common: SharedCookies,
    /// Objects whose sessions cannot be followed.
    wrong: BTreeMap<ObjectRef, InvalidSessions>,
    forgot: bool,
}

/// Builds with former sessions, where the present ones cannot be followed, and not again where something is forgotten.
pub(super) fn build_with_stand_ins(objects: &Objects, settings: &Settings, context: BuildContext<'_>) -> BuildOutput {
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

fn build_once(objects: &Objects, settings: &Settings, context: BuildContext<'_>) -> BuildOutput {
    // Another control plane serves the policies itself.
    let tls = if settings.serves() {
        TlsPolicies::read(objects)
    } else {
        TlsPolicies::default()
    };
    let references = references::References::for_serving(objects, &tls, settings.serves());
    let (gateway_classes, accepted) = gateways::classes(objects, settings);
    let mut gateways = gateways::gateways(objects, &accepted, &references, settings);
    let routes = routes::routes(objects, &mut gateways, &references, settings);
    let mut contour = Contour::build(objects, &references, settings);

    let (decided, mut sessions) =
        DecidedRules::decide(objects, settings, &gateways, &routes, contour.as_ref(), context);
    let mut graph = assemble::assemble(objects, &gateways, &routes, &decided.of_routes, &sessions);
    let mut judged = std::mem::take(&mut sessions.verdicts);
    judged.extend(judged_services(objects));
    if let Some(contour) = &mut contour {
        judged.append(&mut contour.verdicts);
        contour.add_to(&mut graph, &decided.of_contour, &sessions, objects);
    }
    graph.memory = decided.memory(objects, settings, &graph, &judged);
    graph.envoys = envoys(&gateways);
    let forgot = graph.memory.fit(context.limits.most_bytes);

    let explained = std::mem::take(&mut sessions.explained);
    let explained = decided.explained(context, contour.as_ref(), explained, &sessions);
    let (backend_tls_policies, tls_without_status) = backend_tls_status::reports(objects, &tls, &routes, &references);
    sessions.without_status.extend(tls_without_status);
    without_status::add(objects, settings, &references.granted, &mut sessions.without_status);
    let of_gateways = gateways.iter().filter(|_| settings.serves());
    let of_gateways = of_gateways.map(|(name, gateway)| ((*name).clone(), gateway.report()));
    let mut reports = Reports {
        gateway_classes: shared(gateway_classes),
        gateways: shared(of_gateways),
        session_policies: shared(sessions.session_policies),
        backends: shared(sessions.backends),
        backend_tls_policies: shared(backend_tls_policies),
        ingress_routes: shared(contour.map(|contour| contour.reports).unwrap_or_default()),
        without_status: shared(sessions.without_status),
        ..Reports::default()
    };
    decided.report(objects, settings, &mut reports);
    if !settings.serves() {
        reports.add_unsupported(&graph, &foreign::unsupported(objects, &gateways, &routes));
        foreign::report_unknown_classes(objects, settings, &references.granted, &mut reports);
    }
    BuildOutput {
        graph,
        reports,
        explained,
        in_common: sessions.in_common,
        wrong: stand_in::invalid_sessions(judged),
        forgot,
    }
}

fn envoys(gateways: &BTreeMap<&ObjectName, GatewayState<'_>>) -> Map<ObjectName, Envoys> {
    let known = gateways
        .iter()
        .filter(|(_, gateway)| gateway.envoys != Envoys::default());
    shared(known.map(|(name, gateway)| ((*name).clone(), gateway.envoys.clone())))
}

struct DecidedRules<'a> {
    routes: &'a [RouteState<'a>],
    of_routes: Vec<Vec<RuleSession>>,
    of_contour: Vec<RuleSession>,
}

impl<'a> DecidedRules<'a> {
    /// The `Sessions` are without the rules' sessions.
    fn decide(
        objects: &Objects,
        settings: &Settings,
        gateways: &BTreeMap<&ObjectName, GatewayState<'_>>,
        routes: &'a [RouteState<'a>],
        contour: Option<&Contour<'_>>,
        context: BuildContext<'_>,
    ) -> (Self, Sessions) {
        let of_routes = routes.iter().map(RouteState::facts);
        let facts: Vec<Vec<RuleFacts<'_>>> = of_routes.chain(contour.map(Contour::facts)).collect();
        let serving = gateways.iter().filter(|(_, gateway)| gateway.serves());
        let serving: BTreeSet<&ObjectName> = serving.map(|(name, _)| *name).collect();
        let mut sessions = sessions(objects, settings, &facts.concat(), &serving, context);
        let mut of_rules = std::mem::take(&mut sessions.rules).into_iter();
        let of_routes = facts.iter().map(|facts| of_rules.by_ref().take(facts.len()).collect());
        let mut of_routes: Vec<Vec<RuleSession>> = of_routes.collect();
        let of_contour = of_routes.split_off(routes.len()).concat();
        for (route, sessions) in routes.iter().zip(&mut of_routes) {
            note_unnamed(route, sessions);
        }
        let decided = Self {
            routes,
            of_routes,
            of_contour,
        };
        (decided, sessions)
    }

    fn of_routes(&self) -> impl Iterator<Item = (&RouteState<'a>, &[RuleSession])> {
        self.routes.iter().zip(self.of_routes.iter().map(Vec::as_slice))
    }

    /// `graph`: with all rules.
    fn memory(&self, objects: &Objects, settings: &Settings, graph: &Graph, judged: &SessionVerdicts) -> Memory {
        let with_sessions: BTreeSet<&ObjectRef> = graph.rules.values().map(|rule| &rule.route).collect();
        // Also those with sessions that no policy or rule asks for, by `sessionAffinity`: these have no name.
        let has_any = |sessions: &[RuleSession]| sessions.iter().any(|rule| rule.session != Session::None);
        let has_sessions = self.of_routes().filter(|(_, sessions)| has_any(sessions));
        let has_sessions: BTreeSet<&ObjectRef> = has_sessions.map(|(route, _)| &route.object).collect();
        Memory {
            rule_names: routes::rule_names(objects, self.routes, |route| with_sessions.contains(route)),
            sessions: stand_in::remembered(objects, judged, |route| has_sessions.contains(route)),
            classes: gone_classes::remembered(objects, settings),
        }
    }

    fn explained(
        &self,
        context: BuildContext<'_>,
        contour: Option<&Contour<'_>>,
        explained: Vec<ExplainedRule>,
        all: &Sessions,
    ) -> Vec<RuleExplanation> {
        let Some(object) = context.explained else {
            return Vec::new();
        };
        match (self.of_routes().find(|(route, _)| route.object == *object), contour) {
            (Some((route, of_rules)), _) => explained::of_route(route, of_rules, explained, all),
            (None, Some(contour)) => contour.explained(object, &self.of_contour, explained, all),
            (None, None) => Vec::new(),
        }
    }

    fn report(&self, objects: &Objects, settings: &Settings, reports: &mut Reports) {
        for (route, sessions) in self.of_routes() {
            let of_kind = if route.object.kind == Kind::HttpRoute {
                &mut reports.http_routes
            } else {
                &mut reports.grpc_routes
            };
            let report = if settings.serves() {
                route_report(route, sessions, objects.stand_ins.get(&route.object))
            } else {
                foreign::route_report(route, sessions, objects.stand_ins.get(&route.object))
            };
            of_kind.insert(route.object.name.clone(), Arc::new(report));
        }
    }
}

/// Warns that rules without a name may lose their sessions, unless there is only one, and which names would keep them.
fn note_unnamed(route: &RouteState<'_>, sessions: &mut [RuleSession]) {
    let rules = route.rules.iter().zip(&*sessions);
    let unnamed = rules.filter(|(rule, session)| rule.own_name.is_none() && session.requested_by.is_some());
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
