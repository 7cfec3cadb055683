//! What happens to the requests of a route.

use std::time::Duration;

use serde::Serialize;

use super::cluster::ClusterName;
use super::session::Session;
use super::traffic::{Mirror, Retry, duration};

/// Changes of headers, by names in lower case: `set`, then `add`, then `remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderChanges {
    /// Headers to replace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(String, String)>,
    /// Headers to append.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<(String, String)>,
    /// Headers to remove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

impl HeaderChanges {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::large_enum_variant, reason = "nearly all rules forward")]
pub enum Action {
    /// Forwards it to one of the destinations.
    Forward(Forward),
    /// Answers with a redirect.
    Redirect(Redirect),
    /// Answers with a status.
    Respond {
        /// The status.
        status: u16,
        /// Why, for readers of the output.
        reason: String,
    },
}

/// How requests go to backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forward {
    /// Destinations, at least one, with weight 0 only if sessions continue there.
    pub destinations: Vec<Destination>,
    /// The sessions.
    pub session: Session,
    /// What chooses the endpoint in clusters that hash: the first of these that a request has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hash: Vec<HashOn>,
    /// Whether `WebSocket`s are refused, with status 403.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refuses_websockets: bool,
    /// Changes of host and path on the way to the backend.
    #[serde(skip_serializing_if = "Rewrite::is_empty")]
    pub rewrite: Rewrite,
    /// The limit of the whole request; none if zero or not set.
    #[serde(serialize_with = "duration", skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<Duration>,
    /// The limit of one try; none if zero.
    #[serde(serialize_with = "duration", skip_serializing_if = "Option::is_none")]
    pub backend_timeout: Option<Duration>,
    /// When a request is tried again. If not set, only after a failed connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Copies of its requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<Mirror>,
    /// Fields that the graph does not contain, though another control plane may follow them: a copy of the route would
    /// lack them. Empty for our own Gateways.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_followed: Vec<String>,
}

impl Forward {
    /// The clusters of its valid destinations, in their order.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        let targets = self.destinations.iter().map(|destination| &destination.target);
        targets.filter_map(|target| match target {
            Target::Cluster(cluster) => Some(cluster),
            Target::Invalid { .. } => None,
        })
    }
}

/// A backend of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// Its share of new sessions. With 0, existing sessions continue.
    pub weight: u32,
    /// Its target.
    pub target: Target,
    /// Changes of the requests' headers, for this destination.
    #[serde(skip_serializing_if = "HeaderChanges::is_empty")]
    pub request_headers: HeaderChanges,
    /// Changes of the responses' headers, for this destination.
    #[serde(skip_serializing_if = "HeaderChanges::is_empty")]
    pub response_headers: HeaderChanges,
}

/// The target of a destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// A cluster.
    Cluster(ClusterName),
    /// An invalid reference: its share of the requests is answered with status 500.
    Invalid {
        /// Why.
        reason: String,
    },
}

/// A redirect. Parts that are not set are the request's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    /// The scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
    /// The port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// Changes of host and path on the way to the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rewrite {
    /// The Host header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
}

impl Rewrite {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hostname.is_none() && self.path.is_none()
    }
}

/// A change of the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PathChange {
    /// All of it.
    Full(String),
    /// The prefix that the match has.
    Prefix(String),
    /// The same as text: slashes are neither added nor left out.
    Text(String),
}

/// The part of a request that is hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HashOn {
    /// The client's address.
    Address,
    /// The value of this cookie.
    Cookie(String),
    /// The value of this header.
    Header(String),
}
