use std::collections::BTreeMap;

use serde::Deserialize;

use super::decode::Spec;

/// What is read of a `Service`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<ServicePort>,
    /// `ClusterIP` if it is not set. An `ExternalName` has no endpoints.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// `None` or `ClientIP`.
    #[serde(default)]
    pub session_affinity: Option<String>,
    /// The labels of its pods.
    #[serde(default)]
    pub selector: BTreeMap<String, String>,
}

impl Spec for ServiceSpec {}

/// A port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Its name, as EndpointSlices have it; empty if it is the only port.
    #[serde(default)]
    pub name: String,
    /// Its number.
    pub port: u16,
    /// `TCP` if it is not set.
    #[serde(default)]
    pub protocol: Option<String>,
    /// The application protocol, like `kubernetes.io/h2c`.
    #[serde(default)]
    pub app_protocol: Option<String>,
}
