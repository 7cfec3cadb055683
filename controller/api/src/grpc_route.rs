use serde::Deserialize;
use serde_json::Value;

use super::decode::{Spec, items};
use super::route::{BackendRef, Filter, NamedMatch, ParentRef};
use super::session::SessionPersistence;

/// `GRPCRoute`, gateway.networking.k8s.io/v1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// The hosts; those of the listener where the list is empty.
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
    /// Any of them has to match; every request does where the list is empty.
    #[serde(default)]
    pub matches: Vec<GrpcMatch>,
    /// What happens to its requests.
    #[serde(default)]
    pub filters: Vec<Filter>,
    /// Where its requests go.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
    /// Session persistence of this rule alone (GEP-1619).
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
}

/// All of it has to match.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcMatch {
    /// Service and method; any where there is none.
    #[serde(default)]
    pub method: Option<GrpcMethodMatch>,
    /// Metadata.
    #[serde(default)]
    pub headers: Vec<NamedMatch>,
}

/// A match of service and method. At least one of the two is there.
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
