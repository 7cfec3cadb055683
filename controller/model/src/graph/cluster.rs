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
    /// Names the cluster of one protocol. A session may use all clusters of the same port.
    #[must_use]
    pub fn new(base: &str, protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http1 => Self(base.into()),
            Protocol::H2c => Self(format!("{base}#h2c").into()),
        }
    }

    /// The common part of clusters with the same sessions: see [`limpet_core::token::cluster_base`].
    #[must_use]
    pub fn base(&self) -> &[u8] {
        limpet_core::token::cluster_base(self.0.as_bytes())
    }

    /// The base as text.
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
    pub fn destination(&self) -> limpet_core::token::DestinationId {
        limpet_core::token::DestinationId::of_cluster(self.0.as_bytes())
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
    /// The port's name, as EndpointSlices have it; empty if it has none.
    pub port_name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// TLS; plain text if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// Chooses the endpoint of requests without a session.
    #[serde(skip_serializing_if = "Balance::is_default")]
    pub balance: Balance,
    /// Finds out whether an endpoint is healthy. If not set, only EndpointSlices say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// The DNS name of the endpoints. If not set, EndpointSlices have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_name: Option<String>,
    /// Limits of its load.
    #[serde(skip_serializing_if = "ClusterLimits::is_default")]
    pub limits: ClusterLimits,
    /// Whether no session of a rule begins here, so that the weights choose again for the client's next request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_begins: bool,
    /// The backend's own sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionUse>,
}

impl Cluster {
    /// A cluster of a port without a name, in plain text, and all else by default.
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
    /// By a hash of the request, on a ring, whose memory does not depend on the number of endpoints.
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
    /// The path that it requests.
    pub path: String,
    /// The Host header.
    pub host: String,
    /// The time between checks.
    #[serde(serialize_with = "duration")]
    pub interval: Duration,
    /// How long to wait for an answer.
    #[serde(serialize_with = "duration")]
    pub timeout: Duration,
    /// Failures until an endpoint is unhealthy.
    pub unhealthy_after: u32,
    /// Successes until it is healthy again.
    pub healthy_after: u32,
}

/// Limits of a cluster's load from each Envoy. Those that are not set have Envoy's default.
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

fn duration<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    GatewayDuration::from(*duration).serialize(serializer)
}

/// TLS towards a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    /// The name for Server Name Indication.
    pub sni: String,
    /// Names of which the backend's certificate must have one.
    pub subject_alt_names: Vec<SubjectAltName>,
    /// Authorities that may sign it.
    pub authorities: TrustedAuthorities,
}

/// A name in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SubjectAltName {
    /// A host, with a wildcard only if the certificate has the very same one.
    Dns(String),
    /// A URI.
    Uri(String),
}

/// The authorities that verify certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TrustedAuthorities {
    /// The authorities of the proxy's system.
    System,
    /// These authorities.
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
