//! The configuration as it is written. JSON names are in camel case; a field that is not listed is refused.

#[cfg(feature = "schema")]
mod constraints;
mod duration;
mod keys;
mod policy;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

pub use keys::{InlineKey, KeyConfig, KeyEncryptionKeyConfig, KeyStateConfig, SdsKeysConfig, WrappedKeysConfig};
pub use policy::{
    CacheControlConfig, CookieConfig, CookieModeConfig, HeaderConfig, HeaderModeConfig, LifetimeTypeConfig,
    PolicyConfig, SameSiteConfig, SecureConfig, TokenConfig,
};

use crate::time::GatewayDuration;

#[cfg(feature = "schema")]
use constraints::{POLICY_NAME, exactly_one, one_signs, pattern};

/// Configuration of the Limpet filter, the same for every build of it. Exactly one of `keys`, `wrappedKeys` and
/// `sdsKeys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = exactly_one(&["keys", "wrappedKeys", "sdsKeys"]))))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterConfig {
    /// The keyring. Exactly one key signs; every key verifies its own tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("contains" = one_signs(), "minContains" = 1, "maxContains" = 1)))]
    pub keys: Option<Vec<KeyConfig>>,
    /// The keyring, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapped_keys: Option<WrappedKeysConfig>,
    /// The keyring in a secret that Envoy discovers. For the dynamic module, from Envoy 1.40 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sds_keys: Option<SdsKeysConfig>,
    /// Session policies by name. A name has letters, digits, `.`, `_` and `-`.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = pattern(POLICY_NAME))))]
    #[serde(deserialize_with = "each_once")]
    pub policies: BTreeMap<String, PolicyConfig>,
    /// Which policy applies to which route, for route tables that belong to somebody else. Route metadata, where there
    /// is any, wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteConfig>,
    /// The policy of routes that neither metadata nor `routes` names one for. Without it such routes are untouched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<DefaultConfig>,
    /// Whether what happened to each request's session is left for access logs, in the filter state `limpet.session`.
    /// It costs one host call per request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub access_log: bool,
    /// The idle bound of sessions whose policy has neither `idleTimeout` nor `absoluteTimeout`.
    #[serde(default = "seven_days")]
    pub max_idle: GatewayDuration,
    /// How far ahead of this clock a token's times may be, for Envoys whose clocks differ.
    #[serde(default = "one_minute")]
    pub clock_skew: GatewayDuration,
    /// Addresses that changed their owner: a token for one that was issued before is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fences: Vec<FenceConfig>,
}

impl FilterConfig {
    /// These policies, no keys yet, and everything else as it is by default.
    #[must_use]
    pub fn without_keys(policies: BTreeMap<String, PolicyConfig>) -> Self {
        Self {
            keys: None,
            wrapped_keys: None,
            sds_keys: None,
            policies,
            routes: Vec::new(),
            default: None,
            access_log: false,
            max_idle: seven_days(),
            clock_skew: one_minute(),
            fences: Vec::new(),
        }
    }
}

/// The policy of one route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteConfig {
    /// The route's name in Envoy's route configuration.
    pub route: String,
    /// The virtual host's name, where the route's alone does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_host: Option<String>,
    /// A name from `policies`.
    pub policy: String,
    /// The scope of its sessions; the route's name where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 1024)))]
    pub scope: Option<String>,
}

/// The policy of all other routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultConfig {
    /// A name from `policies`.
    pub policy: String,
    /// One scope for all these routes, so that they share sessions; without it each route has its own, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 1024)))]
    pub scope: Option<String>,
}

/// An address that changed its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FenceConfig {
    /// An IP address, for all its ports, or `ip:port`, `[ip]:port`.
    pub address: String,
    /// Unix seconds: tokens for the address that were issued before are refused.
    pub not_before: u64,
}

/// A map whose names come once each. JSON leaves open which of two values counts; serde would take the last.
fn each_once<'de, D: serde::Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, V>, D::Error> {
    struct EachOnce<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> serde::de::Visitor<'de> for EachOnce<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((name, value)) = entries.next_entry::<String, V>()? {
                if map.contains_key(&name) {
                    let message = format!("expected each name once, found {name:?} again");
                    return Err(serde::de::Error::custom(message));
                }
                map.insert(name, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(EachOnce(PhantomData))
}

// serde hands the field over by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn seven_days() -> GatewayDuration {
    std::time::Duration::from_secs(7 * 24 * 3600).into()
}

fn one_minute() -> GatewayDuration {
    std::time::Duration::from_secs(60).into()
}
