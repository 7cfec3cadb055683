//! A rule and a route, as they are said and as they are read, in either kind.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::graph::{Destination, HeaderChanges, Match, Redirect, Rewrite, RuleName};
use crate::problem::Problem;
use crate::references::Backend;
use limpet_api::{BackendRef, DecodeError, Filter, Kind, Meta, ObjectName, ParentRef, SessionPersistence};

/// One rule, read.
#[derive(Debug)]
pub(crate) struct RouteRule<'a> {
    /// Its path in the route, like `spec.rules[2]`.
    pub(crate) field: String,
    pub(crate) name: RuleName,
    /// The name that it has itself.
    pub(crate) own_name: Option<&'a str>,
    /// None of them: the rule was dropped, `refused` says why.
    pub(crate) matches: Vec<Match>,
    pub(crate) action: RuleAction,
    pub(crate) request_headers: HeaderChanges,
    pub(crate) response_headers: HeaderChanges,
    pub(crate) inline: Option<&'a SessionPersistence>,
    /// The backends that are there.
    pub(crate) backends: Vec<Backend>,
    /// References that lead nowhere.
    pub(crate) unresolved: Vec<BadReference>,
    /// XBackends that are there and cannot be led to, and why.
    pub(crate) refused_backends: BTreeMap<ObjectName, String>,
    /// Fields that cannot be followed, and what that means for the rule.
    pub(crate) refused: Vec<Refused>,
}

/// What a rule does.
#[derive(Debug)]
pub(crate) enum RuleAction {
    Redirect(Redirect),
    Forward {
        destinations: Vec<Destination>,
        rewrite: Rewrite,
        request_timeout: Option<Duration>,
        backend_timeout: Option<Duration>,
        not_followed: Vec<String>,
    },
    Respond {
        status: u16,
        reason: String,
    },
}

/// A reference that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadReference {
    /// One of the reasons of `ResolvedRefs`, or that the backend asks for what is not supported.
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

/// A field that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) problem: Problem,
    /// Whether the rule is left out. Otherwise it is there, and answers as it can without what was asked for.
    pub(crate) drops_rule: bool,
}

/// What a rule says, in either kind of route.
pub(super) struct RuleInput<'a> {
    pub(super) field: String,
    pub(super) name: Option<&'a str>,
    pub(super) matches: Result<Vec<Match>, Problem>,
    pub(super) filters: &'a [Filter],
    pub(super) backends: &'a [BackendRef],
    pub(super) timeouts: Result<(Option<Duration>, Option<Duration>), Problem>,
    pub(super) inline: Option<&'a SessionPersistence>,
}

/// What a route says, in either kind.
pub(super) struct RouteInput<'a> {
    pub(super) kind: Kind,
    pub(super) meta: &'a Meta,
    pub(super) malformed: Option<&'a DecodeError>,
    pub(super) unread: &'a [String],
    pub(super) parents: &'a [ParentRef],
    pub(super) hostnames: &'a [String],
    pub(super) rules: Vec<RuleInput<'a>>,
    /// Whether it is ours to judge.
    pub(super) is_judged: bool,
}

pub(super) fn not_supported(field: &str) -> Problem {
    Problem {
        field: field.to_owned(),
        message: "expected it to be left out, since it is not supported".to_owned(),
    }
}
