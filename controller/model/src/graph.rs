//! What is to be served, independent of any proxy. Outputs translate the graph and do not look at objects. Everything
//! is sorted, so equal objects make equal graphs, in whatever order they arrive.

mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::certificate::{Authorities, Certificate};
use super::envoys::Envoys;
use super::memory::Memory;
use super::objects::SessionPolicyName;
use limpet_api::{ObjectName, ObjectRef};
use limpet_core::config::schema::PolicyConfig;
use limpet_core::time::GatewayDuration;

pub use traffic::{Cors, Mirror, Retry};

/// Everything that the Gateways of our class serve.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Graph {
    /// By name.
    pub gateways: BTreeMap<ObjectName, Gateway>,
    /// The clusters that routes lead to.
    pub clusters: BTreeMap<ClusterName, Cluster>,
    /// The session policies, by a name that is made from their content, so equal policies are one.
    pub policies: BTreeMap<String, PolicyConfig>,
    /// The origins of the rules that have sessions.
    #[serde(skip)]
    pub rules: BTreeMap<RuleName, RuleOrigin>,
    /// What to remember for the next graph.
    #[serde(skip)]
    pub memory: Memory,
    /// The namespaces of the routes that lead to a Service.
    #[serde(skip)]
    pub led_from: BTreeMap<ObjectName, BTreeSet<Arc<str>>>,
    /// The Envoys of Gateways, where anything is known of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub envoys: BTreeMap<ObjectName, Envoys>,
    /// The certificates of listeners, by their Secrets.
    #[serde(serialize_with = "names")]
    pub certificates: BTreeMap<ObjectName, Certificate>,
}

/// Only the names of Secrets are written.
fn names<S: serde::Serializer>(
    certificates: &BTreeMap<ObjectName, Certificate>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(certificates.keys())
}

/// A Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// Its listeners by port. The listeners of a port have different hostnames and one protocol.
    pub ports: BTreeMap<u16, Vec<Listener>>,
}

/// A listener that serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name in the Gateway.
    pub name: String,
    /// The hosts that belong to this listener, except those that another one of the port names more specifically. With
    /// TLS, a request for a host of another one is misdirected.
    pub hostname: Hostname,
    /// The Secrets of its certificates if it terminates TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Vec<ObjectName>>,
    /// By hostname, the more specific ones first. A request without a virtual host gets 404.
    pub virtual_hosts: Vec<VirtualHost>,
}

/// A set of hosts. In its order, more specific ones come first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hostname {
    /// This one.
    Exact(String),
    /// All hosts with this suffix, which begins with a dot.
    Suffix(String),
    /// All.
    Any,
}

impl Hostname {
    /// Reads `shop.example.com` or `*.example.com`. `None` and the empty text mean all hosts.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        match text {
            None | Some("" | "*") => Self::Any,
            Some(text) => match text.strip_prefix('*') {
                Some(suffix) => Self::Suffix(suffix.to_ascii_lowercase()),
                None => Self::Exact(text.to_ascii_lowercase()),
            },
        }
    }

    /// The hosts that belong to both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, both) | (both, Self::Any) => Some(both.clone()),
            (Self::Exact(host), Self::Exact(other)) => (host == other).then(|| self.clone()),
            (Self::Exact(host), Self::Suffix(suffix)) | (Self::Suffix(suffix), Self::Exact(host)) => {
                (host.ends_with(suffix.as_str()) && host.len() > suffix.len()).then(|| Self::Exact(host.clone()))
            }
            (Self::Suffix(one), Self::Suffix(two)) => {
                let (long, short) = if one.len() >= two.len() { (one, two) } else { (two, one) };
                long.ends_with(short.as_str()).then(|| Self::Suffix(long.clone()))
            }
        }
    }

    /// Whether every host of `other` is one of these.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.intersection(other).as_ref() == Some(other)
    }

    /// Longer ones first, since routers prefer the most specific one.
    fn rank(&self) -> (u8, std::cmp::Reverse<usize>, &str) {
        match self {
            Self::Exact(host) => (0, std::cmp::Reverse(host.len()), host),
            Self::Suffix(suffix) => (1, std::cmp::Reverse(suffix.len()), suffix),
            Self::Any => (2, std::cmp::Reverse(0), ""),
        }
    }
}

impl Serialize for Hostname {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialOrd for Hostname {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Hostname {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
            Self::Any => f.write_str("*"),
        }
    }
}

/// The routes of some hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualHost {
    /// Which hosts.
    pub hostname: Hostname,
    /// Its routes, in the order of the Gateway API. The first match counts.
    pub routes: Vec<Route>,
}

/// One match of one rule, and what happens to its requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The rule: `<kind>/<namespace>/<route>/<rule name or hash>`. All routes of a rule have the same name.
    pub rule: RuleName,
    /// What has to match.
    pub matches: Match,
    /// What happens.
    pub action: Action,
    /// Changes of the request's headers.
    #[serde(skip_serializing_if = "HeaderChanges::is_empty")]
    pub request_headers: HeaderChanges,
    /// Changes of the response's headers.
    #[serde(skip_serializing_if = "HeaderChanges::is_empty")]
    pub response_headers: HeaderChanges,
    /// Which pages of other origins may send requests. If it is not set, the backend answers that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
}

