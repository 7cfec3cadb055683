//! What happens after the wasm filter's VM has ended. The dynamic module has no VM.

use serde_json::Value;

use super::report::CheckReport;
use crate::envoy_config::filter_locator::{LocatedBuild, LocatedFilter};
use crate::envoy_config::foreign_config::ForeignConfig;
use crate::envoy_config::node::ConfigNode;

/// Envoy's values, by their numbers. Without one, the VM stays dead.
const POLICIES: [&str; 4] = ["UNSPECIFIED", "FAIL_RELOAD", "FAIL_CLOSED", "FAIL_OPEN"];
/// Istio's values.
const STRATEGIES: [&str; 3] = ["FAIL_RELOAD", "FAIL_CLOSE", "FAIL_OPEN"];

/// Checks the filter in a configuration of Envoy.
pub(super) fn check(report: &mut CheckReport, filter: &LocatedFilter<'_>) {
    let Some(plugin) = filter
        .envoy
        .get("config")
        .filter(|_| filter.build == LocatedBuild::Wasm)
    else {
        return;
    };
    let Some(node) = plugin.get("failure_policy") else {
        return warn(report, &plugin, "failure_policy", plugin.flag("fail_open"));
    };
    match policy(node.value) {
        Some("FAIL_RELOAD") => {}
        Some(policy) => {
            let opens = policy == "FAIL_OPEN" || plugin.flag("fail_open");
            warn(report, &node, "failure_policy", opens);
        }
        None => refused(report, &node, ["FAIL_RELOAD", "FAIL_CLOSED", "FAIL_OPEN"], "Envoy"),
    }
}

/// Envoy reads a name in any case, or a number, also in quotes.
fn policy(value: &Value) -> Option<&'static str> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        value => value.as_str()?.to_owned(),
    };
    let named = POLICIES.iter().find(|name| name.eq_ignore_ascii_case(&text));
    let numbered = || POLICIES.get(text.parse::<usize>().ok()?);
    named.or_else(numbered).copied()
}

/// Checks the filter in an object of another control plane.
pub(super) fn check_foreign(report: &mut CheckReport, root: &ConfigNode<'_>, found: &ForeignConfig<'_>) {
    if found.build == LocatedBuild::Module {
        return;
    }
    if root.text("kind") == Some("WasmPlugin") {
        let spec = root.get("spec").unwrap_or_else(|| root.clone());
        let Some(node) = spec.get("failStrategy") else {
            return warn(report, &spec, "failStrategy", false);
        };
        match node.value.as_str() {
            Some("FAIL_RELOAD") => {}
            Some(strategy) if STRATEGIES.contains(&strategy) => {
                warn(report, &node, "failStrategy", strategy == "FAIL_OPEN");
            }
            _ => refused(report, &node, STRATEGIES, "the API server"),
        }
        return;
    }
    let message = "Envoy Gateway cannot say that Envoy replaces a VM that has ended: requests then fail until Envoy \
                   restarts. The dynamic module has no VM";
    report.add_note(&found.node, message);
}

fn refused(report: &mut CheckReport, node: &ConfigNode<'_>, [reload, close, open]: [&str; 3], by: &str) {
    let found = node.value;
    let message = format!("expected {reload}, {close} or {open}, found {found}: {by} refuses it");
    report.error(node, message);
}

fn warn(report: &mut CheckReport, node: &ConfigNode<'_>, field: &str, opens: bool) {
    let otherwise = if opens {
        "have no session and take their tokens to backends"
    } else {
        "fail with 503"
    };
    let message = format!(
        "expected {field}: FAIL_RELOAD: without it, when the filter's VM has ended, all requests {otherwise} until \
         Envoy restarts"
    );
    report.warning(node, message);
}
