//! What depends on Envoy's version, which concerns the dynamic module only.

use super::report::{CheckReport, Severity};
use crate::cli::EnvoyVersion;
use crate::envoy_config::filter_locator::LocatedFilter;
use crate::envoy_config::node::ConfigNode;

/// The first Envoy whose interface lets a module steer.
const MODULES: EnvoyVersion = (1, 38);
/// The first Envoy that tells modules the virtual host, gives them secrets, and asks them for clusters.
const ALL_ANSWERS: EnvoyVersion = (1, 40);

/// Reports a cluster specifier of the module that `envoy` does not have, if that version is known.
pub(super) fn check_specifier(report: &mut CheckReport, plugin: &ConfigNode<'_>, envoy: Option<EnvoyVersion>) {
    if envoy.is_some_and(|envoy| envoy < ALL_ANSWERS) {
        let message = "expected Envoy 1.40 or newer: an older one refuses the route configuration, because modules \
                       choose no clusters there";
        report.error(plugin, message);
    }
}

/// Checks a module; `envoy`: the version that it is for, if that is known.
pub(super) fn check(report: &mut CheckReport, module: &LocatedFilter<'_>, envoy: Option<EnvoyVersion>) {
    if envoy.is_some_and(|envoy| envoy < MODULES) {
        let message = "expected Envoy 1.38 or newer: an older one does not load Limpet's dynamic module";
        report.error(&module.envoy, message);
    }
    let Some(config) = module.configuration.parsed() else {
        return;
    };
    let (severity, doubt) = match envoy {
        Some(envoy) if envoy >= ALL_ANSWERS => return,
        Some(_) => (Severity::Error, ""),
        None => (Severity::Note, "not checked (--envoy-version does): "),
    };
    let node = &module.configuration.node;
    let with_virtual_host = config
        .routes
        .iter()
        .enumerate()
        .filter(|(_, route)| route.virtual_host.is_some());
    for (i, _) in with_virtual_host {
        let field = format!("routes[{i}].virtualHost");
        let message = format!(
            "{doubt}expected Envoy 1.40 or newer: with an older one the module refuses its configuration, because it \
             is not told the virtual host"
        );
        report.field(severity, node, &field, message);
    }
    if config.sds_keys.is_some() {
        let message = format!(
            "{doubt}expected Envoy 1.40 or newer: with an older one the module refuses its configuration, because it \
             gets no secrets"
        );
        report.field(severity, node, "sdsKeys", message);
    }
}
