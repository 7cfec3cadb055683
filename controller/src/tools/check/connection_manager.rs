//! A connection manager with Limpet's filter in its chain. `docs/reference/envoy-configuration.md`
//! explains each part.

use super::chain::Chain;
use super::report::{CheckArea, CheckReport, Severity};
use super::{addresses, headers, minimal, route_tables, routes};
use crate::cli::CheckArgs;
use crate::envoy_config::discovery::{self, DiscoverySources};
use crate::envoy_config::filter_locator::{self, LocatedBuild, LocatedFilter};
use crate::envoy_config::node::ConfigNode;
use limpet_core::config::schema::FilterConfig;
use limpet_core::envoy::{DISCOVERED_MODULE, DISCOVERED_WASM, FILTER_NAME, HOST_HEADER, STRICT_HOST_HEADER};
use limpet_core::outcome::FILTER_STATE;

/// Whether an entry of `http_filters` is Limpet's, and where its configuration is.
enum Ownership<'s, 'a> {
    NotOurs,
    /// The configuration is in none of the documents.
    ConfiguredElsewhere,
    Configured(&'s LocatedFilter<'a>),
}

/// Checks every connection manager of a document that has Limpet's filter; returns whether there is one.
pub(super) fn check_all<'a>(
    report: &mut CheckReport,
    root: &ConfigNode<'a>,
    sources: &DiscoverySources<'a>,
    args: &CheckArgs,
) -> bool {
    let located = filter_locator::filters(root);
    let mut any = false;
    root.visit(&mut |manager| {
        for (i, entry) in manager.list("http_filters").iter().enumerate() {
            let ownership = match entry.get("config_discovery") {
                None => located
                    .iter()
                    .find(|located| is_in(&located.holder, entry))
                    .map_or(Ownership::NotOurs, Ownership::Configured),
                Some(discovery) => report.within(CheckArea::Chain, |report| {
                    discovered(report, entry, &discovery, sources)
                }),
            };
            let located = match ownership {
                Ownership::NotOurs => continue,
                Ownership::ConfiguredElsewhere => None,
                Ownership::Configured(located) => Some(located),
            };
            any = true;
            let chain = Chain::new(manager, i, located, args.envoy_version);
            let before = problems(report);
            report.within(CheckArea::Chain, |report| check(report, &chain, located, sources));
            if args.minimal {
                minimal::report_unneeded(report, &chain, located, problems(report) == before);
            }
        }
    });
    any
}

fn problems(report: &CheckReport) -> usize {
    report.count(Severity::Error) + report.count(Severity::Warning)
}

