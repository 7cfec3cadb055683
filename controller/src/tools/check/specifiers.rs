//! Cluster specifiers of the dynamic module, on routes whose session says `@specifier/`.

use super::chain::Chain;
use super::destinations;
use super::report::{CheckReport, Severity};
use super::route_entry::RouteEntry;
use super::session::CheckedSession;
use super::version;
use crate::envoy_config::discovery::DiscoverySources;
use crate::envoy_config::filter_locator::{self, LocatedBuild, SPECIFIER};
use limpet_core::Specifier;
use limpet_core::envoy::UNAVAILABLE_CLUSTER;

/// Reports a route without a cluster specifier that leads the session to its cluster. Returns the specifier.
pub(super) fn check(
    report: &mut CheckReport,
    chain: &Chain<'_>,
    session: &CheckedSession<'_>,
    entry: &RouteEntry<'_, '_>,
) -> Option<Specifier> {
    let name = session.name();
    if chain.build == LocatedBuild::Wasm {
        let message = format!(
            "@specifier/{name}: expected @split/{name} and a route for each cluster in front: the wasm filter does not \
             lead sessions by a cluster specifier"
        );
        report.error(entry.route, message);
        return None;
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
        return None;
    };
    version::check_specifier(report, &plugin, chain.envoy);
    let config = filter_locator::specifier(&plugin);
    if let Some(problem) = config.problem {
        report.error(&config.node, problem);
        return None;
    }
    let specifier = Specifier::parse(&config.text.unwrap_or_default());
    let specifier = specifier.map_err(|error| {
        for problem in error.problems {
            report.field(Severity::Error, &config.node, &problem.field, problem.message);
        }
    });
    specifier.ok()
}

/// Checks the clusters of a specifier, which Envoy does not look for before it sends a request to one.
pub(super) fn check_clusters<'a>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    sources: &DiscoverySources<'a>,
    entry: &RouteEntry<'_, 'a>,
    clusters: &[&str],
) {
    destinations::issuing(report, chain, sources, clusters);
    let file = chain.manager.file;
    let expected = clusters.iter().filter(|name| **name != UNAVAILABLE_CLUSTER);
    for name in expected.filter(|name| sources.lacks_cluster(file, name)) {
        let message = format!("expected a cluster named {name:?}, found none: its requests get status 503");
        report.warning(entry.route, message);
    }
}
