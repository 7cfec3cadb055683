use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::by_cookie::ForeignRule;
use crate::graph::{Hostname, PathMatch, RuleName};
use crate::objects::RuleBackend;
use limpet_api::{Meta, ObjectName, ObjectRef, SessionPersistence, Text};

/// Several rules may have the same name. A rule of an `IngressRoute` has another one on each host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RuleId<'a> {
    route: &'a ObjectRef,
    field: &'a str,
    name: &'a RuleName,
}

#[derive(Debug, Clone)]
pub(crate) struct RuleFacts<'a> {
    pub(crate) route: ObjectRef,
    pub(crate) meta: &'a Meta,
    /// Its path, like `spec.rules[2]`.
    pub(crate) field: String,
    /// Its sessions' scope.
    pub(crate) name: RuleName,
    pub(crate) inline: Option<&'a SessionPersistence>,
    /// Set for an object without `sessionPersistence`, which no policy governs.
    pub(crate) foreign: Option<&'a dyn ForeignRule>,
    pub(crate) sessionless: Option<Sessionless>,
    /// Only valid ones, in their order.
    pub(crate) backends: Vec<RuleBackend>,
    pub(crate) clusters: Vec<Text>,
    pub(crate) refused_backends: BTreeMap<ObjectName, String>,
    /// The matches' paths, for the older rule of a cookie's path.
    pub(crate) paths: Vec<PathMatch>,
    /// Our Gateways that serve it.
    pub(crate) gateways: BTreeSet<ObjectName>,
    pub(crate) hosts: BTreeSet<Hostname>,
    /// The hosts, by scheme.
    pub(crate) schemes: Schemes,
    pub(crate) places: Arc<BTreeSet<GatewayHost>>,
}

pub(crate) type GatewayHost = (ObjectName, Hostname);

#[derive(Debug, Clone, Default)]
pub(crate) struct Schemes {
    pub(crate) over_http: BTreeSet<Hostname>,
    pub(crate) over_https: BTreeSet<Hostname>,
}

/// Why no request of a rule can have a session, whatever other objects there are. Such a session has no policy, and
/// takes no name from another rule's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sessionless {
    /// The rule cannot be followed.
    Refused,
    Redirects,
    NoBackends,
    /// A session could not tell two of its backends apart.
    Twins(TwinReferences),
}

/// The fields of two references to one cluster with other filters, as in an A/B test of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TwinReferences {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

impl Sessionless {
    /// The end of a sentence on the rule; nothing where the refusal says it.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Refused => None,
            Self::Redirects => Some("the rule redirects its requests"),
            Self::NoBackends => Some("the rule has no backends"),
            Self::Twins(_) => Some("the rule has one Service twice, with different filters"),
        }
    }
}

impl RuleFacts<'_> {
    /// Its own `sessionPersistence`, with the last part of its name.
    pub(super) fn written_persistence(&self) -> Option<(Text, SessionPersistence)> {
        Some((self.name.last().into(), self.inline?.clone()))
    }

    /// Hosts of `IngressRoute`s have one Gateway, which needs no name.
    pub(super) fn hosts_of_gateways(&self) -> impl Iterator<Item = (ObjectName, &Hostname)> {
        let of_routes = self.places.iter();
        let of_routes = of_routes.map(|(gateway, host)| (gateway.clone(), host));
        let of_contour = self.foreign.iter().flat_map(|_| &self.hosts);
        of_routes.chain(of_contour.map(|host| (ObjectName::new("", ""), host)))
    }

    pub(super) fn id(&self) -> RuleId<'_> {
        RuleId {
            route: &self.route,
            field: &self.field,
            name: &self.name,
        }
    }
}

pub(super) fn services<'r>(rule: &'r RuleFacts<'_>) -> impl Iterator<Item = &'r ObjectName> {
    rule.backends.iter().filter_map(|backend| match backend {
        RuleBackend::Service(name) => Some(name),
        RuleBackend::XBackend(_) => None,
    })
}
