//! Reports on routes that Limpet serves.

use super::reports::{Condition, ParentReport, RouteReport, UNSUPPORTED_VALUE};
use super::routes::{Parent, RouteRule, RouteState};
use super::sessions::{RuleSession, notes_on};
use super::unknown_fields::no_effect;
use super::{Quarantined, RouteReplacement, StandIn};

/// `stand_in`: what is wrong with the route's sessions, if former ones replace them.
pub(super) fn route_report(
    route: &RouteState<'_>,
    sessions: &[RuleSession],
    stand_in: Option<&StandIn>,
) -> RouteReport {
    let parent = |parent: &Parent| ParentReport {
        parent_ref: parent.reference.clone(),
        conditions: conditions(route, parent, sessions, stand_in),
    };
    let quarantined = route.quarantined.map(|quarantined| quarantined.generation);
    let parents: Vec<ParentReport> = route.parents.iter().map(parent).collect();
    let is_accepted = |condition: &Condition| condition.kind == "Accepted" && condition.is_true();
    let is_any_accepted = parents.iter().any(|parent| parent.conditions.iter().any(is_accepted));
    RouteReport {
        observed_generation: quarantined.unwrap_or(route.meta.generation),
        ignored: if is_any_accepted {
            route.ignored.clone()
        } else {
            Vec::new()
        },
        parents,
    }
}

fn conditions(
    route: &RouteState<'_>,
    parent: &Parent,
    sessions: &[RuleSession],
    stand_in: Option<&StandIn>,
) -> Vec<Condition> {
    let mut conditions = Vec::new();
    if !parent.accepted.is_true() {
        conditions.push(parent.accepted.clone());
    } else if let Some(quarantined) = route.quarantined.filter(|of| of.serves != RouteReplacement::Former) {
        conditions.push(Condition::fails(
            "Accepted",
            UNSUPPORTED_VALUE,
            refused_by_envoy(quarantined, route),
        ));
    } else if route.is_refused() {
        let mut refusals: Vec<String> = route.rules.iter().flat_map(refusals).collect();
        // Problems of the whole route are said of each rule.
        refusals.dedup_by(|next, said| said.starts_with(next.as_str()));
        conditions.push(Condition::fails("Accepted", UNSUPPORTED_VALUE, refusals.join("; ")));
    } else {
        conditions.push(Condition::holds(
            "Accepted",
            parent.accepted.reason,
            no_effect(&message(route, parent, sessions), &route.ignored),
        ));
        conditions.extend(fallen_back(route, partially_invalid(route, sessions, stand_in)));
    }
    if !route.is_malformed {
        conditions.push(resolved(route));
    }
    // Each route has some, and they are kept.
    conditions.shrink_to_fit();
    conditions
}

fn message(route: &RouteState<'_>, parent: &Parent, sessions: &[RuleSession]) -> String {
    let rules = || route.rules.iter();
    let nowhere = !rules().any(RouteRule::serves_requests) && rules().any(|rule| !rule.unresolved.is_empty());
    let accepted = if nowhere && parent.is_served {
        "The route is attached, but no rule has a valid backend, so requests are answered with status 500"
    } else {
        &parent.accepted.message
    };
    let without = rules().filter(|rule| rule.has_no_backends()).map(|rule| {
        format!(
            "{}.backendRefs: there are none, so requests are answered with status 500",
            rule.field
        )
    });
    let notes = notes_on(sessions).map(str::to_owned);
    let empty = route.rules.is_empty().then(|| "spec.rules: there are none".to_owned());
    let parts = std::iter::once(accepted.to_owned())
        .chain(empty)
        .chain(without)
        .chain(notes);
    parts.collect::<Vec<_>>().join("; ")
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

/// `PartiallyInvalid` of a route whose former version is served, else as it is.
fn fallen_back(route: &RouteState<'_>, partially: Option<Condition>) -> Option<Condition> {
    let Some(quarantined) = route.quarantined else {
        return partially;
    };
    // The specification requires this prefix.
    let mut message = format!("Fall Back: {}", refused_by_envoy(quarantined, route));
    if let Some(partially) = partially {
        message = format!("{message}; {}", partially.message);
    }
    Some(Condition::holds("PartiallyInvalid", UNSUPPORTED_VALUE, message))
}

fn refused_by_envoy(quarantined: &Quarantined, route: &RouteState<'_>) -> String {
    let Quarantined {
        generation,
        words,
        serves,
    } = quarantined;
    let served = match serves {
        RouteReplacement::Former if route.meta.generation == *generation => {
            "the former version stays in use".to_owned()
        }
        RouteReplacement::Former => format!("generation {} stays in use", route.meta.generation),
        RouteReplacement::Status500 => "its requests are answered with status 500".to_owned(),
        RouteReplacement::Nothing => "it is not served".to_owned(),
    };
    format!("Envoy refuses generation {generation}, so {served}: {words}")
}

/// `PartiallyInvalid` if a rule, or a part of one, cannot be followed.
fn partially_invalid(
    route: &RouteState<'_>,
    sessions: &[RuleSession],
    stand_in: Option<&StandIn>,
) -> Option<Condition> {
    let (refused, others): (Vec<_>, Vec<_>) = route.rules.iter().partition(|rule| rule.is_refused());
    let dropped: Vec<String> = refused.into_iter().flat_map(refusals).collect();
    // The specification requires this prefix, and the one below.
    let dropped = (!dropped.is_empty()).then(|| format!("Dropped Rule: {}", dropped.join("; ")));
    let problems = sessions.iter().flat_map(|session| &session.problems);
    let sessions = problems.map(|problem| {
        format!(
            "{}: {} (served without session persistence)",
            problem.field, problem.message
        )
    });
    let kept = stand_in.map(|stand_in| format!("Fall Back: {stand_in}"));
    let parts = dropped
        .into_iter()
        .chain(kept)
        .chain(others.into_iter().flat_map(refusals))
        .chain(sessions);
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| Condition::holds("PartiallyInvalid", UNSUPPORTED_VALUE, parts.join("; ")))
}

fn refusals(rule: &RouteRule<'_>) -> Vec<String> {
    let refused = rule.refused.iter().map(|refused| {
        let message = format!("{}: {}", refused.problem.field, refused.problem.message);
        if refused.drops_rule && rule.otherwise.is_empty() {
            message
        } else if refused.drops_rule {
            format!("{message} (requests that may be meant and that no other rule takes are answered with status 500)")
        } else {
            format!("{message} (its requests are answered with status 500)")
        }
    });
    let unsupported = rule.unresolved.iter().filter(|bad| bad.reason == UNSUPPORTED_VALUE);
    let unsupported = unsupported.map(|bad| {
        format!(
            "{}: {} (its share of the requests is answered with status 500)",
            bad.field, bad.message
        )
    });
    refused.chain(unsupported).collect()
}
