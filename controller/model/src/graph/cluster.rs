//! What routes lead to.

use std::fmt;
use std::time::Duration;

use limpet_api::{ObjectName, Text};
use limpet_core::time::GatewayDuration;
use serde::Serialize;

use super::session::SessionUse;
use crate::certificate::Authorities;

/// A cluster's name in Envoy. Tokens name clusters by a hash of its base.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ClusterName(pub Text);

impl ClusterName {
    /// One for each protocol that routes speak to the same port: a session may use all of them.
    #[must_use]
    pub fn new(base: &str, protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http1 => Self(base.into()),
            Protocol::H2c => Self(format!("{base}#h2c").into()),
        }
    }

    /// What clusters with the same sessions have in common: see [`limpet_core::token::cluster_base`].
    #[must_use]
    pub fn base(&self) -> &[u8] {
        limpet_core::token::cluster_base(self.0.as_bytes())
    }

    /// The same as text.
    #[must_use]
    pub fn base_text(&self) -> Text {
        let base = self.0.split('#').next();
        if base == Some(&*self.0) {
            self.0.clone()
        } else {
            base.unwrap_or_default().into()
        }
    }

    /// How tokens name the cluster.
    #[must_use]
    pub fn destination(&self) -> limpet_core::token::Destination {
        limpet_core::token::Destination::of_cluster(self.0.as_bytes())
    }
}

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
    /// How the endpoint of requests without a session is chosen.
    #[serde(skip_serializing_if = "Balance::is_default")]
    pub balance: Balance,
    /// How to find out whether an endpoint is healthy. If it is not set, only EndpointSlices say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// The name that DNS has the endpoints of. If it is not set, EndpointSlices have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_name: Option<String>,
    /// How much it may get at once.
    #[serde(skip_serializing_if = "ClusterLimits::is_default")]
    pub limits: ClusterLimits,
    /// Whether no session of a rule begins here, so that the weights choose for the client's next request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_begins: bool,
    /// The backend's own sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionUse>,
}

impl Cluster {
    /// The endpoints of a port without a name, in plain text, with nothing else that only some have.
    #[must_use]
    pub fn new(service: ObjectName, port: u16, protocol: Protocol) -> Self {
        Self {
            service,
            port,
            port_name: String::new(),
            protocol,
            tls: None,
            balance: Balance::default(),
            health_check: None,
            external_name: None,
            limits: ClusterLimits::default(),
            never_begins: false,
            session: None,
        }
    }
}

/// How an endpoint is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Balance {
    /// Of two, the one with fewer requests.
    #[default]
    LeastRequest,
    /// One after the other.
    RoundRobin,
    /// At random.
    Random,
    /// By a hash of the request, on a ring. Its memory does not depend on the number of endpoints.
    RingHash,
    /// By a hash of the request, in a table.
    Maglev,
}

impl Balance {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over the field by reference"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An HTTP health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// The path that is asked for.
    pub path: String,
    /// The Host header.
    pub host: String,
    /// How long from one check to the next.
    #[serde(serialize_with = "duration")]
    pub interval: Duration,
    /// How long to wait for an answer.
    #[serde(serialize_with = "duration")]
    pub timeout: Duration,
    /// After how many failures an endpoint is unhealthy.
    pub unhealthy_after: u32,
    /// After how many successes it is healthy again.
    pub healthy_after: u32,
}

/// How much a cluster may get at once, from each Envoy. What is not set has Envoy's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterLimits {
    /// Connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Requests that wait for a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<u32>,
    /// Requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// Requests in another try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
}

impl ClusterLimits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// In the format of the Gateway API.
fn duration<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    GatewayDuration::from(*duration).serialize(serializer)
}

/// TLS towards a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    /// The name that is asked for (Server Name Indication).
    pub sni: String,
    /// The names of which the backend's certificate must have one.
    pub subject_alt_names: Vec<SubjectAltName>,
    /// Authorities that may sign it.
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
    /// The authorities of the proxy's system.
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
