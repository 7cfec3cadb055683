//! What HTTP and gRPC routes have in common.

use serde::Deserialize;

use super::gateway::gateway_group;

/// What a route attaches to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Its API group.
    #[serde(default = "gateway_group")]
    pub group: String,
    /// Its kind.
    #[serde(default = "gateway")]
    pub kind: String,
    /// Its namespace; the route's where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The listener; all that fit where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// The port; any where there is none.
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
    /// Its namespace; the route's where there is none.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its port; `XBackend` has its own.
    #[serde(default)]
    pub port: Option<u16>,
    /// Its share of the requests; 1 where there is none.
    #[serde(default)]
    pub weight: Option<u32>,
    /// For its requests alone.
    #[serde(default)]
    pub filters: Vec<Filter>,
}

fn service() -> String {
    "Service".to_owned()
}

/// A filter of a rule or a backend: the field that `type` names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// Which of the fields it is.
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
    pub request_redirect: Option<Redirect>,
    /// Changes host and path on the way to the backend.
    #[serde(default)]
    pub url_rewrite: Option<Rewrite>,
}

/// Changes of headers: `set`, then `add`, then `remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderModifier {
    /// Replaced.
    #[serde(default)]
    pub set: Vec<Header>,
    /// Appended.
    #[serde(default)]
    pub add: Vec<Header>,
    /// Taken out.
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
pub struct Redirect {
    /// The scheme; the request's where there is none.
    #[serde(default)]
    pub scheme: Option<String>,
    /// The host; the request's where there is none.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The path; the request's where there is none.
    #[serde(default)]
    pub path: Option<PathModifier>,
    /// The port; the scheme's own, or the listener's where there is none.
    #[serde(default)]
    pub port: Option<u16>,
    /// The status; 302 where there is none.
    #[serde(default)]
    pub status_code: Option<u16>,
}

/// A rewrite on the way to the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rewrite {
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
    /// In place of the prefix that matched.
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
    /// What it has to be.
    pub value: String,
}
