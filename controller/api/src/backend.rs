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
    /// Selects the pods.
    #[serde(default)]
    pub endpoint_selector: Option<EndpointSelector>,
    /// The port of the pods.
    #[serde(default)]
    pub port: Option<BackendPort>,
    /// The protocol: `HTTP`, `H2C` and others.
    #[serde(default)]
    pub protocol: Option<String>,
    /// Session persistence of this backend, whatever rule leads to it.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
    /// TLS towards the backend; only the mode `None` is supported.
    #[serde(default)]
    pub tls: Option<BackendTlsSettings>,
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
pub struct BackendTlsSettings {
    /// `None`, `ServerOnly` or `ClientAndServer`.
    #[serde(default)]
    pub mode: Option<String>,
}
