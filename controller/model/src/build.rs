//! Builds the graph and the reports: classes, then Gateways, routes and sessions.

use super::backend_tls::{self, TlsPolicies};
use super::reports::{Condition, ParentReport, RouteReport, UNSUPPORTED_VALUE};
use super::routes::{Parent, RouteState};
use super::sessions::{RuleFacts, RuleSession, sessions};
use super::unread::no_effect;
use super::{Graph, Objects, Reports, Settings, assemble, foreign, gateways, references, routes};
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
        backend_tls_policies: backend_tls::reports(objects, &tls, &routes, &references),
        ..Reports::default()
    };
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

fn route_report(route: &RouteState<'_>, sessions: &[RuleSession]) -> RouteReport {
    let resolved = resolved(route);
    let (dropped, partly) = invalid(route, sessions);
    let parent = |parent: &Parent| {
        let accepted = match &dropped {
            Some(condition) if parent.accepted.is_true() => condition.clone(),
            _ if parent.accepted.is_true() => Condition {
                message: no_effect(&noted(&parent.accepted.message, sessions), &route.ignored),
                ..parent.accepted.clone()
            },
            _ => parent.accepted.clone(),
        };
        let mut conditions = vec![accepted];
        conditions.extend(partly.clone());
        if !route.is_malformed {
            conditions.push(resolved.clone());
        }
        ParentReport {
            parent_ref: parent.reference.clone(),
            conditions,
        }
    };
    RouteReport {
        observed_generation: route.meta.generation,
        parents: route.parents.iter().map(parent).collect(),
    }
}

/// `message` and the notes on the sessions of the rules.
fn noted(message: &str, sessions: &[RuleSession]) -> String {
    let notes = sessions.iter().flat_map(|session| &session.notes).map(String::as_str);
    std::iter::once(message).chain(notes).collect::<Vec<_>>().join("; ")
}

/// `ResolvedRefs`, with the first reason and all messages.
fn resolved(route: &RouteState<'_>) -> Condition {
    let all = route.rules.iter().flat_map(|rule| &rule.unresolved);
    let bad: Vec<_> = all.filter(|bad| bad.reason != UNSUPPORTED_VALUE).collect();
    match bad.first() {
        None => Condition::holds("ResolvedRefs", "ResolvedRefs", "All references are resolved"),
        Some(first) => {
            let messages: Vec<String> = bad
                .iter()
                .map(|bad| format!("{}: {}", bad.field, bad.message))
                .collect();
            Condition::fails("ResolvedRefs", first.reason, messages.join("; "))
        }
    }
}

/// `Accepted: False` if no rule is left, and `PartiallyInvalid` if a part of a rule cannot be followed.
fn invalid(route: &RouteState<'_>, sessions: &[RuleSession]) -> (Option<Condition>, Option<Condition>) {
    let mut dropped = Vec::new();
    let mut changed = Vec::new();
    for rule in &route.rules {
        for refused in &rule.refused {
            let message = format!("{}: {}", refused.problem.field, refused.problem.message);
            if refused.drops_rule {
                dropped.push(message);
            } else {
                changed.push(format!("{message} (its requests are answered with status 500)"));
            }
        }
    }
    let unresolved = route.rules.iter().flat_map(|rule| &rule.unresolved);
    for bad in unresolved.filter(|bad| bad.reason == UNSUPPORTED_VALUE) {
        changed.push(format!(
            "{}: {} (its share of the requests is answered with status 500)",
            bad.field, bad.message
        ));
    }
    for problem in sessions.iter().flat_map(|session| &session.problems) {
        changed.push(format!(
            "{}: {} (served without session persistence)",
            problem.field, problem.message
        ));
    }
    if !dropped.is_empty() && route.rules.iter().all(|rule| rule.matches.is_empty()) {
        return (
            Some(Condition::fails("Accepted", UNSUPPORTED_VALUE, dropped.join("; "))),
            None,
        );
    }
    // The specification requires this prefix when rules are dropped.
    let mut message = if dropped.is_empty() {
        String::new()
    } else {
        format!("Dropped Rule: {}", dropped.join("; "))
    };
    if !changed.is_empty() {
        message = [message, changed.join("; ")]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
    }
    let partly = (!message.is_empty()).then(|| Condition::holds("PartiallyInvalid", UNSUPPORTED_VALUE, message));
    (None, partly)
}
