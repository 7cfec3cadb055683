use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

use super::elsewhere::RoutesElsewhere;

/// What all Envoys have in common: part of the controller's configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EnvoyOptions {
    /// Which build of the filter Envoy runs, and where it has it from.
    pub filter: FilterBuild,
    /// The address that listeners bind to: `0.0.0.0`, or `::` for IPv6 and IPv4.
    pub listen_address: IpAddr,
    /// Whether Envoy writes a line for each request to its standard output, with what happened to the request's session.
    pub access_log: bool,
    /// The environment variable of Envoy's process that holds the key-encryption key (32 bytes in base64).
    pub key_encryption_key_env: String,
    /// Gateways whose Envoys get their routes from somebody else, and the filter alone from here.
    pub routes_elsewhere: Vec<RoutesElsewhere>,
}

impl Default for EnvoyOptions {
    fn default() -> Self {
        Self {
            filter: FilterBuild::default(),
            listen_address: Ipv4Addr::UNSPECIFIED.into(),
            access_log: false,
            key_encryption_key_env: "LIMPET_KEY_ENCRYPTION_KEY".to_owned(),
            routes_elsewhere: Vec::new(),
        }
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

impl Default for FilterBuild {
    fn default() -> Self {
        Self::Wasm(WasmFilter::File("/etc/limpet/limpet.wasm".to_owned()))
    }
}

/// Where Envoy has the wasm filter from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WasmFilter {
    /// A file that Envoy's process can read.
    File(String),
    /// A file that Envoy fetches.
    Remote(RemoteFile),
}

/// A file that Envoy fetches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteFile {
    /// Its URL: `http` or `https`. Envoy does not verify the server: the file's digest says that it is the right one.
    pub url: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Where Envoy has the dynamic module from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModuleFilter {
    /// `lib<name>.so` in the folder that the variable `ENVOY_DYNAMIC_MODULES_SEARCH_PATH` of Envoy's process names.
    Name(String),
    /// A file that Envoy's process can read, for Envoy 1.40 and newer.
    File(String),
}
