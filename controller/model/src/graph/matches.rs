//! The requests that a route is for.

use std::collections::BTreeMap;

use serde::Serialize;

/// The conditions of a match; all must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// The path.
    pub path: PathMatch,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers, by name in lower case.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, ValueMatch>,
    /// Query parameters, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, ValueMatch>,
    /// Whether it must be a gRPC request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
}

/// A condition on the path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PathMatch {
    /// This path.
    Exact(String),
    /// This path and all below it. It has no `/` at its end, so the root is empty.
    Prefix(String),
    /// All paths that begin with this text, which may end within a segment.
    Text(String),
    /// The whole path matches this expression (RE2).
    Regex(String),
}

impl Default for PathMatch {
    fn default() -> Self {
        Self::Prefix(String::new())
    }
}

/// A condition on a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ValueMatch {
    /// This.
    Exact(String),
    /// The whole value matches this expression (RE2).
    Regex(String),
}
