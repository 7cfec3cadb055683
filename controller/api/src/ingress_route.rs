use serde::Deserialize;
use serde_json::Value;

use super::decode::Spec;

/// `IngressRoute`, contour.heptio.com/v1beta1, as Contour 1.0.0 has it, with the defaults and strategies of its
/// designs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressRouteSpec {
    /// With it, the object is a root: it has a host of its own. Without it, others delegate to it.
    #[serde(default)]
    pub virtualhost: Option<IngressHost>,
    /// Its routes.
    #[serde(default)]
    pub routes: Vec<IngressRule>,
    /// The strategy of services that have none.
    #[serde(default)]
    pub strategy: Option<String>,
    /// The health check of services that have none.
    #[serde(default)]
    pub health_check: Option<IngressHealthCheck>,
}

impl Spec for IngressRouteSpec {
    /// Whether it is a root, and of which host.
    fn readable(spec: &Value) -> Self {
        let host = spec.get("virtualhost").filter(|host| host.is_object());
        let virtualhost = host.map(|host| IngressHost {
            fqdn: super::decode::text(host, "fqdn"),
            tls: None,
        });
        Self {
            virtualhost,
            ..Self::default()
        }
    }
}

/// The host of a root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressHost {
    /// Its name.
    #[serde(default)]
    pub fqdn: String,
    /// How TLS ends.
    #[serde(default)]
    pub tls: Option<IngressTls>,
}

/// TLS of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressTls {
    /// The Secret with the certificate: `name`, or `namespace/name`.
    #[serde(default)]
    pub secret_name: String,
    /// `1.1`, `1.2` or `1.3`.
    #[serde(default)]
    pub minimum_protocol_version: String,
    /// Whether the backend ends TLS. It counts only without a Secret.
    #[serde(default)]
    pub passthrough: bool,
}

/// A route of the object: it has services, or it delegates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressRule {
    /// The prefix of its paths.
    #[serde(rename = "match")]
    pub prefix: String,
    /// Where its requests go.
    #[serde(default)]
    pub services: Vec<IngressService>,
    /// The object with the routes below the prefix.
    #[serde(default)]
    pub delegate: Option<Delegate>,
    /// Whether `WebSocket`s are permitted.
    #[serde(default)]
    pub enable_websockets: bool,
    /// Whether the route is served over plain HTTP, too, where the host has TLS.
    #[serde(default)]
    pub permit_insecure: bool,
    /// What the prefix becomes on the way to the backend.
    #[serde(default)]
    pub prefix_rewrite: String,
    /// How long a request may last.
    #[serde(default)]
    pub timeout_policy: Option<TimeoutPolicy>,
    /// When a request is tried again.
    #[serde(default)]
    pub retry_policy: Option<RetryPolicy>,
}

/// An object that routes are delegated to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Delegate {
    /// Its name.
    pub name: String,
    /// Its namespace; the delegating object's if it is empty.
    #[serde(default)]
    pub namespace: String,
}

/// A Service of the object's own namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressService {
    /// Its name.
    pub name: String,
    /// The number of its port.
    pub port: i64,
    /// Its share of the requests.
    #[serde(default)]
    pub weight: u32,
    /// How an endpoint is chosen.
    #[serde(default)]
    pub strategy: Option<String>,
    /// With the strategy `StickySession`: what sessions go by.
    #[serde(default)]
    pub sticky_session_config: Option<StickySession>,
    /// How to find out whether an endpoint is healthy.
    #[serde(default)]
    pub health_check: Option<IngressHealthCheck>,
}

/// What sessions go by. If nothing is said, by the client's address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StickySession {
    /// A cookie.
    #[serde(default)]
    pub cookie: Option<StickyCookie>,
    /// A header that the client sends.
    #[serde(default)]
    pub header: Option<StickyHeader>,
    /// The connection.
    #[serde(default)]
    pub connection: Option<StickyConnection>,
}

/// A cookie that holds a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StickyCookie {
    /// Its name.
    pub name: String,
    /// Its path; `/` if it is empty.
    #[serde(default)]
    pub path: String,
}

/// A header whose value chooses the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StickyHeader {
    /// Its name.
    pub name: String,
}

/// A property of the connection that holds a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StickyConnection {
    /// `IP`.
    pub property: String,
}

/// An HTTP health check. Numbers that are 0 count as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressHealthCheck {
    /// The path that is asked for.
    pub path: String,
    /// The Host header.
    #[serde(default)]
    pub host: String,
    /// How long from one check to the next.
    #[serde(default)]
    pub interval_seconds: i64,
    /// How long to wait for an answer.
    #[serde(default)]
    pub timeout_seconds: i64,
    /// After how many failures an endpoint is unhealthy.
    #[serde(default)]
    pub unhealthy_threshold_count: u32,
    /// After how many successes it is healthy again.
    #[serde(default)]
    pub healthy_threshold_count: u32,
}

/// How long a request may last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct TimeoutPolicy {
    /// As Go writes durations, or `infinity`; 15 s if it is empty.
    #[serde(default)]
    pub request: String,
}

/// When a request is tried again: after a status from 500 on, or without an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// How often, after the first try; at least once.
    #[serde(default)]
    pub count: u32,
    /// How long one try may last, as Go writes durations.
    #[serde(default)]
    pub per_try_timeout: String,
}

/// `TLSCertificateDelegation`, contour.heptio.com/v1beta1: other namespaces that may use Secrets of its namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct CertificateDelegationSpec {
    /// Its delegations.
    #[serde(default)]
    pub delegations: Vec<CertificateDelegation>,
}

impl Spec for CertificateDelegationSpec {}

/// Namespaces that may use a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateDelegation {
    /// The Secret.
    pub secret_name: String,
    /// The namespaces that may; just `*` means all.
    #[serde(default)]
    pub target_namespaces: Vec<String>,
}
