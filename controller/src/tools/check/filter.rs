//! The filter's own configuration.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{CheckReport, CheckedFilter, Severity};
use super::session_conflicts;
use crate::envoy_config::filter_locator::LocatedBuild;
use crate::envoy_config::node::ConfigNode;
use crate::time_format;
use crate::tools::keys::source;
use limpet_core::carrier::cookie_domain;
use limpet_core::config::FencesAhead;
use limpet_core::config::schema::{FilterConfig, KeyConfig, KeyStateConfig};
use limpet_core::keyring::wrapped::WrappedKeyring;
use limpet_core::{Filter, config};

/// A key in place of one that only Envoy's environment has, to check the rest of the configuration with.
const STAND_IN: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// A variable that is never set.
const UNKNOWN: &str = "LIMPET_STAND_IN";

/// As seconds, it is the year 5138; as milliseconds, 1973.
const MILLISECONDS: u64 = 100_000_000_000;

/// What is known of the use of a configuration.
#[derive(Default)]
pub(super) struct FilterUsage {
    /// The build that reads it, if that is known.
    pub(super) build: Option<LocatedBuild>,
    /// The variables of its environment that Envoy hands to a wasm filter.
    pub(super) forwarded: BTreeSet<String>,
    /// The variables that Envoy's configuration has for a wasm filter.
    pub(super) values: BTreeMap<String, String>,
}

impl FilterUsage {
    /// The variable as the filter will see it, as far as it is known here.
    fn variable(&self, name: &str) -> Option<String> {
        self.values.get(name).cloned().or_else(|| std::env::var(name).ok())
    }
}

/// Checks a configuration that stands at `node`; `require_environment`: all its variables must be set here.
pub(super) fn check(
    report: &mut CheckReport,
    node: &ConfigNode<'_>,
    json: &[u8],
    usage: &FilterUsage,
    require_environment: bool,
) {
    let mut config = match config::parse(json) {
        Ok(config) => config,
        Err(error) => return add_problems(report, node, error),
    };
    for (name, policy) in &config.policies {
        if let Some(message) = policy.domain().and_then(cookie_domain::problem) {
            let field = format!("policies.{name}.cookie.domain");
            report.field(Severity::Error, node, &field, message);
        }
    }
    let variables = variables(&config);
    report.checked.push(CheckedFilter {
        file: node.file.to_owned(),
        path: node.path.clone(),
        keys: key_ids(&config),
        policies: config.policies.keys().cloned().collect(),
    });
    check_fences(report, node, &mut config);
    if usage.build.is_none() {
        session_conflicts::check_alone(report, node, &config);
    }
    let mut missing: Vec<&SecretVariable> = variables.iter().filter(|variable| variable.is_missing(usage)).collect();
    if !check_variables(report, node, &variables, usage) {
        // The filter's own message would repeat what stands in `env`.
        stand_in(&mut config, UNKNOWN);
        missing.clear();
    }
    if let Some(warning) = FencesAhead::new().bound(&mut config, time_format::now()) {
        report.field(Severity::Warning, node, warning.field(), warning.to_string());
    }
    check_with_stand_ins(report, node, config, usage, missing.first().copied());
    for SecretVariable { field, name, holds, .. } in missing {
        if require_environment {
            let message = format!("expected the environment variable {name}, which is not set here");
            report.field(Severity::Error, node, field, message);
        } else {
            let message = format!(
                "not checked: the {holds} in the environment variable {name}, which is not set here (--env makes this \
                 an error)"
            );
            report.field(Severity::Note, node, field, message);
        }
    }
}

/// Has the filter itself check a configuration; what is not known here is replaced.
fn check_with_stand_ins(
    report: &mut CheckReport,
    node: &ConfigNode<'_>,
    mut config: FilterConfig,
    usage: &FilterUsage,
    missing: Option<&SecretVariable>,
) {
    if let (Some(_), Some(missing)) = (&config.wrapped_keys, missing) {
        // Nothing stands in for a key-encryption key, so a key stands in for the keyring.
        stand_in(&mut config, &missing.name);
    }
    let environment = |name: &str| Some(usage.variable(name).unwrap_or_else(|| STAND_IN.to_owned()));
    let checked = match &config.sds_keys {
        Some(_) if usage.build != Some(LocatedBuild::Wasm) => {
            let message = "not checked: the keyring, in a secret that Envoy discovers";
            report.field(Severity::Note, node, "sdsKeys", message);
            Filter::without_keys(&config).map(|_| config::warnings(&config))
        }
        _ => Filter::new(&config, &environment).map(|(_, warnings)| warnings),
    };
    match checked {
        Ok(warnings) => {
            for warning in warnings {
                report.field(Severity::Warning, node, warning.field(), warning.to_string());
            }
        }
        Err(error) => add_problems(report, node, error),
    }
}

