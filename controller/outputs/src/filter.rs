//! The filter's configuration, which all outputs share.

use std::collections::{BTreeMap, BTreeSet};

use limpet_api::Text;
use limpet_core::config::schema::{
    FenceConfig, FilterConfig, FormerLagConfig, KeyConfig, PolicyConfig, WrappedKeysConfig, default_clock_skew,
    default_max_idle,
};
use limpet_core::keyring::wrapped::WrappedKeyring;
use limpet_core::time::GatewayDuration;

/// The configuration with these policies, and the fences for sessions of these namespaces.
#[must_use]
pub fn filter_config(
    policies: BTreeMap<String, PolicyConfig>,
    namespaces: &BTreeSet<Text>,
    access_log: bool,
    inputs: &FilterInputs,
) -> FilterConfig {
    let retained = &inputs.retained;
    let mut policies = retained.policies.clone().into_iter().chain(policies).collect();
    retained.add_former_lags(&mut policies);
    let mut config = FilterConfig::without_keys(policies);
    match &inputs.keys {
        FilterKeys::Wrapped(keys) => config.wrapped_keys = Some(keys.clone()),
        FilterKeys::Listed(keys) => config.keys = Some(keys.clone()),
    }
    // Envoys read the whole configuration again with each change, so they get no fences of others.
    let is_served = |namespace: &str| namespaces.contains(namespace) || retained.namespaces.contains(namespace);
    let fences = inputs.fences.iter();
    let fences = fences.filter(|fence| fence.namespace.as_deref().is_none_or(is_served));
    config.fences = fences.cloned().collect();
    config.access_log = access_log;
    config.max_idle = inputs.max_idle;
    config.clock_skew = inputs.clock_skew;
    config
}

/// The environment variables of the Envoy process that hold keys.
#[must_use]
pub fn variables(config: &FilterConfig) -> Vec<String> {
    let wrapped = config.wrapped_keys.iter().flat_map(|keys| &keys.key_encryption_keys);
    let listed = config.keys.iter().flatten().filter_map(|key| key.env.as_ref());
    let names: BTreeSet<&String> = wrapped.map(|key| &key.env).chain(listed).collect();
    names.into_iter().cloned().collect()
}

/// The environment variables that Envoy must have: of the key-encryption key of a wrapped keyring, or of all keys.
#[must_use]
pub fn needed_variables(keys: &FilterKeys) -> Vec<String> {
    match keys {
        FilterKeys::Wrapped(config) => {
            let named = WrappedKeyring::parse(&config.text).map(|wrapped| wrapped.key_encryption_key());
            let all = config.key_encryption_keys.iter();
            let needed = all.filter(|key| named.as_ref().map_or(true, |named| named.0 == key.id));
            needed.map(|key| key.env.clone()).collect()
        }
        FilterKeys::Listed(keys) => keys.iter().filter_map(|key| key.env.clone()).collect(),
    }
}

/// The parts of the filter's configuration that do not come from a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterInputs {
    /// The keyring.
    pub keys: FilterKeys,
    /// Fences: addresses whose owner changed.
    pub fences: Vec<FenceConfig>,
    /// `maxIdle`: the idle bound of sessions without a timeout.
    pub max_idle: GatewayDuration,
    /// `clockSkew`: how far clocks may differ.
    pub clock_skew: GatewayDuration,
    /// What the Gateway's routes do not need any more.
    pub retained: RetainedConfig,
    /// Whether our Envoys report their sessions to the controller.
    pub report_sessions: bool,
}

impl FilterInputs {
    /// Takes these keys, and defaults for the rest.
    #[must_use]
    pub fn with_keys(keys: FilterKeys) -> Self {
        Self {
            keys,
            fences: Vec::new(),
            max_idle: default_max_idle(),
            clock_skew: default_clock_skew(),
            retained: RetainedConfig::default(),
            report_sessions: false,
        }
    }
}

/// What a Gateway's routes need no more, kept for Envoys that still have old routes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetainedConfig {
    /// Policies. Without them, such a route would have no sessions until Envoy has its successor.
    pub policies: BTreeMap<String, PolicyConfig>,
    /// Namespaces of sessions. Without their fences, such a route would lead sessions to new owners of addresses.
    pub namespaces: BTreeSet<Text>,
    /// Longer idle timeouts that policies had, by policy. Without them, sessions that are in use would end.
    pub former_lags: BTreeMap<Text, Vec<FormerLagConfig>>,
}

impl RetainedConfig {
    pub(crate) fn add_former_lags(&self, policies: &mut BTreeMap<String, PolicyConfig>) {
        for (policy, former) in &self.former_lags {
            if let Some(policy) = policies.get_mut(&**policy) {
                policy.former_lags.extend(former.iter().cloned());
            }
        }
    }
}

/// The keyring in the filter's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterKeys {
    /// Sealed as a whole. It changes by a push of configuration, and `/config_dump` shows ciphertext.
    Wrapped(WrappedKeysConfig),
    /// Key by key, from the environment of the Envoy process (or inline, in tests).
    Listed(Vec<KeyConfig>),
}