/// The name of a rule, which is also the scope of its sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RuleName(pub String);

impl RuleName {
    /// The part without the route.
    pub(crate) fn last(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a rule with sessions comes from, so that reports on it name these objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleOrigin {
    /// The route.
    pub route: ObjectRef,
    /// The index of the rule in the route.
    pub index: usize,
    /// The name that the rule has in the route.
    pub name: Option<String>,
    /// The Gateways that serve it.
    pub gateways: BTreeSet<ObjectName>,
    /// Who asks for its sessions.
    pub asked_by: AskedBy,
}

/// Who asks for a rule's sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AskedBy {
    /// The rule itself.
    Rule,
    /// A session policy.
    Policy(SessionPolicyName),
    /// Its XBackends, each for its own sessions.
    Backends(Vec<ObjectName>),
}

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
    /// This path and all paths below it. It has no `/` at its end, so the root is empty.
    Prefix(String),
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
pub enum Action {
    /// It goes to one of the destinations.
    Forward(Forward),
    /// It is answered with a redirect.
    Redirect(Redirect),
    /// It is answered with this status.
    Respond {
        /// The status.
        status: u16,
        /// Why, for people who read the output.
        reason: String,
    },
}

/// Requests that go to a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forward {
    /// At least one. Destinations of weight 0 are kept only if their sessions go on.
    pub destinations: Vec<Destination>,
    /// The sessions.
    pub session: Session,
    /// Host and path on the way to the backend.
    #[serde(skip_serializing_if = "Rewrite::is_empty")]
    pub rewrite: Rewrite,
    /// How long the whole request may last; no limit if it is zero or not set.
    #[serde(serialize_with = "duration", skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<Duration>,
    /// How long one try may last; zero means no limit.
    #[serde(serialize_with = "duration", skip_serializing_if = "Option::is_none")]
    pub backend_timeout: Option<Duration>,
    /// When a request is tried again. If it is not set, only after a failed connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Copies of its requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<Mirror>,
    /// Fields of the rule that the graph does not contain, though the control plane that serves the route may follow
    /// them. A copy of the route that is made from the graph would lack them. Empty for our own Gateways.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_followed: Vec<String>,
}

/// In the format of the Gateway API.
#[allow(clippy::ref_option, reason = "serde hands over the field by reference")]
fn duration<S: serde::Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(GatewayDuration::from).serialize(serializer)
}

/// Whose the sessions of a route are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Session {
    /// It has none.
    #[default]
    None,
    /// The rule's: a session keeps its destination, whatever the weights are.
    Rule(SessionUse),
    /// Each destination's own ([`Cluster::session`]): the split chooses the destination of every request.
    Destinations,
}

/// A policy, and the scope that it is used in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionUse {
    /// A name from [`Graph::policies`].
    pub policy: String,
    /// The scope of the tokens: `<kind>/<namespace>/<name>…`.
    pub scope: String,
}

/// One of the backends of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// Its share of new sessions. With 0, existing sessions go on.
    pub weight: u32,
    /// What it is.
    pub target: Target,
    /// Changes of the requests' headers, for this destination alone.
    #[serde(skip_serializing_if = "HeaderChanges::is_empty")]
    pub request_headers: HeaderChanges,
    /// Changes of the responses' headers, for this destination alone.
    #[serde(skip_serializing_if = "HeaderChanges::is_empty")]
    pub response_headers: HeaderChanges,
}

/// What a destination is.
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

/// A redirect. Parts that are not set are those of the request.
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

/// Host and path on the way to the backend.
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
}

/// A cluster's name in Envoy. Tokens name clusters by a hash of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ClusterName(pub String);

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The endpoints of a backend, and their protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The Service whose endpoints these are.
    pub service: ObjectName,
    /// The number of the Service's port.
    pub port: u16,
    /// The name of the Service's port, as EndpointSlices have it; empty if it has none.
    pub port_name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// TLS; plain text if it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// The backend's own sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionUse>,
}

/// TLS towards a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    /// The name that is asked for (Server Name Indication).
    pub sni: String,
    /// The names of which the backend's certificate must have one.
    pub subject_alt_names: Vec<SubjectAltName>,
    /// Who may have signed it.
    pub authorities: TrustedAuthorities,
}

/// A name in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SubjectAltName {
    /// The name of a host, with a wildcard only if the certificate must have the very same one.
    Dns(String),
    /// A URI.
    Uri(String),
}

/// The authorities that certificates are verified by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TrustedAuthorities {
    /// Those of the system that the proxy runs on.
    System,
    /// These.
    Certificates(Authorities),
}

/// The protocol of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without an upgrade; with TLS by ALPN.
    H2c,
}
