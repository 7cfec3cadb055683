use serde::Deserialize;
use serde_json::Value;

use super::decode::{Spec, items};
use super::route::{BackendRef, NamedMatch, ParentRef, RouteFilter};
use super::session::SessionPersistence;

/// `GRPCRoute`, gateway.networking.k8s.io/v1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// The Gateways or listeners that it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// The hostnames; the listener's if the list is empty.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// Its rules.
    #[serde(default)]
    pub rules: Vec<GrpcRule>,
}

impl Spec for GrpcRouteSpec {
    fn readable(spec: &Value) -> Self {
        Self {
            parent_refs: items(spec, "parentRefs"),
            ..Self::default()
        }
    }
}

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRule {
    /// Its name, once in each route.
    #[serde(default)]
    pub name: Option<String>,
    /// At least one of them must match. Every request matches an empty list.
    #[serde(default)]
    pub matches: Vec<GrpcMatch>,
    /// Change its requests and responses, in this order.
    #[serde(default)]
    pub filters: Vec<RouteFilter>,
    /// Where its requests go.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
    /// Session persistence of only this rule (GEP-1619).
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
}

/// All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcMatch {
    /// Service and method; any if it is not set.
    #[serde(default)]
    pub method: Option<GrpcMethodMatch>,
    /// Metadata.
    #[serde(default)]
    pub headers: Vec<NamedMatch>,
}

/// A match of service and method. At least one of the two is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcMethodMatch {
    /// `Exact` (also when left out) or `RegularExpression`.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// The service, with its package.
    #[serde(default)]
    pub service: Option<String>,
    /// The method.
    #[serde(default)]
    pub method: Option<String>,
}
