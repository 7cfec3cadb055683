//! What is to be served, independent of any proxy. Everything is sorted, so equal objects make equal graphs. Large
//! collections are [`Map`]s, so that graphs share what does not differ.

mod action;
mod cluster;
mod hostname;
mod matches;
mod session;
mod traffic;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use imbl::OrdMap;
use serde::Serialize;

use super::certificate::Certificate;
use super::envoys::Envoys;
use super::few::FewSet;
use super::maps::Map;
use super::memory::Memory;
use super::objects::SessionPolicyName;
use limpet_api::{ObjectName, ObjectRef, Text};
use limpet_core::config::schema::PolicyConfig;

pub use super::tls_version::TlsVersion;
pub use action::{Action, Destination, Forward, HashOn, HeaderChanges, PathChange, Redirect, Rewrite, Target};
pub use cluster::{
    BackendTls, Balance, Cluster, ClusterLimits, ClusterName, HealthCheck, Protocol, SubjectAltName, TrustedAuthorities,
};
pub use hostname::Hostname;
pub use matches::{Match, PathMatch, ValueMatch};
pub use session::{Session, SessionUse};
pub use traffic::{Cors, Mirror, Retry};

/// Everything that the Gateways of our class serve.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Graph {
    /// By name.
    pub gateways: Map<ObjectName, Gateway>,
    /// The clusters that routes lead to.
    pub clusters: Map<ClusterName, Cluster>,
    /// Session policies, by a hash of their content, so equal policies are one.
    pub policies: Map<Text, PolicyConfig>,
    /// Origins of the rules of HTTPRoutes and GRPCRoutes that have sessions.
    #[serde(skip)]
    pub rules: Map<RuleName, RuleOrigin>,
    /// The memory for the next graph.
    #[serde(skip)]
    pub memory: Memory,
    /// The namespaces of the routes that lead to a Service.
    #[serde(skip)]
    pub referencing_namespaces: Map<ObjectName, FewSet<Arc<str>>>,
    /// The Envoys of Gateways, where known.
    #[serde(skip_serializing_if = "OrdMap::is_empty")]
    pub envoys: Map<ObjectName, Envoys>,
    /// The certificates of listeners, by their Secrets.
    #[serde(serialize_with = "names")]
    pub certificates: Map<ObjectName, Certificate>,
}

/// Writes only the names of Secrets.
fn names<S: serde::Serializer>(certificates: &Map<ObjectName, Certificate>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(certificates.keys())
}

/// A Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// Listeners by port, where they have different hostnames and one protocol.
    pub ports: BTreeMap<u16, Vec<Listener>>,
    /// Settings of connections beyond the proxy's defaults.
    #[serde(skip_serializing_if = "Connections::is_default")]
    pub connections: Connections,
}

/// Settings of clients' connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Connections {
    /// The number of proxies in front of the Gateway that are trusted with the client's address (`x-forwarded-for`).
    pub trusted_hops: u32,
    /// Whether clients may speak HTTP/1.0.
    pub http10: bool,
    /// How long a connection lasts without a request; the proxy's default if not set.
    #[serde(serialize_with = "traffic::duration", skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Duration>,
}

impl Connections {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A listener that serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name in the Gateway.
    pub name: String,
    /// Its hosts, except those that another listener of the port names more specifically. With TLS, a request for these
    /// is misdirected.
    pub hostname: Hostname,
    /// The Secrets of its certificates if it terminates TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Vec<ObjectName>>,
    /// The lowest version of TLS; the proxy's own if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_minimum: Option<TlsVersion>,
    /// Virtual hosts, the more specific ones first. A request without one gets 404.
    #[serde(serialize_with = "hosts")]
    pub virtual_hosts: Map<Hostname, VirtualHost>,
}

/// Each of them has its hostname.
fn hosts<S: serde::Serializer>(hosts: &Map<Hostname, VirtualHost>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(hosts.values())
}

impl Listener {
    /// Maps virtual hosts by their hostnames.
    pub fn hosts(hosts: impl IntoIterator<Item = VirtualHost>) -> Map<Hostname, VirtualHost> {
        let by_name = |host: VirtualHost| (host.hostname.clone(), Arc::new(host));
        hosts.into_iter().map(by_name).collect()
    }
}

/// The routes of some hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualHost {
    /// The hosts.
    pub hostname: Hostname,
    /// Its routes, in the order of the Gateway API. The first match counts.
    pub routes: Vec<Route>,
}

/// One match of a rule, and what happens to its requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The rule's name, the same for all its routes: `<kind>/<namespace>/<route>/<rule name or hash>`.
    pub rule: RuleName,
    /// The match.
    pub matches: Match,
    /// What happens to its requests.
    pub action: Action,
    /// Changes of the request's headers.
    #[serde(skip_serializing_if = "HeaderChanges::is_empty")]
    pub request_headers: HeaderChanges,
    /// Changes of the response's headers.
    #[serde(skip_serializing_if = "HeaderChanges::is_empty")]
    pub response_headers: HeaderChanges,
    /// Pages of other origins that may send requests. If not set, the backend answers that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
}

/// The name of a rule, which is also the scope of its sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RuleName(pub Text);

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

/// The origin of a rule with sessions, so that reports on it name these objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleOrigin {
    /// The route.
    pub route: ObjectRef,
    /// The rule's index in the route.
    pub index: usize,
    /// The rule's name in the route.
    pub name: Option<String>,
    /// The Gateways that serve it.
    pub gateways: FewSet<ObjectName>,
    /// What asks for its sessions.
    pub requested_by: SessionRequester,
}

/// The origin of a rule's sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionRequester {
    /// The rule itself.
    Rule,
    /// A session policy.
    Policy(SessionPolicyName),
    /// Its XBackends, each for its own sessions.
    Backends(Vec<ObjectName>),
}
