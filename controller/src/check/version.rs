//! What depends on Envoy's version: all of it is about the dynamic module.

use super::report::{Report, Severity};
use crate::cli::EnvoyVersion;
use crate::find::Found;

/// The first Envoy by whose interface a module can steer.
const MODULES: EnvoyVersion = (1, 38);
/// The first Envoy that tells modules the virtual host.
const VIRTUAL_HOSTS: EnvoyVersion = (1, 40);

/// Checks a module, `envoy` being the version that it is for where that is known.
pub(super) fn check(report: &mut Report, module: &Found<'_>, envoy: Option<EnvoyVersion>) {
    if envoy.is_some_and(|envoy| envoy < MODULES) {
        let message = "expected Envoy 1.38 or newer: an older one does not load Limpet's dynamic module";
        report.error(&module.envoy, message);
    }
    let Some(config) = module.configuration.parsed() else {
        return;
    };
    let (severity, doubt) = match envoy {
        Some(envoy) if envoy >= VIRTUAL_HOSTS => return,
        Some(_) => (Severity::Error, ""),
        None => (Severity::Note, "not checked (--envoy VERSION does): "),
    };
    for (i, _) in config
        .routes
        .iter()
        .enumerate()
        .filter(|(_, route)| route.virtual_host.is_some())
    {
        report.field(
            severity,
            &module.configuration.node,
            &format!("routes[{i}].virtualHost"),
            format!("{doubt}expected Envoy 1.40 or newer: with an older one the module refuses its configuration, for it is not told the virtual host"),
        );
    }
}