/// Puts one key into the place of the keyring.
fn stand_in(config: &mut FilterConfig, variable: &str) {
    (config.wrapped_keys, config.sds_keys) = (None, None);
    config.keys = Some(vec![KeyConfig {
        id: 0,
        env: Some(variable.to_owned()),
        inline: None,
        state: KeyStateConfig::Signing,
    }]);
}

/// A fence in milliseconds is no clock's fault. The filter lets it begin at once, and again whenever an Envoy starts.
fn check_fences(report: &mut CheckReport, node: &ConfigNode<'_>, config: &mut FilterConfig) {
    for (i, fence) in config.fences.iter_mut().enumerate() {
        let found = fence.not_before;
        if found >= MILLISECONDS {
            let message = format!("expected seconds since 1970, found {found}, which are milliseconds");
            report.field(Severity::Error, node, &format!("fences[{i}].notBefore"), message);
            fence.not_before = 0;
        }
    }
}

fn add_problems(report: &mut CheckReport, node: &ConfigNode<'_>, error: config::ConfigError) {
    for problem in error.problems {
        report.field(Severity::Error, node, &problem.field, problem.message);
    }
}

/// The ids of the keys; `None` if they are wrapped or in a secret, and not known here.
fn key_ids(config: &FilterConfig) -> Option<Vec<u8>> {
    let states = source::states(config).ok()?;
    Some(states.iter().map(|(id, _)| *id).collect())
}

/// An environment variable that holds a secret.
struct SecretVariable {
    /// The field that names it.
    field: String,
    name: String,
    holds: &'static str,
    /// Whether there are no sessions without it.
    needed: bool,
}

impl SecretVariable {
    fn is_missing(&self, usage: &FilterUsage) -> bool {
        self.needed && usage.variable(&self.name).is_none()
    }
}

fn variables(config: &FilterConfig) -> Vec<SecretVariable> {
    let keys = config.keys.iter().flatten().enumerate();
    let keys = keys.filter_map(|(i, key)| {
        Some(SecretVariable {
            field: format!("keys[{i}].env"),
            name: key.env.clone()?,
            holds: "key",
            needed: true,
        })
    });
    let wrapped = config.wrapped_keys.as_ref();
    let named = wrapped.and_then(|wrapped| Some(WrappedKeyring::parse(&wrapped.text).ok()?.key_encryption_key().0));
    let list = wrapped.iter().flat_map(|wrapped| &wrapped.key_encryption_keys);
    let wrapping = list.enumerate().map(|(i, key)| SecretVariable {
        field: format!("wrappedKeys.keyEncryptionKeys[{i}].env"),
        name: key.env.clone(),
        holds: "key-encryption key, and the keyring under it,",
        needed: named == Some(key.id),
    });
    keys.chain(wrapping).collect()
}

/// Whether every `env` is the name of a variable. A variable that Envoy does not hand to the filter is reported, and
/// one that each reader of Envoy's configuration sees.
fn check_variables(
    report: &mut CheckReport,
    node: &ConfigNode<'_>,
    variables: &[SecretVariable],
    usage: &FilterUsage,
) -> bool {
    // A module reads the environment of Envoy's process itself.
    let forwarded = (usage.build == Some(LocatedBuild::Wasm)).then_some(&usage.forwarded);
    let mut plausible = true;
    for SecretVariable {
        field,
        name,
        needed,
        holds,
    } in variables
    {
        if !source::is_variable(name) {
            plausible = false;
            report.field(Severity::Error, node, field, source::NO_VARIABLE);
        } else if usage.values.contains_key(name) {
            let message = format!(
                "the {holds} is in environment_variables.key_values: Envoy shows it in /config_dump, so use it for \
                 development only, and host_env_keys (in a WasmPlugin, valueFrom: HOST) otherwise"
            );
            report.field(Severity::Warning, node, field, message);
        } else if forwarded.is_some_and(|forwarded| !forwarded.contains(name)) {
            let message = format!(
                "expected {name} in vm_config.environment_variables.host_env_keys (in a WasmPlugin, in vmConfig.env; \
                 in an EnvoyExtensionPolicy, in env.hostKeys): without it Envoy does not hand the variable to the \
                 filter"
            );
            let severity = if *needed { Severity::Error } else { Severity::Warning };
            report.field(severity, node, field, message);
        }
    }
    plausible
}
