//! The conditions of each object, by GEP-713 for policies and by the Gateway API for all others, without times, other
//! controllers' entries and acknowledgements of Envoys.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::maps::Map;
use super::objects::SessionPolicyName;
use limpet_api::{KindRef, ObjectName, ObjectRef, ParentRef, Text};

/// The reason for a value that the API has and Limpet does not; not of `ResolvedRefs`, since the backend exists.
pub(super) const UNSUPPORTED_VALUE: &str = "UnsupportedValue";

/// Reports on all our objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reports {
    /// GatewayClasses with our controller's name.
    pub gateway_classes: Map<Text, ClassReport>,
    /// Gateways of these classes.
    pub gateways: Map<ObjectName, GatewayReport>,
    /// HTTPRoutes that attach to such Gateways.
    pub http_routes: Map<ObjectName, RouteReport>,
    /// GRPCRoutes that attach to such Gateways.
    pub grpc_routes: Map<ObjectName, RouteReport>,
    /// Session policies.
    pub session_policies: Map<SessionPolicyName, PolicyReport>,
    /// XBackends.
    pub backends: Map<ObjectName, PolicyReport>,
    /// `BackendTLSPolicy` objects.
    #[serde(rename = "backendTLSPolicies")]
    pub backend_tls_policies: Map<ObjectName, PolicyReport>,
    /// `IngressRoute`s of our class.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub ingress_routes: Map<ObjectName, IngressRouteReport>,
    /// Findings on objects whose status has no place for them. They become Events.
    #[serde(serialize_with = "by_name", skip_serializing_if = "Map::is_empty")]
    pub without_status: Map<ObjectRef, Condition>,
}

fn by_name<S: Serializer>(all: &Map<ObjectRef, Condition>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(all.iter().map(|(object, condition)| (object.to_string(), condition)))
}

/// A condition of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// `Accepted`, `ResolvedRefs`, …
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// As the specification defines it.
    pub reason: &'static str,
    /// The path of the field and what was expected.
    pub message: String,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Not known.
    Unknown,
}

impl Condition {
    /// Whether its status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// A condition that holds.
    #[must_use]
    pub fn holds(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: ConditionStatus::True,
            reason,
            message: message.into(),
        }
    }

    /// A condition that does not hold.
    #[must_use]
    pub fn fails(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: ConditionStatus::False,
            reason,
            message: message.into(),
        }
    }
}

/// Of an `IngressRoute`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressRouteReport {
    /// Its `currentStatus`.
    pub status: IngressRouteStatus,
    /// Its `description`.
    #[serde(serialize_with = "text")]
    pub description: Arc<str>,
    /// The host: a root's own, or from the first root that it has routes of; else empty.
    #[serde(serialize_with = "text", skip_serializing_if = "is_empty")]
    pub vhost: Arc<str>,
    /// Whether it has a host.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_root: bool,
    /// What is passed over although the object is valid. It becomes an Event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn is_empty(text: &Arc<str>) -> bool {
    text.is_empty()
}

/// What became of an `IngressRoute`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum IngressRouteStatus {
    /// It is served.
    Valid,
    /// It, or a delegation to it, has a mistake.
    Invalid,
    /// No root leads to it.
    Orphaned,
}

impl IngressRouteStatus {
    /// The word in the object's status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Orphaned => "orphaned",
        }
    }
}

/// Of a GatewayClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassReport {
    /// The generation that was read.
    pub observed_generation: i64,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// Of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayReport {
    /// The generation that was read.
    pub observed_generation: i64,
    /// Its conditions. `Programmed` is there only if it is false whatever Envoys acknowledge.
    pub conditions: Vec<Condition>,
    /// Its listeners' reports, in their order.
    pub listeners: Vec<ListenerReport>,
    /// Its addresses. `None`: not known here, so its status keeps its addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<Address>>,
    /// Why it is not programmed although its Envoys have acknowledged everything.
    #[serde(skip)]
    pub unready: Option<Condition>,
    /// Fields that have no effect; its `Accepted` names them too.
    #[serde(skip)]
    pub ignored: Vec<String>,
}

/// An address of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Address {
    /// `IPAddress` or `Hostname`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The address.
    pub value: String,
}

/// Of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerReport {
    /// Its name.
    pub name: String,
    /// Kinds of routes that may attach.
    pub supported_kinds: Vec<KindRef>,
    /// The number of attached routes.
    pub attached_routes: i32,
    /// Its conditions, without `Programmed`.
    pub conditions: Vec<Condition>,
    /// Whether it serves without `ResolvedRefs`, with the last valid certificate of a Secret.
    #[serde(skip)]
    pub keeps_certificate: bool,
}

impl ListenerReport {
    /// Whether it serves if its Gateway does.
    #[must_use]
    pub fn serves(&self) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|condition| match condition.kind {
            "Conflicted" => !condition.is_true(),
            "ResolvedRefs" => condition.is_true() || self.keeps_certificate,
            _ => condition.is_true(),
        })
    }
}

/// Of a route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteReport {
    /// The generation that was read.
    pub observed_generation: i64,
    /// Reports for each of our Gateways that it refers to.
    pub parents: Vec<ParentReport>,
    /// Fields that have no effect, if it is accepted; its `Accepted` names them too.
    #[serde(skip)]
    pub ignored: Vec<String>,
}

/// Of a route, for one of its parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentReport {
    /// The parent, as in the route.
    pub parent_ref: ParentRef,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// Of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyReport {
    /// The generation that was read.
    pub observed_generation: i64,
    /// Reports for each ancestor, at most 16 (GEP-713): the Gateways whose traffic it affects.
    pub ancestors: Vec<AncestorReport>,
}

/// Of a policy, for one of its ancestors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AncestorReport {
    /// The ancestor.
    pub ancestor_ref: ParentRef,
    /// Its conditions, without what Envoys have acknowledged.
    pub conditions: Vec<Condition>,
}