/// Whether the object around a filter is this entry of `http_filters`, or in it: a filter may be wrapped in a matcher.
fn is_in(holder: &ConfigNode<'_>, entry: &ConfigNode<'_>) -> bool {
    let rest = holder.path.strip_prefix(&entry.path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// An entry of `http_filters` whose configuration is discovered.
fn discovered<'s, 'a>(
    report: &mut CheckReport,
    entry: &ConfigNode<'a>,
    discovery: &ConfigNode<'a>,
    sources: &'s DiscoverySources<'a>,
) -> Ownership<'s, 'a> {
    let name = entry.text("name").unwrap_or_default();
    let source = discovery.get("config_source");
    let ownership = match sources.filter(name, source.as_ref()) {
        Some(located) => Ownership::Configured(located),
        None if [FILTER_NAME, DISCOVERED_WASM, DISCOVERED_MODULE].contains(&name) => Ownership::ConfiguredElsewhere,
        None => return Ownership::NotOurs,
    };
    if matches!(ownership, Ownership::ConfiguredElsewhere) {
        let from = discovery::origin(source.as_ref());
        let message = format!(
            "not checked: the filter's configuration, which Envoy gets {from}; give that file as well, or run the \
             check where Envoy runs"
        );
        report.add_note(entry, message);
    }
    if discovery.get("default_config").is_none() {
        let message = "without a default_config, Envoy refuses the requests of routes that use the filter until there \
                       is a first good configuration; with one that lets requests pass, backends get their tokens \
                       until then";
        report.add_note(discovery, message);
    }
    ownership
}

fn check<'a>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    located: Option<&LocatedFilter<'a>>,
    sources: &DiscoverySources<'a>,
) {
    let config = located.and_then(|located| located.configuration.parsed());
    let config = config.as_ref();
    // The module steers by itself, and nothing is said in headers.
    if chain.build == LocatedBuild::Wasm {
        check_steering(report, chain, config);
        headers::check(report, chain);
    }
    for part in chain.parts().filter(|part| part.has_matcher) {
        let message = "expected no matcher around it (ExtensionWithMatcher): requests that skip one filter of the \
                       chain have no session, or show internal headers";
        report.error(&part.node, message);
    }
    check_access_log(report, chain, config);
    addresses::check_manager(report, chain, config);
    if let Some(last) = chain.last().filter(|last| !last.may_be_router()) {
        report.error(&last.node, "expected the router as the last filter");
    }
    let manager = &chain.manager;
    let tables = report.within(CheckArea::Routes, |report| {
        let tables = route_tables::of(report, manager, sources);
        for table in &tables.found {
            routes::check(report, chain, config, sources, table);
        }
        tables
    });
    if tables.is_any_elsewhere {
        check_enabled_by_routes(report, chain);
    }
}

/// Of filters that routes must enable, where some routes are not known.
fn check_enabled_by_routes(report: &mut CheckReport, chain: &Chain<'_>) {
    for filter in chain
        .in_front()
        .iter()
        .filter(|filter| filter.disabled && filter.is_for_internal_headers())
    {
        let message = "disabled: true: each route must enable it, and the routes are not checked";
        report.warning(&filter.node, message);
    }
}

/// The two `stateful_session` filters of Envoy's that steer for the wasm filter.
fn check_steering(report: &mut CheckReport, chain: &Chain<'_>, config: Option<&FilterConfig>) {
    let any =
        |strict: bool| config.is_none_or(|config| config.policies.values().any(|policy| policy.may_steer(strict)));
    let has_strict = config.is_some() && any(true);
    check_steering_filter(report, chain, false, any(false));
    check_steering_filter(report, chain, true, has_strict);
    if let Some(strict) = chain.strict().filter(|strict| !strict.disabled) {
        let message = "expected disabled: true, with the routes that have a strict policy enabling it: where it is not \
                       needed, it only adds a header to every response";
        report.warning(&strict.node, message);
    }
}

/// The filter that steers sessions of strict policies, or the one for all others.
fn check_steering_filter(report: &mut CheckReport, chain: &Chain<'_>, strict: bool, needed: bool) {
    let (filter, header, policies) = if strict {
        (chain.strict(), STRICT_HOST_HEADER, "strict policies")
    } else {
        (chain.soft(), HOST_HEADER, "policies that are not strict or have move")
    };
    let Some(filter) = filter else {
        if needed {
            let message = format!(
                "http_filters: expected a stateful_session filter with header state {header} behind limpet: sessions \
                 of {policies} need it"
            );
            report.error(&chain.manager, message);
        }
        return;
    };
    if chain.in_front().iter().any(|front| front.node.path == filter.node.path) {
        let message = format!("expected behind limpet, which tells it the host by {header}");
        report.error(&filter.node, message);
    }
    match (strict, filter.is_strict()) {
        (true, false) => report.error(
            &filter.node,
            "expected strict: true, because sessions of strict policies are steered by this filter",
        ),
        (false, true) => report.error(
            &filter.node,
            "expected no strict: true, because sessions of policies that are not strict are steered by this filter",
        ),
        _ => {}
    }
}

/// An access log that shows what happened to sessions is empty unless the filter fills it.
fn check_access_log(report: &mut CheckReport, chain: &Chain<'_>, config: Option<&FilterConfig>) {
    let state = match chain.build {
        LocatedBuild::Wasm => format!("wasm.{FILTER_STATE}"),
        LocatedBuild::Module => FILTER_STATE.to_owned(),
    };
    let logs = chain.manager.get("access_log");
    let shown = logs.filter(|logs| logs.value.to_string().contains(&format!("({state}")));
    if let Some(logs) = shown.filter(|_| config.is_some_and(|config| !config.access_log)) {
        report.warning(
            &logs,
            format!("shows {state}, which is empty unless the filter's configuration has accessLog: true"),
        );
    }
}
