use std::collections::BTreeMap;

use serde::Deserialize;

use super::decode::Spec;
use super::session::SessionPersistence;

/// `XBackend`, gateway.networking.x-k8s.io/v1alpha1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct XBackendSpec {
    /// `EndpointSelector`, or `ExternalHostname`, which is refused.
    #[serde(rename = "type")]
    pub kind: String,
    /// The pods.
    #[serde(default)]
    pub endpoint_selector: Option<EndpointSelector>,
    /// Their port.
    #[serde(default)]
    pub port: Option<BackendPort>,
    /// What is spoken: `HTTP`, `H2C` and others.
    #[serde(default)]
    pub protocol: Option<String>,
    /// Sessions of this backend's own.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
    /// TLS towards the backend; only the mode `None` is supported.
    #[serde(default)]
    pub tls: Option<BackendTls>,
}

impl Spec for XBackendSpec {}

/// The pods of a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSelector {
    /// Labels that a pod must have.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// A backend's port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct BackendPort {
    /// Its number.
    pub number: u16,
}

/// TLS towards a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct BackendTls {
    /// `None`, `ServerOnly` or `ClientAndServer`.
    #[serde(default)]
    pub mode: Option<String>,
}
