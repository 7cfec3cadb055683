//! Cluster specifiers of the dynamic module, on routes whose session says `@specifier/`.

use super::chain::Chain;
use super::report::{Report, Severity};
use super::route_entry::RouteEntry;
use super::session::Session;
use crate::envoy_config::filter_locator::{self, Build, SPECIFIER};
use limpet_core::Specifier;

/// Reports a route without a cluster specifier that leads the session to its cluster.
pub(super) fn check(report: &mut Report, chain: &Chain<'_>, session: &Session<'_>, entry: &RouteEntry<'_, '_>) {
    let name = session.name();
    if chain.build == Build::Wasm {
        let message = format!(
            "@specifier/{name}: expected @split/{name} and a route for each cluster in front: the wasm filter does not \
             lead sessions by a cluster specifier"
        );
        report.error(entry.route, message);
        return;
    }
    let plugin = entry
        .route
        .at(&["route", "inline_cluster_specifier_plugin", "extension", "typed_config"]);
    let Some(plugin) = plugin.filter(|plugin| plugin.kind() == Some(SPECIFIER)) else {
        let message = format!(
            "@specifier/{name}: nothing leads a session to its cluster: expected the type {SPECIFIER} in \
             route.inline_cluster_specifier_plugin.extension.typed_config"
        );
        report.error(entry.route, message);
        return;
    };
    let config = filter_locator::specifier(&plugin);
    if let Some(problem) = config.problem {
        report.error(&config.node, problem);
        return;
    }
    let problems = Specifier::parse(&config.text.unwrap_or_default()).err();
    for problem in problems.into_iter().flat_map(|error| error.problems) {
        report.field(Severity::Error, &config.node, &problem.field, problem.message);
    }
}
