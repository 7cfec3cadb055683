use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::by_cookie::ForeignRule;
use crate::graph::{Hostname, PathMatch, RuleName};
use crate::objects::RuleBackend;
use limpet_api::{Meta, ObjectName, ObjectRef, SessionPersistence, Text};

/// Identifies a rule. The name by itself does not: several rules may have the same one. A rule of an `IngressRoute` has
/// another one on each host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RuleId<'a> {
    route: &'a ObjectRef,
    field: &'a str,
    name: &'a RuleName,
}

/// The facts of a rule that its sessions depend on.
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
    /// What it asks for if its object knows nothing of `sessionPersistence`. Then no policy governs it.
    pub(crate) foreign: Option<&'a dyn ForeignRule>,
    /// Why no request of the rule can have a session.
    pub(crate) sessionless: Option<Sessionless>,
    /// Its valid backends, in their order.
    pub(crate) backends: Vec<RuleBackend>,
    /// The clusters of these, as tokens name them.
    pub(crate) clusters: Vec<Text>,
    /// XBackends of the rule that exist but cannot be used, and why.
    pub(crate) refused_backends: BTreeMap<ObjectName, String>,
    /// The paths of its matches, for the older rule of a cookie's path.
    pub(crate) paths: Vec<PathMatch>,
    /// Our Gateways that serve it.
    pub(crate) gateways: BTreeSet<ObjectName>,
    /// The hosts that it is served for.
    pub(crate) hosts: BTreeSet<Hostname>,
    /// The same, by scheme.
    pub(crate) schemes: Schemes,
    /// The same, at each of the Gateways.
    pub(crate) places: Arc<BTreeSet<Place>>,
}

/// A host of a Gateway.
pub(crate) type Place = (ObjectName, Hostname);

/// The hosts that something is served for, by scheme.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schemes {
    pub(crate) over_http: BTreeSet<Hostname>,
    pub(crate) over_https: BTreeSet<Hostname>,
}

/// Why no request of a rule can have a session, whatever other objects there are. Its session, if anything asks for
/// one, has no policy, and takes no name from another rule's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sessionless {
    /// The rule cannot be followed.
    Refused,
    /// It redirects requests.
    Redirects,
    /// It has no backends.
    NoBackends,
    /// A session could not tell two of its backends apart.
    Twins(Twins),
}

/// Where two references to one cluster stand whose filters differ, as in an A/B test of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Twins {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

impl Sessionless {
    /// What to say on the rule, as the end of a sentence; nothing where the refusal says it.
    pub(super) fn words(self) -> Option<&'static str> {
        match self {
            Self::Refused => None,
            Self::Redirects => Some("the rule redirects its requests"),
            Self::NoBackends => Some("the rule has no backends"),
            Self::Twins(_) => Some("the rule has one Service twice, with different filters"),
        }
    }
}

impl RuleFacts<'_> {
    /// What it says itself, with the last part of its name.
    pub(super) fn said(&self) -> Option<(Text, SessionPersistence)> {
        Some((self.name.last().into(), self.inline?.clone()))
    }

    /// The hosts that it is served for at each Gateway. Hosts of `IngressRoute`s have one Gateway, which needs no name.
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

/// The Services that the rule leads to.
pub(super) fn services<'r>(rule: &'r RuleFacts<'_>) -> impl Iterator<Item = &'r ObjectName> {
    rule.backends.iter().filter_map(|backend| match backend {
        RuleBackend::Service(name) => Some(name),
        RuleBackend::XBackend(_) => None,
    })
}
