//! Which sessions each rule and each destination has: every dialect of GEP-1619, precedence, conflicts and names.

use std::collections::{BTreeMap, BTreeSet};

use limpet_core::config::schema::PolicyConfig;

use crate::api::{Meta, ObjectName, SessionPersistence};

use super::graph::{PathMatch, RuleName, Session, SessionUse};
use super::reports::{ObjectRef, PolicyReport};
use super::{Objects, SessionPolicyName, Settings};

/// What is known of a rule before its sessions are.
#[derive(Debug, Clone)]
pub(crate) struct RuleFacts<'a> {
    /// The route.
    pub(crate) route: ObjectRef,
    /// The route's metadata, for its annotations and age.
    pub(crate) meta: &'a Meta,
    /// The rule's path in the route, like `spec.rules[2]`.
    pub(crate) field: String,
    /// The rule's name, which is its sessions' scope.
    pub(crate) name: RuleName,
    /// Its own `sessionPersistence`.
    pub(crate) inline: Option<&'a SessionPersistence>,
    /// Its backends that are there, in their order.
    pub(crate) backends: Vec<RuleBackend>,
    /// The paths that its matches have, for the older rule of a cookie's path.
    pub(crate) paths: Vec<PathMatch>,
    /// The Gateways of ours that serve it.
    pub(crate) gateways: BTreeSet<ObjectName>,
}

/// A backend of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleBackend {
    /// A Service.
    Service(ObjectName),
    /// An XBackend.
    XBackend(ObjectName),
}

/// What sessions there are.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// For each rule, in their order.
    pub(crate) rules: Vec<RuleSession>,
    /// Of XBackends with sessions of their own.
    pub(crate) destinations: BTreeMap<ObjectName, SessionUse>,
    /// The policies that are used.
    pub(crate) policies: BTreeMap<String, PolicyConfig>,
    /// Of all session policies.
    pub(crate) session_policies: BTreeMap<SessionPolicyName, PolicyReport>,
    /// Of all XBackends that rules lead to.
    pub(crate) backends: BTreeMap<ObjectName, PolicyReport>,
}

/// The session of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleSession {
    /// Whose it is, and by which policy.
    pub(crate) session: Session,
    /// What is wrong with it, for the route's conditions; the rule then has no session.
    pub(crate) problems: Vec<Problem>,
}

/// A field of the route that can not be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Its path, like `spec.rules[2].sessionPersistence.absoluteTimeout`.
    pub(crate) field: String,
    /// What was expected.
    pub(crate) message: String,
}

/// The sessions of all rules at once: whether rules share a policy matters to each.
pub(crate) fn sessions(_objects: &Objects, _settings: &Settings, rules: &[RuleFacts<'_>]) -> Sessions {
    let none = |_: &RuleFacts<'_>| RuleSession {
        session: Session::None,
        problems: Vec::new(),
    };
    Sessions {
        rules: rules.iter().map(none).collect(),
        ..Sessions::default()
    }
}
