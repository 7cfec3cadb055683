//! What a rule asks for beyond matching, changing and forwarding requests.

use std::time::Duration;

use limpet_core::time::GatewayDuration;
use serde::Serialize;

use super::cluster::ClusterName;
use super::matches::ValueMatch;

/// When a request is tried again: after a failed connection, a reset or a timeout of one try, and after these statuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How often, after the first try. Zero means never.
    pub attempts: u32,
    /// Whether every status of a backend from 500 on leads to another try.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub server_errors: bool,
    /// Statuses of a backend that lead to another try.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<u16>,
    /// The first wait before another try. Envoy doubles it each time, up to tenfold, and takes a random part of it.
    #[serde(serialize_with = "duration", skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Duration>,
}

/// Copies of requests for another cluster, whose responses are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    /// The cluster.
    pub cluster: ClusterName,
    /// How many of a million requests.
    pub per_million: u32,
}

/// Pages of other origins that may send requests, as browsers ask for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins; `*` means all.
    pub allow_origins: Vec<ValueMatch>,
    /// Methods that they may use; `*` means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_methods: Vec<String>,
    /// Headers that they may send; `*` means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_headers: Vec<String>,
    /// Headers of responses that they may read; `*` means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expose_headers: Vec<String>,
    /// Whether they may send cookies.
    pub allow_credentials: bool,
    /// Seconds for which a browser may keep this answer.
    pub max_age: u32,
}

#[allow(clippy::ref_option, reason = "serde hands over the field by reference")]
pub(super) fn duration<S: serde::Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(GatewayDuration::from).serialize(serializer)
}
