//! What happens after the wasm filter's VM has ended. The dynamic module has no VM.

use super::report::Report;
use crate::envoy_config::filter_locator::{Build, LocatedFilter};
use crate::envoy_config::foreign_config::ForeignConfig;
use crate::envoy_config::node::Node;

/// Checks the filter in a configuration of Envoy.
pub(super) fn check(report: &mut Report, filter: &LocatedFilter<'_>) {
    let Some(plugin) = filter.envoy.get("config").filter(|_| filter.build == Build::Wasm) else {
        return;
    };
    let policy = plugin.get("failure_policy");
    // Envoy reads the name of a value, or its number.
    let reloads = |node: &Node<'_>| node.value == "FAIL_RELOAD" || node.value == 1;
    if policy.as_ref().is_some_and(reloads) {
        return;
    }
    let opens = policy
        .as_ref()
        .is_some_and(|node| node.value == "FAIL_OPEN" || node.value == 3);
    let node = policy.unwrap_or_else(|| plugin.clone());
    warn(report, &node, "failure_policy", opens || plugin.flag("fail_open"));
}

/// Checks the filter in an object of another control plane.
pub(super) fn check_foreign(report: &mut Report, root: &Node<'_>, found: &ForeignConfig<'_>) {
    if found.build == Build::Module {
        return;
    }
    if root.text("kind") == Some("WasmPlugin") {
        let spec = root.get("spec").unwrap_or_else(|| root.clone());
        let strategy = spec.get("failStrategy");
        if strategy.as_ref().is_none_or(|strategy| strategy.value != "FAIL_RELOAD") {
            let opens = strategy.as_ref().is_some_and(|strategy| strategy.value == "FAIL_OPEN");
            warn(report, &strategy.unwrap_or(spec), "failStrategy", opens);
        }
        return;
    }
    let message = "Envoy Gateway cannot say that Envoy replaces a VM that has ended: requests then fail until Envoy \
                   restarts. The dynamic module has no VM";
    report.note(&found.node, message);
}

fn warn(report: &mut Report, node: &Node<'_>, field: &str, opens: bool) {
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
