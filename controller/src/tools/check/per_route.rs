//! A route's session in Envoy's own configuration of the dynamic module for it.

use super::chain::Chain;
use super::report::CheckReport;
use super::route_entry::RouteEntry;
use super::session::NamedSession;
use crate::envoy_config::filter_locator::{self, LocatedBuild};
use crate::envoy_config::node::ConfigNode;
use limpet_core::RouteSession;
use limpet_core::envoy::FILTER_NAME;

/// The session of the innermost level that has a configuration of the filter.
pub(super) fn session<'a>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    entry: &RouteEntry<'_, 'a>,
) -> Option<NamedSession<'a>> {
    let filter = chain.limpet()?.name;
    let mut innermost = None;
    for level in entry.levels() {
        let Some((kind, per_route)) = filter_locator::per_route(level, filter) else {
            continue;
        };
        if chain.build == LocatedBuild::Wasm {
            report.error(
                &per_route,
                "is ignored: the wasm filter has no configuration of a route; it reads filter_metadata.limpet.session",
            );
        } else if kind == filter_locator::PER_ROUTE {
            check_module(report, chain, &per_route);
            innermost = Some(named(report, &per_route));
        } else {
            report.error(&per_route, format!("expected the type {}", filter_locator::PER_ROUTE));
        }
    }
    innermost
}

/// It is the module of this configuration that makes of it what the filter reads, so it has to be the filter's own.
fn check_module(report: &mut CheckReport, chain: &Chain<'_>, per_route: &ConfigNode<'_>) {
    let module = per_route.get("dynamic_module_config");
    if let Some(expected) = &chain.module {
        let differs = |field: &str| {
            let found = module.as_ref().and_then(|module| module.get(field));
            found.map(|node| node.value) != expected.get(field).map(|node| node.value)
        };
        if ["name", "module"].into_iter().any(differs) {
            report.error(
                module.as_ref().unwrap_or(per_route),
                format!("expected the module of the filter itself, as in {}", expected.path),
            );
        }
    }
    if let Some(name) = per_route.get("per_route_config_name")
        && name.value != FILTER_NAME
    {
        let message = format!("expected {FILTER_NAME}, or nothing: whatever the name, it is the session of the route");
        report.warning(&name, message);
    }
}

fn named<'a>(report: &mut CheckReport, per_route: &ConfigNode<'a>) -> NamedSession<'a> {
    let session = filter_locator::route_session(per_route);
    let name = session.text.map(|text| String::from_utf8_lossy(&text).into_owned());
    let problem = session.problem.map(str::to_owned).or_else(|| {
        let name = name.as_ref()?;
        let error = RouteSession::parse(name.as_bytes()).err()?;
        Some(format!(
            "{error}, found {name:?}: Envoy refuses the route configuration"
        ))
    });
    let name = name.filter(|_| problem.is_none());
    if let Some(problem) = problem {
        report.error(&session.node, problem);
    }
    NamedSession {
        node: session.node,
        name,
    }
}
