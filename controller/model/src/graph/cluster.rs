//! What routes lead to.

use std::fmt;

use limpet_api::ObjectName;
use serde::Serialize;

use super::session::SessionUse;
use crate::certificate::Authorities;

/// A cluster's name in Envoy. Tokens name clusters by a hash of its base.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ClusterName(pub String);

impl ClusterName {
    /// What clusters with the same sessions have in common: see [`limpet_core::token::cluster_base`].
    #[must_use]
    pub fn base(&self) -> &[u8] {
        limpet_core::token::cluster_base(self.0.as_bytes())
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
    /// Whether the client's address chooses the endpoint of requests without a session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_address: bool,
    /// Whether no session of a rule begins here, so that the weights choose for the client's next request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_begins: bool,
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
