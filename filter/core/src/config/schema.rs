//! The configuration as it is written: camel case in JSON, and no unknown fields.

mod begin;
#[cfg(feature = "schema")]
mod constraints;
mod duration;
mod former_lag;
mod further;
mod keys;
mod moving;
mod policy;
mod reports;
mod source;
mod specifier;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize};

pub use begin::{BeginConfig, BeginWhenConfig, BeginWordConfig, EndConfig};
pub use former_lag::FormerLagConfig;
pub use further::{
    FurtherConfig, FurtherFieldConfig, FurtherParameterConfig, QueryConfig, TellConfig, TellHeaderConfig,
};
pub use keys::{InlineKey, KeyConfig, KeyEncryptionKeyConfig, KeyStateConfig, SdsKeysConfig, WrappedKeysConfig};
pub use moving::MoveConfig;
pub use policy::{
    CacheControlConfig, CookieConfig, CookieModeConfig, HeaderConfig, HeaderModeConfig, LifetimeTypeConfig,
    PolicyConfig, SameSiteConfig, SecureConfig, TokenConfig,
};

pub use reports::ReportSessionsConfig;
pub use source::SourceConfig;
pub use specifier::{SpecifierConfig, SpecifierDestinationConfig};

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
    /// The keyring, sealed under a key-encryption key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapped_keys: Option<WrappedKeysConfig>,
    /// The keyring in a secret that Envoy discovers (SDS). Needs the dynamic module and Envoy 1.40 or newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sds_keys: Option<SdsKeysConfig>,
    /// Session policies by name. A name consists of letters, digits, `.`, `_` and `-`.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = pattern(POLICY_NAME))))]
    #[serde(deserialize_with = "each_once")]
    pub policies: BTreeMap<String, PolicyConfig>,
    /// The policies of routes, for route tables that others own. Route metadata takes precedence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteConfig>,
    /// The policy of routes without metadata and without an entry in `routes`. Without it, such routes have no
    /// sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<DefaultConfig>,
    /// Whether the filter state `limpet.session` tells access logs what happened to each request's session. Costs one
    /// host call per request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub access_log: bool,
    /// Counts the living sessions of each backend, and tells a controller of them. Without it, nothing is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_sessions: Option<ReportSessionsConfig>,
    /// How long a session may stay unused if its policy has neither `idleTimeout` nor `absoluteTimeout`.
    #[serde(default = "default_max_idle")]
    pub max_idle: GatewayDuration,
    /// How far the times of a token may be in the future, for Envoys whose clocks differ.
    #[serde(default = "default_clock_skew")]
    pub clock_skew: GatewayDuration,
    /// Addresses that have a new owner. Tokens for them that were issued earlier are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fences: Vec<FenceConfig>,
    /// The hosts of clusters whose sessions move: for each name of a cluster, each host's `ip:port` and what an
    /// application may call it. Without a cluster's hosts, applications name addresses, and what is no host of the
    /// cluster shows with the next request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "each_once")]
    pub hosts: BTreeMap<String, BTreeMap<String, String>>,
}

impl FilterConfig {
    /// A configuration with these policies, without keys, and otherwise with defaults.
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
            report_sessions: None,
            max_idle: default_max_idle(),
            clock_skew: default_clock_skew(),
            fences: Vec::new(),
            hosts: BTreeMap::new(),
        }
    }
}

/// The policy of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteConfig {
    /// The name of the route in Envoy's route configuration.
    pub route: String,
    /// The name of the virtual host, if several have a route of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_host: Option<String>,
    /// A name from `policies`.
    pub policy: String,
    /// The scope of the route's sessions. Without it, the name of the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 1024)))]
    pub scope: Option<String>,
    /// Whether Envoy chooses the cluster for every request, and a client has a session in each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_cluster: bool,
}

/// The policy of all other routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultConfig {
    /// A name from `policies`.
    pub policy: String,
    /// One scope for all these routes, so that they share sessions. Without it, each route has its name as its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 1024)))]
    pub scope: Option<String>,
}

/// An address that has a new owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FenceConfig {
    /// An IP address, which stands for all its ports, or `ip:port` or `[ip]:port`.
    pub address: String,
    /// Only tokens of the scopes `<kind>/<namespace>/…` are refused, as the controller names the rules of a namespace's
    /// routes. Without it, tokens of all scopes are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub namespace: Option<String>,
    /// Unix time in seconds. Tokens for the address that were issued earlier are refused.
    pub not_before: u64,
}

/// A map without duplicate names: of two values, serde would take the last.
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

/// One of the words of a type. Of other types, serde would say "expected map with a single key".
fn word<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Word<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Word<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            // Only its error has the words of a type.
            let no_word = StrDeserializer::<serde::de::value::Error>::new("");
            let error = T::deserialize(no_word).err().map(|error| error.to_string());
            let words = error.as_ref().and_then(|error| error.split_once("expected "));
            f.write_str(words.map_or("a text", |(_, words)| words))
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            T::deserialize(StrDeserializer::new(text))
        }
    }

    deserializer.deserialize_str(Word(PhantomData))
}

// serde passes the field by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The default of `maxIdle`: seven days.
#[must_use]
pub fn default_max_idle() -> GatewayDuration {
    std::time::Duration::from_secs(7 * 24 * 3600).into()
}

/// The default of `clockSkew`: one minute.
#[must_use]
pub fn default_clock_skew() -> GatewayDuration {
    std::time::Duration::from_secs(60).into()
}
