//! What HTTP and gRPC routes have in common.

use serde::Deserialize;

use super::gateway::gateway_group;

/// A reference to what a route attaches to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Its API group.
    #[serde(default = "gateway_group")]
    pub group: String,
    /// Its kind.
    #[serde(default = "gateway")]
    pub kind: String,
    /// Its namespace; the route's if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The listener; all that fit if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// The port; any if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

fn gateway() -> String {
    "Gateway".to_owned()
}

/// Where a rule's requests go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendRef {
    /// Its API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its kind.
    #[serde(default = "service")]
    pub kind: String,
    /// Its namespace; the route's if it is not set.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its port; `XBackend` has its own.
    #[serde(default)]
    pub port: Option<u16>,
    /// Its share of the requests; 1 if it is not set.
    #[serde(default)]
    pub weight: Option<u32>,
    /// Filters for requests to this backend only.
    #[serde(default)]
    pub filters: Vec<RouteFilter>,
}

fn service() -> String {
    "Service".to_owned()
}

/// A filter of a rule or a backend: the field that `type` names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteFilter {
    /// Which of the fields applies.
    #[serde(rename = "type")]
    pub kind: String,
    /// Changes the request's headers.
    #[serde(default)]
    pub request_header_modifier: Option<HeaderModifier>,
    /// Changes the response's headers.
    #[serde(default)]
    pub response_header_modifier: Option<HeaderModifier>,
    /// Answers with a redirect.
    #[serde(default)]
    pub request_redirect: Option<RequestRedirect>,
    /// Changes host and path on the way to the backend.
    #[serde(default)]
    pub url_rewrite: Option<UrlRewrite>,
    /// Sends copies of requests to another backend.
    #[serde(default)]
    pub request_mirror: Option<RequestMirror>,
    /// Answers browsers that ask whether pages of other origins may send requests.
    #[serde(default)]
    pub cors: Option<CorsFilter>,
}

/// Copies of requests for another backend, whose responses are ignored. At most one of `percent` and `fraction` is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestMirror {
    /// The backend. It has neither a weight nor filters.
    pub backend_ref: BackendRef,
    /// How many of a hundred requests; all if it is not set.
    #[serde(default)]
    pub percent: Option<u32>,
    /// How many requests.
    #[serde(default)]
    pub fraction: Option<Fraction>,
}

/// A part of a whole.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fraction {
    /// How many.
    pub numerator: u32,
    /// Of how many; 100 if it is not set.
    #[serde(default)]
    pub denominator: Option<u32>,
}

/// Which pages of other origins may send requests (GEP-1767).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CorsFilter {
    /// The origins: `https://shop.example.com`, with `*` for the beginning of the host, or `*` for all.
    #[serde(default)]
    pub allow_origins: Vec<String>,
    /// Whether they may send cookies.
    #[serde(default)]
    pub allow_credentials: Option<bool>,
    /// The methods that they may use, or `*`.
    #[serde(default)]
    pub allow_methods: Vec<String>,
    /// The headers that they may send, or `*`.
    #[serde(default)]
    pub allow_headers: Vec<String>,
    /// The headers of responses that they may read, or `*`.
    #[serde(default)]
    pub expose_headers: Vec<String>,
    /// For how many seconds a browser may keep this answer; 5 if it is not set.
    #[serde(default)]
    pub max_age: Option<u32>,
}

/// Changes of headers: `set`, then `add`, then `remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderModifier {
    /// Headers to replace.
    #[serde(default)]
    pub set: Vec<Header>,
    /// Headers to append.
    #[serde(default)]
    pub add: Vec<Header>,
    /// Headers to remove.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// A header field.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Header {
    /// Its name, in any case.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A redirect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRedirect {
    /// The scheme; the request's if it is not set.
    #[serde(default)]
    pub scheme: Option<String>,
    /// The host; the request's if it is not set.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The path; the request's if it is not set.
    #[serde(default)]
    pub path: Option<PathModifier>,
    /// The port. If it is not set: the default of `scheme` if that is set, else the port of the listener.
    #[serde(default)]
    pub port: Option<u16>,
    /// The status; 302 if it is not set.
    #[serde(default)]
    pub status_code: Option<u16>,
}

/// A rewrite on the way to the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlRewrite {
    /// The Host header.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The path.
    #[serde(default)]
    pub path: Option<PathModifier>,
}

/// A change of the path: the field that `type` names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathModifier {
    /// `ReplaceFullPath` or `ReplacePrefixMatch`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The whole path.
    #[serde(default)]
    pub replace_full_path: Option<String>,
    /// Replaces the prefix that matched.
    #[serde(default)]
    pub replace_prefix_match: Option<String>,
}

/// A match of a header or a query parameter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedMatch {
    /// `Exact` (also when left out) or `RegularExpression`.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// The name.
    pub name: String,
    /// The value that it must have.
    pub value: String,
}
