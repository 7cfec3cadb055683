use limpet_api::EnvoyDeploymentSpec;
use limpet_model::AllowedMetadata;
use serde::{Deserialize, Serialize};

/// The section `envoy.managed` of the controller's configuration, for Gateways' Envoys that it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ManagedOptions {
    /// The namespace of all objects.
    pub namespace: EnvoysNamespace,
    /// The image of the command and the filter.
    pub limpet_image: String,
    /// The image of Envoy.
    pub envoy_image: String,
    /// `host:port` of the xDS server; by default, the Service `limpet-controller` in the controller's namespace.
    pub xds: Option<String>,
    /// Used where neither Gateways nor classes say something else.
    pub defaults: EnvoyDeploymentSpec,
    /// Labels and annotations that Gateways of other namespaces may ask for.
    pub infrastructure: AllowedMetadata,
    /// The rest of the configuration.
    #[serde(skip)]
    pub surroundings: EnvoyEnvironment,
}

/// The namespace of all objects of Envoys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnvoysNamespace {
    /// The controller's, which keeps keys from readers of Secrets in the namespaces of Gateways.
    #[default]
    Controller,
    /// Each Gateway's.
    Gateway,
}

/// Needs of Envoys, from the rest of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvoyEnvironment {
    /// The controller's namespace.
    pub namespace: String,
    /// The port of its xDS server.
    pub xds_port: u16,
    /// Whether Envoys authenticate themselves to it.
    pub tls: bool,
    /// The Secret with the key-encryption keys, if the keyring is in Secrets.
    pub key_encryption_keys: Option<String>,
}

impl Default for ManagedOptions {
    fn default() -> Self {
        Self {
            namespace: EnvoysNamespace::default(),
            limpet_image: concat!("ghcr.io/limpet-dev/limpet:", env!("CARGO_PKG_VERSION")).to_owned(),
            envoy_image: "envoyproxy/envoy:distroless-v1.40.0".to_owned(),
            xds: None,
            defaults: EnvoyDeploymentSpec::default(),
            infrastructure: AllowedMetadata::default(),
            surroundings: EnvoyEnvironment::default(),
        }
    }
}

impl ManagedOptions {
    /// The address of the xDS server, for Envoys.
    #[must_use]
    pub fn xds(&self) -> String {
        let EnvoyEnvironment {
            namespace, xds_port, ..
        } = &self.surroundings;
        let own = || format!("limpet-controller.{namespace}:{xds_port}");
        self.xds.clone().unwrap_or_else(own)
    }
}
