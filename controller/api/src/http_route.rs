use serde::Deserialize;
use serde_json::Value;

use super::decode::{Spec, items};
use super::route::{BackendRef, NamedMatch, ParentRef, RouteFilter};
use super::session::SessionPersistence;

/// `HTTPRoute`, gateway.networking.k8s.io/v1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// The Gateways or listeners that it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// The hostnames; the listener's if the list is empty.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// Its rules; one that every request matches if they are left out, by the default of the definition.
    #[serde(default = "every_request")]
    pub rules: Vec<HttpRule>,
}

fn every_request() -> Vec<HttpRule> {
    vec![HttpRule::default()]
}

impl Spec for HttpRouteSpec {
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
pub struct HttpRule {
    /// Its name, once in each route.
    #[serde(default)]
    pub name: Option<String>,
    /// At least one of them must match. Every request matches an empty list.
    #[serde(default)]
    pub matches: Vec<HttpMatch>,
    /// Change its requests and responses, in this order.
    #[serde(default)]
    pub filters: Vec<RouteFilter>,
    /// Where its requests go.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
    /// How long a request may last.
    #[serde(default)]
    pub timeouts: Option<Timeouts>,
    /// When a request is tried again.
    #[serde(default)]
    pub retry: Option<HttpRouteRetry>,
    /// Session persistence of only this rule (GEP-1619).
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
}

/// All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    /// The path; any if it is not set.
    #[serde(default)]
    pub path: Option<HttpPathMatch>,
    /// Headers.
    #[serde(default)]
    pub headers: Vec<NamedMatch>,
    /// Query parameters.
    #[serde(default)]
    pub query_params: Vec<NamedMatch>,
    /// The method; any if it is not set.
    #[serde(default)]
    pub method: Option<String>,
}

/// A match of the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpPathMatch {
    /// `PathPrefix` (also when left out), `Exact` or `RegularExpression`.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// The value; `/` if it is not set.
    #[serde(default)]
    pub value: Option<String>,
}

/// How long a request may last (GEP-1742), as durations of GEP-2257.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// For the whole request, with all tries; `0s` means no limit.
    #[serde(default)]
    pub request: Option<String>,
    /// For one try at a backend.
    #[serde(default)]
    pub backend_request: Option<String>,
}

/// When a request is tried again (GEP-1731).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRetry {
    /// The statuses of a backend that lead to another try.
    #[serde(default)]
    pub codes: Vec<u16>,
    /// How often, after the first try; once if it is not set.
    #[serde(default)]
    pub attempts: Option<u32>,
    /// How long to wait before another try, as a duration of GEP-2257.
    #[serde(default)]
    pub backoff: Option<String>,
}
