//! The chain of HTTP filters around ours. `docs/reference/configuration.md` says what each part is for.

use limpet_core::config::schema::FilterConfig;
use limpet_core::outcome::FILTER_STATE;

use super::headers::{self, has_session, removes};
use super::report::Report;
use super::routes;
use crate::envoy_config::discovery::{self, Sources};
use crate::envoy_config::filter_locator::{self, Build, Found};
use crate::envoy_config::node::Node;
use limpet_core::envoy::{HOST_HEADER, SESSION_HEADER, STRICT_HOST_HEADER};

const STATEFUL_SESSION: &str = "envoy.extensions.filters.http.stateful_session.v3.StatefulSession";
const HEADER_MUTATION: &str = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation";
const ROUTER: &str = "envoy.extensions.filters.http.router.v3.Router";

/// One HTTP filter.
#[derive(Debug)]
pub(super) struct HttpFilter<'a> {
    pub(super) name: &'a str,
    pub(super) node: Node<'a>,
    /// Its message type; empty where it is discovered.
    kind: &'a str,
    content: Option<Node<'a>>,
    /// Whether only routes that ask for it have it.
    pub(super) disabled: bool,
}

impl<'a> HttpFilter<'a> {
    fn new(node: Node<'a>) -> Self {
        let typed = node.get("typed_config");
        let (kind, content) = match typed.as_ref().and_then(Node::typed) {
            Some((kind, content)) => (kind, Some(content)),
            None => ("", None),
        };
        Self {
            name: node.text("name").unwrap_or_default(),
            disabled: node.flag("disabled"),
            kind,
            content,
            node,
        }
    }

    /// The header by which this filter is told the host, where it is one that can be told.
    fn host_header(&self) -> Option<&'a str> {
        let content = self.content.as_ref().filter(|_| self.kind == STATEFUL_SESSION)?;
        content.at(&["session_state", "typed_config"])?.typed()?.1.text("name")
    }

    /// What it does to headers: of requests, or of responses.
    pub(super) fn mutations(&self, of: &str) -> Vec<Node<'a>> {
        let content = self.content.as_ref().filter(|_| self.kind == HEADER_MUTATION);
        let mutations = content.and_then(|content| content.get("mutations"));
        mutations.map(|mutations| mutations.list(of)).unwrap_or_default()
    }

    /// Whether it takes the header away: of requests, or of responses.
    pub(super) fn removes(&self, header: &str, of: &str) -> bool {
        self.mutations(of).iter().any(|mutation| removes(mutation, header))
    }
}

/// A chain with our filter in it.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    pub(super) manager: Node<'a>,
    pub(super) build: Build,
    /// Which dynamic module it is, where that is known.
    pub(super) module: Option<Node<'a>>,
    filters: Vec<HttpFilter<'a>>,
    limpet: usize,
    soft: Option<usize>,
    strict: Option<usize>,
}

impl<'a> Chain<'a> {
    pub(super) fn limpet(&self) -> Option<&HttpFilter<'a>> {
        self.filters.get(self.limpet)
    }

    /// The filter that steers sessions of policies that are not strict.
    pub(super) fn soft(&self) -> Option<&HttpFilter<'a>> {
        self.filters.get(self.soft?)
    }

    /// The filter that steers sessions of strict policies.
    pub(super) fn strict(&self) -> Option<&HttpFilter<'a>> {
        self.filters.get(self.strict?)
    }

    /// The filters in front of ours.
    pub(super) fn in_front(&self) -> &[HttpFilter<'a>] {
        self.filters.get(..self.limpet).unwrap_or_default()
    }

    /// The filters between ours and the last that steers.
    pub(super) fn between(&self) -> impl Iterator<Item = &HttpFilter<'a>> {
        let last = self.soft.max(self.strict).unwrap_or(0);
        self.filters.iter().take(last).skip(self.limpet + 1)
    }

    /// Whether the upstream is kept from this header by a filter of the chain.
    pub(super) fn hides_from_upstream(&self, header: &str) -> bool {
        let last = match header {
            SESSION_HEADER => self.limpet,
            _ => self.limpet.max(self.soft.max(self.strict).unwrap_or(0)),
        };
        self.filters
            .iter()
            .skip(last)
            .any(|filter| filter.removes(header, "request_mutations"))
    }

    /// Whether our filter is told the session that a route's metadata name, on a route that has the filters that `is_enabled` holds for.
    pub(super) fn tells_session(&self, is_enabled: impl Fn(&HttpFilter<'a>) -> bool) -> bool {
        let in_front = self.in_front().iter().filter(|filter| is_enabled(filter));
        let mutations = in_front.flat_map(|filter| filter.mutations("request_mutations"));
        mutations.fold(false, |before, mutation| has_session(before, &mutation))
    }
}

/// Whether an entry of `http_filters` is ours.
enum Ours<'s, 'a> {
    No,
    /// Its configuration is not among the documents.
    Elsewhere,
    Configured(&'s Found<'a>),
}

/// Checks every chain of a document that has our filter; says whether there was one.
pub(super) fn check_all<'a>(report: &mut Report, root: &Node<'a>, sources: &Sources<'a>) -> bool {
    let own = filter_locator::filters(root);
    let mut any = false;
    root.visit(&mut |manager| {
        for (i, filter) in manager.list("http_filters").iter().enumerate() {
            let ours = match filter.get("config_discovery") {
                None => own
                    .iter()
                    .find(|found| found.holder.path == filter.path)
                    .map_or(Ours::No, Ours::Configured),
                Some(discovery) => discovered(report, filter, &discovery, sources),
            };
            let found = match ours {
                Ours::No => continue,
                Ours::Elsewhere => None,
                Ours::Configured(found) => Some(found),
            };
            any = true;
            check(report, manager, i, found, sources);
        }
    });
    any
}

