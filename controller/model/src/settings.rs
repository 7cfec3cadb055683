use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use limpet_core::config::schema::{CacheControlConfig, CookieModeConfig, SameSiteConfig, SecureConfig, TokenConfig};

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
    pub session_defaults: SessionDefaults,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controller_name: CONTROLLER_NAME.to_owned(),
            gateways: Gateways::Ours,
            session_defaults: SessionDefaults::default(),
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

/// What GEP-1619 has no field for. Annotations of a policy or a route override it, field by field.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a field of its own in the configuration"
)]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionDefaults {
    /// Whether a request fails when its session's backend is gone.
    pub strict: bool,
    /// The status of a request that `strict` fails, 400 to 599; 503 where there is none.
    pub strict_status: Option<u16>,
    /// The cookie's `SameSite`.
    pub same_site: SameSiteConfig,
    /// Whether the cookie is Secure.
    pub secure: SecureConfig,
    /// The cookie's `Domain`.
    pub domain: Option<String>,
    /// Whether scripts can read the cookie.
    pub script_access: bool,
    /// Whether the cookie is kept apart per top-level site.
    pub partitioned: bool,
    /// The cookie's `Path`, where the object has no field for it.
    pub path: CookiePath,
    /// Whether a token's content is hidden from the client.
    pub token: TokenConfig,
    /// Whose the cookie or header is. For headers `rewrite` is refused.
    pub mode: CookieModeConfig,
    /// Whether the backend sees the cookie or header.
    pub forward: bool,
    /// What happens to the caching of a response that carries a token.
    pub cache_control: CacheControlConfig,
}

/// Where a cookie's path comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CookiePath {
    /// `/`: today's rule.
    #[default]
    Root,
    /// The older rule of the GEP: from the route's matches for inline persistence.
    Route,
}
