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
    /// `ClusterIP` where there is none; `ExternalName` has no endpoints.
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
    /// Its name, by which its EndpointSlices have it; empty where there is one port alone.
    #[serde(default)]
    pub name: String,
    /// Its number.
    pub port: u16,
    /// `TCP` where there is none.
    #[serde(default)]
    pub protocol: Option<String>,
    /// What is spoken on it, like `kubernetes.io/h2c`.
    #[serde(default)]
    pub app_protocol: Option<String>,
}
