//! Where a connection manager has its route configurations.

use super::report::CheckReport;
use crate::envoy_config::discovery::{self, DiscoverySources};
use crate::envoy_config::node::ConfigNode;

/// The route configurations of a connection manager.
#[derive(Debug, Default)]
pub(super) struct RouteTables<'a> {
    pub(super) found: Vec<ConfigNode<'a>>,
    /// Whether some are in none of the documents; that is reported.
    pub(super) is_any_elsewhere: bool,
}

/// Finds them: written in place, discovered (RDS), or both for each scope.
pub(super) fn of<'a>(
    report: &mut CheckReport,
    manager: &ConfigNode<'a>,
    sources: &DiscoverySources<'a>,
) -> RouteTables<'a> {
    let mut tables = RouteTables::default();
    if let Some(routes) = manager.get("route_config") {
        tables.found.push(routes);
    } else if let Some(rds) = manager.get("rds") {
        let name = rds.text("route_config_name").unwrap_or_default();
        tables.add_discovered(report, (manager, &rds), "config_source", name, sources);
    } else if let Some(scoped) = manager.get("scoped_routes") {
        tables.add_scopes(report, manager, &scoped, sources);
    } else {
        report.error(manager, "expected route_config, rds or scoped_routes");
    }
    tables
}

impl<'a> RouteTables<'a> {
    fn add_scopes(
        &mut self,
        report: &mut CheckReport,
        manager: &ConfigNode<'a>,
        scoped: &ConfigNode<'a>,
        sources: &DiscoverySources<'a>,
    ) {
        let listed = scoped.get("scoped_route_configurations_list");
        let all = match &listed {
            Some(listed) => listed.list("scoped_route_configurations"),
            None => sources.scopes().cloned().collect(),
        };
        if listed.is_none() && all.is_empty() {
            let source = scoped.at(&["scoped_rds", "scoped_rds_config_source"]);
            self.add_elsewhere(report, manager, "the scopes of routes", source.as_ref());
        }
        for scope in all {
            if let Some(routes) = scope.get("route_configuration") {
                self.found.push(routes);
            } else {
                let name = scope.text("route_configuration_name").unwrap_or_default();
                self.add_discovered(report, (manager, scoped), "rds_config_source", name, sources);
            }
        }
    }

    fn add_discovered(
        &mut self,
        report: &mut CheckReport,
        (manager, holder): (&ConfigNode<'a>, &ConfigNode<'a>),
        source: &str,
        name: &str,
        sources: &DiscoverySources<'a>,
    ) {
        let source = holder.get(source);
        if let Some(routes) = sources.routes(name, source.as_ref()) {
            self.found.push(routes.clone());
        } else {
            let what = format!("the routes {name}");
            self.add_elsewhere(report, manager, &what, source.as_ref());
        }
    }

    fn add_elsewhere(
        &mut self,
        report: &mut CheckReport,
        manager: &ConfigNode<'a>,
        what: &str,
        source: Option<&ConfigNode<'a>>,
    ) {
        let from = discovery::origin(source);
        let message =
            format!("not checked: {what}, which Envoy gets {from}; a file that has them can be given as well");
        report.add_note(manager, message);
        self.is_any_elsewhere = true;
    }
}
