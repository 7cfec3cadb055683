use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::elsewhere::RoutesElsewhere;
use super::managed::ManagedOptions;
use limpet_api::{EnvoyFilterBuild, ObjectName};
use limpet_core::envoy::{DISCOVERED_MODULE, DISCOVERED_WASM};
use limpet_core::time::GatewayDuration;
use limpet_model::Graph;

const MODULE: &str = "limpet";

/// The section `envoy` of the controller's configuration, for all Envoys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EnvoyOptions {
    /// The build of the filter, and its source.
    pub filter: FilterBuild,
    /// The address that listeners bind to: `0.0.0.0`, or `::` for IPv6 and IPv4.
    pub listen_address: IpAddr,
    /// The limit of a connection to a pod with its TLS handshake, before Envoy tries another pod.
    pub connect_timeout: GatewayDuration,
    /// Whether Envoy logs each request, with the outcome of its session, to standard output.
    pub access_log: bool,
    /// The environment variable of Envoy with the key-encryption key (32 bytes in base64).
    pub key_encryption_key_env: String,
    /// Envoy's file with the certificates of well-known authorities, for `wellKnownCACertificates: System`.
    pub system_authorities: String,
    /// How sessions of rules with several destinations are led, where Envoy runs the dynamic module.
    pub splits: Splits,
    /// Gateways whose Envoys get their routes from another control plane, and only the filter from here.
    pub routes_elsewhere: Vec<RoutesElsewhere>,
    /// How the controller keeps the Envoys of Gateways, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedOptions>,
}

impl Default for EnvoyOptions {
    fn default() -> Self {
        Self {
            filter: FilterBuild::default(),
            listen_address: Ipv4Addr::UNSPECIFIED.into(),
            // Pods answer within milliseconds. One that is gone, with its node for example, may answer nothing.
            connect_timeout: Duration::from_secs(1).into(),
            access_log: false,
            key_encryption_key_env: "LIMPET_KEY_ENCRYPTION_KEY".to_owned(),
            system_authorities: "/etc/ssl/certs/ca-certificates.crt".to_owned(),
            splits: Splits::default(),
            routes_elsewhere: Vec::new(),
            managed: None,
        }
    }
}

/// How a session of a rule with several destinations is led to its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Splits {
    /// Each destination has a route in front of the weighted one.
    #[default]
    Routes,
    /// A cluster specifier of the dynamic module chooses, for Envoy 1.40 and newer. Rules whose destinations change
    /// headers, and Gateways with the wasm filter, still have routes.
    Specifier,
}

impl EnvoyOptions {
    /// The options of this Gateway's Envoys, which may have the other build of the filter, where `limpet install` puts
    /// it.
    pub(super) fn of(&self, graph: &Graph, gateway: &ObjectName) -> Cow<'_, Self> {
        let build = graph.envoys.get(gateway).and_then(|envoys| envoys.filter);
        let filter = match (build, &self.filter) {
            (Some(EnvoyFilterBuild::Wasm), FilterBuild::Module(_)) => FilterBuild::default(),
            // Envoys before 1.40 also take a name.
            (Some(EnvoyFilterBuild::Module), FilterBuild::Wasm(_)) => {
                FilterBuild::Module(ModuleFilter::Name(MODULE.to_owned()))
            }
            _ => return Cow::Borrowed(self),
        };
        // A Gateway with its own build may be changing it: listeners that drain still run the other one.
        let splits = Splits::Routes;
        Cow::Owned(Self {
            filter,
            splits,
            ..self.clone()
        })
    }

    pub(super) fn elsewhere(&self, gateway: &ObjectName) -> Option<&RoutesElsewhere> {
        self.routes_elsewhere.iter().find(|elsewhere| elsewhere.is_of(gateway))
    }
}

/// A build of the filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FilterBuild {
    /// The wasm filter, for Envoy 1.36 and newer.
    Wasm(WasmFilter),
    /// The dynamic module, for Envoy 1.38 and newer.
    Module(ModuleFilter),
}

impl FilterBuild {
    /// The name of the filter in a listener, and of its configuration (ECDS).
    #[must_use]
    pub const fn discovered_name(&self) -> &'static str {
        match self {
            Self::Wasm(_) => DISCOVERED_WASM,
            Self::Module(_) => DISCOVERED_MODULE,
        }
    }
}

impl Default for FilterBuild {
    fn default() -> Self {
        Self::Wasm(WasmFilter::File("/etc/limpet/limpet.wasm".to_owned()))
    }
}

/// The source of the wasm filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WasmFilter {
    /// A file that the Envoy process can read.
    File(String),
    /// A file that Envoy downloads.
    Remote(RemoteFile),
}

/// A file that Envoy downloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteFile {
    /// An `http` or `https` URL. Envoy does not verify the server; the digest verifies the file.
    pub url: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// The source of the dynamic module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModuleFilter {
    /// `lib<name>.so` in Envoy's `ENVOY_DYNAMIC_MODULES_SEARCH_PATH`.
    Name(String),
    /// A file that the Envoy process can read, for Envoy 1.40 and newer.
    File(String),
}