/// The build of a filter whose configuration is elsewhere.
fn expected_build(filter: &Node<'_>) -> Build {
    let types = filter
        .get("config_discovery")
        .map(|discovery| discovery.list("type_urls"));
    let types = types.unwrap_or_default();
    if Build::Module.is_among(&types) && !Build::Wasm.is_among(&types) {
        Build::Module
    } else {
        Build::Wasm
    }
}

/// A filter whose configuration is discovered.
fn discovered<'s, 'a>(
    report: &mut Report,
    filter: &Node<'a>,
    discovery: &Node<'a>,
    sources: &'s Sources<'a>,
) -> Ours<'s, 'a> {
    let name = filter.text("name").unwrap_or_default();
    let ours = match sources.filter(name) {
        Some(found) => Ours::Configured(found),
        None if name == limpet_core::envoy::FILTER_NAME => Ours::Elsewhere,
        None => return Ours::No,
    };
    if matches!(ours, Ours::Elsewhere) {
        let source = discovery.get("config_source");
        let from = match source.as_ref().and_then(discovery::watched_file) {
            Some(file) => format!("from {file}, which can not be read from here"),
            None => "from elsewhere".to_owned(),
        };
        report.note(filter, format!("not checked: the filter's configuration, which Envoy gets {from}; give that file as well, or run the check where Envoy runs"));
    }
    if discovery.get("default_config").is_none() {
        report.warning(discovery, "expected a default_config that lets requests pass: without it Envoy answers 500 until there is a first good configuration");
    }
    ours
}

fn check<'a>(report: &mut Report, manager: &Node<'a>, limpet: usize, found: Option<&Found<'a>>, sources: &Sources<'a>) {
    let config = found.and_then(|found| found.configuration.parsed());
    let config = config.as_ref();
    let filters: Vec<_> = manager.list("http_filters").into_iter().map(HttpFilter::new).collect();
    let expected = || filters.get(limpet).map(|filter| expected_build(&filter.node));
    let build = found.map(|found| found.build).or_else(expected).unwrap_or(Build::Wasm);
    let steering = |header: &str| filters.iter().position(|filter| filter.host_header() == Some(header));
    let chain = Chain {
        manager: manager.clone(),
        build,
        module: found.and_then(|found| found.envoy.get("dynamic_module_config")),
        limpet,
        soft: steering(HOST_HEADER),
        strict: steering(STRICT_HOST_HEADER),
        filters,
    };
    // The module needs nobody's help, and nothing is said in headers.
    if build == Build::Wasm {
        check_steering(report, &chain, config);
        headers::check(report, &chain);
    }
    check_access_log(report, &chain, config);
    if let Some(last) = chain
        .filters
        .last()
        .filter(|last| last.kind != ROUTER && !last.kind.is_empty())
    {
        report.error(&last.node, "expected the router as the last filter");
    }
    match manager.get("route_config") {
        Some(routes) => routes::check(report, &chain, config, sources, &routes),
        None => match manager
            .at(&["rds", "route_config_name"])
            .and_then(|name| sources.routes(name.value.as_str()?))
        {
            Some(routes) => routes::check(report, &chain, config, sources, routes),
            None => report.note(
                manager,
                "not checked: the routes, which Envoy gets from elsewhere; a file that has them can be given as well",
            ),
        },
    }
}

/// The two filters of Envoy's own that do the steering.
fn check_steering(report: &mut Report, chain: &Chain<'_>, config: Option<&FilterConfig>) {
    let any = |strict: bool| config.is_none_or(|config| config.policies.values().any(|policy| policy.strict == strict));
    let has_strict = config.is_some() && any(true);
    for (place, header, needed) in [
        (chain.soft, HOST_HEADER, any(false)),
        (chain.strict, STRICT_HOST_HEADER, has_strict),
    ] {
        let of = if header == STRICT_HOST_HEADER {
            "strict policies"
        } else {
            "policies that are not strict"
        };
        let Some((place, filter)) = place.and_then(|place| Some((place, chain.filters.get(place)?))) else {
            if needed {
                report.error(&chain.manager, format!("http_filters: expected a stateful_session filter with header state {header} behind limpet: sessions of {of} need it"));
            }
            continue;
        };
        if place < chain.limpet {
            report.error(
                &filter.node,
                format!("expected behind limpet, which tells it the host by {header}"),
            );
        }
        let strict = filter.content.as_ref().is_some_and(|content| content.flag("strict"));
        if header == STRICT_HOST_HEADER && !strict {
            report.error(
                &filter.node,
                "expected strict: true, because sessions of strict policies are steered by this filter",
            );
        } else if header == HOST_HEADER && strict {
            report.error(
                &filter.node,
                "expected no strict: true, because sessions of policies that are not strict are steered by this filter",
            );
        }
    }
    if let Some(strict) = chain.strict().filter(|strict| !strict.disabled) {
        report.warning(&strict.node, "expected disabled: true, with the routes that have a strict policy enabling it: where it is not needed, it only adds a header to every response");
    }
}

/// An access log that shows what happened to sessions needs the filter to leave it there.
fn check_access_log(report: &mut Report, chain: &Chain<'_>, config: Option<&FilterConfig>) {
    let state = match chain.build {
        Build::Wasm => format!("wasm.{FILTER_STATE}"),
        Build::Module => FILTER_STATE.to_owned(),
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
