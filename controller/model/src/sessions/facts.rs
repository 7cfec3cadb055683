use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Hostname, PathMatch, RuleName};
use crate::references::RuleBackend;
use limpet_api::{Meta, ObjectName, ObjectRef, SessionPersistence};

/// Which rule of which route: rules may have one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RuleId<'a> {
    route: &'a ObjectRef,
    field: &'a str,
}

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
    /// XBackends of the rule that are there and cannot be led to, and why.
    pub(crate) refused_backends: BTreeMap<ObjectName, String>,
    /// The paths that its matches have, for the older rule of a cookie's path.
    pub(crate) paths: Vec<PathMatch>,
    /// The Gateways of ours that serve it.
    pub(crate) gateways: BTreeSet<ObjectName>,
    /// The hosts that it is served for.
    pub(crate) hosts: BTreeSet<Hostname>,
}

impl RuleFacts<'_> {
    pub(super) fn id(&self) -> RuleId<'_> {
        RuleId {
            route: &self.route,
            field: &self.field,
        }
    }
}
