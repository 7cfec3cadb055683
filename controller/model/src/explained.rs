//! Why the rules of a route have their sessions, put together from what other modules decided.

use super::assemble::own_session;
use super::explanation::{DestinationExplanation, RuleExplanation, SessionExplanation};
use super::graph::{Destination, Hostname, Session, SessionUse, Target};
use super::references::ResolvedBackend;
use super::routes::{RouteRule, RouteState, RuleAction};
use super::sessions::{ExplainedRule, RuleSession, Sessions};

/// `sessions` and `explained` have an entry for each rule; none if the route attaches nowhere.
pub(super) fn of_route(
    route: &RouteState<'_>,
    sessions: &[RuleSession],
    explained: Vec<ExplainedRule>,
    all: &Sessions,
) -> Vec<RuleExplanation> {
    let rules = route.rules.iter().zip(sessions).zip(explained);
    rules
        .map(|((rule, decided), explained)| of_rule(route, rule, decided, explained, all))
        .collect()
}

fn of_rule(
    route: &RouteState<'_>,
    rule: &RouteRule<'_>,
    decided: &RuleSession,
    explained: ExplainedRule,
    all: &Sessions,
) -> RuleExplanation {
    let hosts = route.attachments.iter().flat_map(|attachment| &attachment.hostnames);
    let mut hosts: Vec<&Hostname> = hosts.collect();
    hosts.sort();
    hosts.dedup();
    let refused = rule.refused.iter().map(|refused| &refused.problem);
    let refused = refused.map(ToString::to_string);
    let destinations = match &rule.action {
        RuleAction::Forward(forward) => forward.destinations.as_slice(),
        RuleAction::Redirect(_) | RuleAction::Respond { .. } => &[],
    };
    let destinations = destinations.iter().map(|destination| match &destination.target {
        Target::Invalid { reason } => invalid(destination, reason),
        Target::Cluster(name) => match rule.backends.iter().find(|backend| backend.cluster == *name) {
            Some(backend) => {
                let own = match &decided.session {
                    Session::Destinations => own_session(backend, all),
                    Session::EachDestination(used) => Some(used.at(&backend.cluster.base_text())),
                    Session::None | Session::Rule(_) => None,
                };
                to(destination.weight, backend, own, &explained, all)
            }
            None => invalid(destination, "unknown"),
        },
    });
    RuleExplanation {
        destinations: destinations.collect(),
        route: route.object.clone(),
        field: rule.field.clone(),
        name: rule.own_name.map(str::to_owned),
        scope: match &decided.session {
            Session::Rule(used) | Session::EachDestination(used) => used.scope.clone(),
            Session::None | Session::Destinations => rule.name.0.clone(),
        },
        gateways: route.gateways().into_iter().collect(),
        hosts: hosts.into_iter().map(ToString::to_string).collect(),
        contenders: explained.contenders,
        problems: explained.problems.into_iter().chain(refused).collect(),
        notes: explained.notes,
        session: explained
            .session
            .filter(|_| !matches!(decided.session, Session::EachDestination(_))),
        by_path: explained.by_path,
    }
}

fn invalid(destination: &Destination, reason: &str) -> DestinationExplanation {
    DestinationExplanation {
        weight: destination.weight,
        invalid: Some(reason.to_owned()),
        ..DestinationExplanation::default()
    }
}

pub(super) fn to(
    weight: u32,
    backend: &ResolvedBackend,
    own: Option<SessionUse>,
    explained: &ExplainedRule,
    all: &Sessions,
) -> DestinationExplanation {
    let of_rule = explained.session.as_ref().map(|session| &session.fields);
    let session = own.and_then(|used| {
        Some(SessionExplanation {
            config: all.policies.get(&used.policy)?.clone(),
            fields: explained
                .of_backends
                .get(&backend.object)
                .or(of_rule)
                .cloned()
                .unwrap_or_default(),
            policy: used.policy,
            scope: used.scope,
        })
    });
    DestinationExplanation {
        weight,
        hash: Some(backend.cluster.destination().to_string()),
        cluster: Some(backend.cluster.clone()),
        service: Some(backend.spec.service.clone()),
        port: Some(backend.spec.port),
        port_name: backend.spec.port_name.clone(),
        invalid: None,
        never_begins: backend.spec.never_begins,
        session,
    }
}
