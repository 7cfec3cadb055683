//! The filter's configuration, which all outputs have in common.

use std::collections::{BTreeMap, BTreeSet};

use limpet_core::config::schema::{FenceConfig, FilterConfig, KeyConfig, PolicyConfig, WrappedKeysConfig};
use limpet_core::time::GatewayDuration;

/// The filter's configuration with these policies.
#[must_use]
pub fn filter_config(
    policies: BTreeMap<String, PolicyConfig>,
    access_log: bool,
    inputs: &FilterInputs,
) -> FilterConfig {
    let policies = inputs.superseded.clone().into_iter().chain(policies).collect();
    let mut config = FilterConfig::without_keys(policies);
    match &inputs.keys {
        FilterKeys::Wrapped(keys) => config.wrapped_keys = Some(keys.clone()),
        FilterKeys::Listed(keys) => config.keys = Some(keys.clone()),
    }
    config.fences.clone_from(&inputs.fences);
    config.access_log = access_log;
    config.max_idle = inputs.max_idle.unwrap_or(config.max_idle);
    config.clock_skew = inputs.clock_skew.unwrap_or(config.clock_skew);
    config
}

/// The environment variables of Envoy's process that keys come from.
#[must_use]
pub fn variables(config: &FilterConfig) -> Vec<String> {
    let wrapped = config.wrapped_keys.iter().flat_map(|keys| &keys.key_encryption_keys);
    let listed = config.keys.iter().flatten().filter_map(|key| key.env.as_ref());
    let names: BTreeSet<&String> = wrapped.map(|key| &key.env).chain(listed).collect();
    names.into_iter().cloned().collect()
}

/// What the filter's configuration has that is in no graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterInputs {
    /// The keyring.
    pub keys: FilterKeys,
    /// Addresses that changed their owner.
    pub fences: Vec<FenceConfig>,
    /// The idle bound of sessions without a timeout; the filter's own default where there is none.
    pub max_idle: Option<GatewayDuration>,
    /// How far clocks may differ; the filter's own default where there is none.
    pub clock_skew: Option<GatewayDuration>,
    /// Policies that no route uses any more, for Envoys that still have routes that do: without them such a route would have no sessions until Envoy has
    /// its successor.
    pub superseded: BTreeMap<String, PolicyConfig>,
}

impl FilterInputs {
    /// These keys, and nothing else said.
    #[must_use]
    pub fn with_keys(keys: FilterKeys) -> Self {
        Self {
            keys,
            fences: Vec::new(),
            max_idle: None,
            clock_skew: None,
            superseded: BTreeMap::new(),
        }
    }
}

/// The keyring in the filter's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterKeys {
    /// Sealed: it changes by a push of configuration, and `/config_dump` shows ciphertext.
    Wrapped(WrappedKeysConfig),
    /// Key by key, from Envoy's environment (or in the text, in tests).
    Listed(Vec<KeyConfig>),
}
