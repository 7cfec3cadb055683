use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::infrastructure::AllowedMetadata;
use super::session_fields::SessionFields;
use super::tls_version::TlsVersion;
use limpet_api::{EnvoyDeploymentSpec, ObjectName};
use limpet_core::time::GatewayDuration;

/// The `controllerName` of our GatewayClasses, and of our entries in statuses.
pub const CONTROLLER_NAME: &str = "limpet.dev/controller";

/// The settings that a graph is built with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name in our GatewayClasses and our entries in statuses.
    pub controller_name: String,
    /// Whose Gateways are read.
    pub gateways: GatewayOwner,
    /// Namespaces whose objects are read; all if empty.
    pub namespaces: BTreeSet<String>,
    /// How the controller keeps the Envoys of Gateways, if it does.
    pub managed: Option<ManagedEnvoys>,
    /// Settings of sessions that objects override.
    pub session_defaults: SessionFields,
    /// How `IngressRoute`s are read, if they are.
    pub contour: Option<ContourSettings>,
    /// Limits of each object.
    pub session_limits: SessionLimits,
}

/// Limits of an object's sessions, which cost all Envoys and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// The longest timeout: a key of tokens retires for that long.
    pub life: GatewayDuration,
    /// Entries of a table of clients (`source`). Each may take 120 bytes in every Envoy.
    pub source_entries: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            // As long as a key signs by default.
            life: Duration::from_secs(30 * 24 * 3600).into(),
            source_entries: 1_000_000,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controller_name: CONTROLLER_NAME.to_owned(),
            gateways: GatewayOwner::Ours,
            namespaces: BTreeSet::new(),
            managed: None,
            session_defaults: SessionFields::default(),
            contour: None,
            session_limits: SessionLimits::default(),
        }
    }
}

/// How `IngressRoute`s are read: the section `contour` of the controller's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContourSettings {
    /// The `node.cluster` of the Envoys, as `namespace/name`. No Gateway object has this name.
    #[serde(deserialize_with = "gateway_name")]
    pub gateway: ObjectName,
    /// The class whose objects are read.
    #[serde(default = "contour_class")]
    pub ingress_class: String,
    /// Whether objects without a class are also read.
    #[serde(default = "yes")]
    pub unclassified: bool,
    /// Namespaces whose objects may be roots; all if empty.
    #[serde(default)]
    pub root_namespaces: BTreeSet<String>,
    /// The ports of the Envoys.
    #[serde(default)]
    pub ports: ContourPorts,
    /// Whether `permitInsecure` counts.
    #[serde(default = "yes")]
    pub permit_insecure: bool,
    /// The lowest version of TLS. An object may ask for a higher one.
    #[serde(default = "tls_1_2")]
    pub minimum_protocol_version: TlsVersion,
    /// Whether Services of type `ExternalName` count.
    #[serde(default)]
    pub external_names: bool,
    /// The number of proxies in front of the Envoys that are trusted with the client's address.
    #[serde(default)]
    pub trusted_hops: u32,
}

impl ContourSettings {
    /// Whether objects of this namespace may be roots.
    pub(crate) fn permits_roots(&self, namespace: &str) -> bool {
        self.root_namespaces.is_empty() || self.root_namespaces.contains(namespace)
    }
}

/// The ports of Envoys that serve `IngressRoute`s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContourPorts {
    /// The port without TLS.
    pub http: NonZeroU16,
    /// The port with TLS.
    pub https: NonZeroU16,
}

impl Default for ContourPorts {
    fn default() -> Self {
        Self {
            http: const { NonZeroU16::new(8080).unwrap() },
            https: const { NonZeroU16::new(8443).unwrap() },
        }
    }
}

fn gateway_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectName, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ObjectName::new(namespace, name))
        }
        _ => Err(D::Error::custom(format!("expected namespace/name, found {text:?}"))),
    }
}

fn contour_class() -> String {
    "contour".to_owned()
}

fn yes() -> bool {
    true
}

fn tls_1_2() -> TlsVersion {
    TlsVersion::V1_2
}

/// How the controller keeps the Envoys of Gateways.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedEnvoys {
    /// The namespace of their objects; each Gateway's if `None`.
    pub namespace: Option<String>,
    /// Used where neither Gateways nor classes say something else.
    pub defaults: EnvoyDeploymentSpec,
    /// What Gateways of other namespaces may ask for.
    pub infrastructure: AllowedMetadata,
}

/// Whose Gateways are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GatewayOwner {
    /// Gateways of the classes with our `controllerName`. Limpet reports on class, Gateway and routes, and refuses what
    /// is not supported.
    #[default]
    Ours,
    /// Gateways of the classes with one of these `controllerName`s. Another control plane serves and reports on them;
    /// Limpet only adds sessions.
    Of(BTreeSet<String>),
}

impl Settings {
    /// Whether Gateways of a class with this `controllerName` are read.
    #[must_use]
    pub fn selects(&self, controller_name: &str) -> bool {
        match &self.gateways {
            GatewayOwner::Ours => self.controller_name == controller_name,
            GatewayOwner::Of(controllers) => controllers.contains(controller_name),
        }
    }

    /// Whether Limpet reports on classes, Gateways and routes, and refuses what is not supported.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.gateways == GatewayOwner::Ours
    }
}
