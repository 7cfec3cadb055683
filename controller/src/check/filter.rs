//! The filter's own configuration.

use std::collections::BTreeSet;

use limpet_core::config::schema::FilterConfig;
use limpet_core::{Filter, config};

use super::report::{Checked, Report, Severity};
use crate::keys;
use crate::node::Node;

/// What stands in for a key that only Envoy's environment has: the rest of the configuration is checked with it.
const STAND_IN: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// Checks a configuration that stands at `node`. `forwarded`: the variables that Envoy hands to the filter, where that is known.
pub(super) fn check(
    report: &mut Report,
    node: &Node<'_>,
    json: &[u8],
    forwarded: Option<&BTreeSet<String>>,
    require_environment: bool,
) {
    let config = match config::parse(json) {
        Ok(config) => config,
        Err(error) => return add_problems(report, node, error),
    };
    report.checked.push(Checked {
        file: node.file.to_owned(),
        path: node.path.clone(),
        keys: config.keys.iter().map(|key| key.id).collect(),
        policies: config.policies.keys().cloned().collect(),
    });
    if !check_variables(report, node, &config, forwarded) {
        // The filter's own message would repeat what stands in `env`.
        return;
    }
    let environment = |name: &str| Some(std::env::var(name).unwrap_or_else(|_| STAND_IN.to_owned()));
    match Filter::new(&config, &environment) {
        Ok((_, warnings)) => {
            for warning in warnings {
                report.field(Severity::Warning, node, "keys", warning.to_string());
            }
        }
        Err(error) => add_problems(report, node, error),
    }
    for (field, name) in variables(&config) {
        if std::env::var_os(name).is_some() {
            continue;
        }
        if require_environment {
            let message = format!("expected the environment variable {name}, which is not set here");
            report.field(Severity::Error, node, &field, message);
        } else {
            let message = format!(
                "not checked: the key in the environment variable {name}, which is not set here (--env requires it)"
            );
            report.field(Severity::Note, node, &field, message);
        }
    }
}

fn add_problems(report: &mut Report, node: &Node<'_>, error: config::ConfigError) {
    for problem in error.problems {
        report.field(Severity::Error, node, &problem.field, problem.message);
    }
}

/// The variables that keys come from, with the fields that name them.
fn variables(config: &FilterConfig) -> impl Iterator<Item = (String, &str)> {
    let keys = config.keys.iter().enumerate();
    keys.filter_map(|(i, key)| Some((format!("keys[{i}].env"), key.env.as_deref()?)))
}

/// Whether every `env` can be a variable. One that Envoy does not hand to the filter is reported.
fn check_variables(
    report: &mut Report,
    node: &Node<'_>,
    config: &FilterConfig,
    forwarded: Option<&BTreeSet<String>>,
) -> bool {
    let mut plausible = true;
    for (field, name) in variables(config) {
        if !keys::is_variable(name) {
            plausible = false;
            report.field(Severity::Error, node, &field, keys::NO_VARIABLE);
        } else if forwarded.is_some_and(|forwarded| !forwarded.contains(name)) {
            let message = format!(
                "expected {name} in vm_config.environment_variables.host_env_keys: without it Envoy does not hand the variable to the filter"
            );
            report.field(Severity::Error, node, &field, message);
        }
    }
    plausible
}
