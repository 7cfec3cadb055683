use std::collections::BTreeSet;

use super::session_fields::SessionFields;

/// The `controllerName` of our GatewayClasses, and the name that we write status under.
pub const CONTROLLER_NAME: &str = "limpet.dev/controller";

/// What graphs are built with, besides objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Our `controllerName`: that of our GatewayClasses, and of our entries in statuses.
    pub controller_name: String,
    /// Whose Gateways are read.
    pub gateways: Gateways,
    /// What sessions are like where nothing else is said.
    pub session_defaults: SessionFields,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controller_name: CONTROLLER_NAME.to_owned(),
            gateways: Gateways::Ours,
            session_defaults: SessionFields::default(),
        }
    }
}

/// Whose Gateways are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Gateways {
    /// Those of the classes with our `controllerName`. Class, Gateway and routes are ours to judge: what is not supported is refused.
    #[default]
    Ours,
    /// Those of the classes with one of these `controllerName`s, which another control plane serves. That one judges them and gives them their meaning,
    /// also where it is more than is known here; sessions alone are added to it.
    Of(BTreeSet<String>),
}

impl Settings {
    /// Whether the Gateways of a class with this `controllerName` are read.
    #[must_use]
    pub fn reads(&self, controller_name: &str) -> bool {
        match &self.gateways {
            Gateways::Ours => self.controller_name == controller_name,
            Gateways::Of(controllers) => controllers.contains(controller_name),
        }
    }

    /// Whether classes, Gateways and routes are ours to judge.
    #[must_use]
    pub fn judges(&self) -> bool {
        self.gateways == Gateways::Ours
    }
}
