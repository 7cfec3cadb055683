//! The rules of both kinds of routes, before and after reading.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::RouteReplacement;
use crate::field_problem::FieldProblem;
use crate::graph::{Cors, Destination, Forward, HeaderChanges, Match, Redirect, Retry, RuleName, Target};
use crate::references::ResolvedBackend;
use crate::reports::UNSUPPORTED_VALUE;
use crate::sessions::{Sessionless, TwinReferences};
use limpet_api::{BackendRef, DecodeError, Kind, Meta, ObjectName, ParentRef, RouteFilter, SessionPersistence};

#[derive(Debug)]
pub(crate) struct RouteRule<'a> {
    /// Its path, like `spec.rules[2]`.
    pub(crate) field: String,
    pub(crate) name: RuleName,
    /// Its name in the route.
    pub(crate) own_name: Option<&'a str>,
    /// Empty if the rule was dropped; `refused` says why.
    pub(crate) matches: Vec<Match>,
    /// Answered with status 500 if no rule takes it, because the matches cannot be read: what they match, and more.
    pub(crate) otherwise: Vec<Match>,
    pub(crate) action: RuleAction,
    pub(crate) request_headers: HeaderChanges,
    pub(crate) response_headers: HeaderChanges,
    pub(crate) inline: Option<&'a SessionPersistence>,
    pub(crate) cors: Option<Cors>,
    pub(crate) backends: Vec<ResolvedBackend>,
    /// Two backends that sessions could not tell apart.
    pub(crate) twins: Option<TwinReferences>,
    /// The valid backends of its mirrors.
    pub(crate) mirrors: Vec<ResolvedBackend>,
    pub(crate) unresolved: Vec<BackendRefError>,
    pub(crate) refused_backends: BTreeMap<ObjectName, String>,
    pub(crate) refused: Vec<RefusedRule>,
}

impl RouteRule<'_> {
    pub(crate) fn serves_requests(&self) -> bool {
        let takes =
            |destination: &Destination| destination.weight > 0 && matches!(destination.target, Target::Cluster(_));
        !self.matches.is_empty()
            && match &self.action {
                RuleAction::Redirect(_) => true,
                RuleAction::Forward(forward) => forward.destinations.iter().any(takes),
                RuleAction::Respond { .. } => false,
            }
    }

    /// Whether the rule as a whole cannot be followed, whatever other objects there are.
    pub(crate) fn is_refused(&self) -> bool {
        let is_unsupported = |bad: &BackendRefError| bad.reason == UNSUPPORTED_VALUE;
        !self.refused.is_empty() || (!self.serves_requests() && self.unresolved.iter().any(is_unsupported))
    }

    /// Why none of its requests can have a session. Another control plane may follow what Limpet cannot (`is_judged`).
    pub(crate) fn sessionless(&self, is_judged: bool) -> Option<Sessionless> {
        if is_judged && self.is_refused() {
            Some(Sessionless::Refused)
        } else if matches!(self.action, RuleAction::Redirect(_)) {
            Some(Sessionless::Redirects)
        } else if self.has_no_backends() {
            Some(Sessionless::NoBackends)
        } else {
            self.twins.map(Sessionless::Twins)
        }
    }

    pub(crate) fn has_no_backends(&self) -> bool {
        matches!(self.action, RuleAction::Respond { .. })
            && self.refused.is_empty()
            && self.backends.is_empty()
            && self.unresolved.is_empty()
    }
}

#[derive(Debug, Serialize)]
#[expect(clippy::large_enum_variant, reason = "nearly all rules forward")]
pub(crate) enum RuleAction {
    Redirect(Redirect),
    /// Without the sessions, which are found after all rules.
    Forward(Forward),
    Respond {
        status: u16,
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackendRefError {
    /// One of `ResolvedRefs`, or `UNSUPPORTED_VALUE`.
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedRule {
    pub(crate) problem: FieldProblem,
    /// Whether the rule is dropped. If not, its requests are answered with status 500.
    pub(crate) drops_rule: bool,
}

pub(super) struct RuleInput<'a> {
    pub(super) field: String,
    pub(super) name: Option<&'a str>,
    pub(super) matches: Result<Vec<Match>, FieldProblem>,
    /// What is known of matches that cannot be read.
    pub(super) otherwise: Vec<Match>,
    pub(super) filters: &'a [RouteFilter],
    pub(super) backends: &'a [BackendRef],
    pub(super) timeouts: Result<(Option<Duration>, Option<Duration>), FieldProblem>,
    pub(super) retry: Result<Option<Retry>, FieldProblem>,
    pub(super) inline: Option<&'a SessionPersistence>,
}

impl RuleInput<'_> {
    /// Fields of this rule that a graph for other control planes does not contain.
    pub(super) fn unsupported_fields(&self) -> Vec<String> {
        let filters = self.filters.iter().enumerate().filter_map(|(index, filter)| {
            let name = match filter.kind.as_str() {
                "RequestMirror" => "requestMirror",
                "CORS" => "cors",
                _ => return None,
            };
            Some(format!("{}.filters[{index}].{name}", self.field))
        });
        let retry = (!matches!(self.retry, Ok(None))).then(|| format!("{}.retry", self.field));
        filters.chain(retry).collect()
    }
}

pub(super) struct RouteInput<'a> {
    pub(super) kind: Kind,
    pub(super) meta: &'a Meta,
    pub(super) malformed: Option<&'a DecodeError>,
    pub(super) unread: &'a [String],
    pub(super) parents: &'a [ParentRef],
    pub(super) hostnames: &'a [String],
    pub(super) rules: Vec<RuleInput<'a>>,
    /// Whether its Gateways are ours, so that unsupported fields are refused.
    pub(super) is_judged: bool,
}

/// Takes out everything that Envoy may have refused, but the matches if Envoy takes them: their requests must not go to
/// other rules.
pub(super) fn quarantine(rule: &mut RouteRule<'_>, serves: RouteReplacement) {
    let problem = FieldProblem {
        field: rule.field.clone(),
        message: "refused by Envoy".to_owned(),
    };
    refuse(rule, &problem, serves == RouteReplacement::Nothing);
}

/// Takes out the rule's action, and its matches if `drops_rule`.
pub(super) fn refuse(rule: &mut RouteRule<'_>, problem: &FieldProblem, drops_rule: bool) {
    rule.action = RuleAction::Respond {
        status: 500,
        reason: problem.message.clone(),
    };
    rule.request_headers = HeaderChanges::default();
    rule.response_headers = HeaderChanges::default();
    rule.inline = None;
    rule.cors = None;
    rule.backends.clear();
    rule.twins = None;
    rule.mirrors.clear();
    if drops_rule {
        rule.matches.clear();
    }
    rule.refused.push(RefusedRule {
        problem: problem.clone(),
        drops_rule,
    });
}

pub(super) fn not_supported(field: &str) -> FieldProblem {
    let name = field.rsplit('.').next().unwrap_or(field);
    FieldProblem {
        field: field.to_owned(),
        message: format!("{name} is not supported"),
    }
}
