use std::collections::BTreeSet;
use std::time::Duration;

use super::session_fields::SessionFields;
use limpet_api::EnvoyDeploymentSpec;
use limpet_core::time::GatewayDuration;

/// The `controllerName` of our GatewayClasses, and of our entries in statuses.
pub const CONTROLLER_NAME: &str = "limpet.dev/controller";

/// The settings that a graph is built with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Our `controllerName`: that of our GatewayClasses, and of our entries in statuses.
    pub controller_name: String,
    /// Whose Gateways are read.
    pub gateways: Gateways,
    /// The namespaces whose objects are read; all of them if empty.
    pub namespaces: BTreeSet<String>,
    /// If the controller keeps the Envoys of Gateways: how.
    pub managed: Option<ManagedEnvoys>,
    /// What sessions have if no object says otherwise.
    pub session_defaults: SessionFields,
    /// What no object may exceed.
    pub session_limits: SessionLimits,
}

/// What the sessions of an object may ask of everybody's Envoys and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// The longest timeout: a key of tokens retires for as long as the longest one.
    pub life: GatewayDuration,
    /// The most entries of a table of clients (`source`). Each may take 120 bytes in every Envoy.
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
            gateways: Gateways::Ours,
            namespaces: BTreeSet::new(),
            managed: None,
            session_defaults: SessionFields::default(),
            session_limits: SessionLimits::default(),
        }
    }
}

/// How the controller keeps the Envoys of Gateways.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedEnvoys {
    /// Where their objects are; in the namespace of each Gateway if `None`.
    pub namespace: Option<String>,
    /// What neither Gateways nor classes say.
    pub defaults: EnvoyDeploymentSpec,
}

/// Whose Gateways are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Gateways {
    /// Those of the classes with our `controllerName`. Limpet reports on class, Gateway and routes, and refuses what is
    /// not supported.
    #[default]
    Ours,
    /// Those of the classes with one of these `controllerName`s, which another control plane serves. It reports on them
    /// and may support more than Limpet, which only adds sessions.
    Of(BTreeSet<String>),
}

impl Settings {
    /// Whether Gateways of a class with this `controllerName` are read.
    #[must_use]
    pub fn reads(&self, controller_name: &str) -> bool {
        match &self.gateways {
            Gateways::Ours => self.controller_name == controller_name,
            Gateways::Of(controllers) => controllers.contains(controller_name),
        }
    }

    /// Whether Limpet reports on classes, Gateways and routes, and refuses what is not supported.
    #[must_use]
    pub fn judges(&self) -> bool {
        self.gateways == Gateways::Ours
    }
}
