//! The chain of HTTP filters around Limpet's.

use super::header_use::{self, HEADER_MUTATION, ROUTER, STATEFUL_SESSION};
use super::mutations::{has_session, removes, session_append};
use crate::cli::EnvoyVersion;
use crate::envoy_config::filter_locator::{LocatedBuild, LocatedFilter};
use crate::envoy_config::node::ConfigNode;
use limpet_core::envoy::{HOST_HEADER, INTERNAL_HEADERS, SESSION_HEADER, STRICT_HOST_HEADER};

/// Wraps a filter: requests that its matcher chooses skip the filter.
const WITH_MATCHER: &str = "envoy.extensions.common.matching.v3.ExtensionWithMatcher";

/// An entry of `http_filters`.
#[derive(Debug)]
pub(super) struct HttpFilter<'a> {
    pub(super) name: &'a str,
    pub(super) node: ConfigNode<'a>,
    /// The message type of its configuration; empty if that is discovered.
    kind: &'a str,
    content: Option<ConfigNode<'a>>,
    /// Whether only routes that enable it have it.
    pub(super) disabled: bool,
    /// Whether it is wrapped in a matcher.
    pub(super) has_matcher: bool,
}

impl<'a> HttpFilter<'a> {
    fn new(node: ConfigNode<'a>) -> Self {
        let typed = |of: &ConfigNode<'a>| of.get("typed_config")?.typed();
        let mut found = typed(&node);
        let has_matcher = found.as_ref().is_some_and(|(kind, _)| *kind == WITH_MATCHER);
        if has_matcher {
            found = found.and_then(|(_, wrapper)| typed(&wrapper.get("extension_config")?));
        }
        let (kind, content) = found.map_or(("", None), |(kind, content)| (kind, Some(content)));
        Self {
            has_matcher,
            name: node.text("name").unwrap_or_default(),
            disabled: node.flag("disabled"),
            kind,
            content,
            node,
        }
    }

    /// Whether it may be the router: what is discovered is not known here.
    pub(super) fn may_be_router(&self) -> bool {
        self.kind.is_empty() || self.kind == ROUTER
    }

    /// The field `strict` of a `stateful_session` filter.
    pub(super) fn is_strict(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.flag("strict"))
    }

    /// The header that tells a `stateful_session` filter the host.
    pub(super) fn host_header(&self) -> Option<&'a str> {
        let content = self.content.as_ref().filter(|_| self.kind == STATEFUL_SESSION)?;
        content.at(&["session_state", "typed_config"])?.typed()?.1.text("name")
    }

    /// What a `header_mutation` filter does to headers; `of`: `request_mutations` or `response_mutations`.
    pub(super) fn mutations(&self, of: &str) -> Vec<ConfigNode<'a>> {
        let content = self.content.as_ref().filter(|_| self.kind == HEADER_MUTATION);
        let mutations = content.and_then(|content| content.get("mutations"));
        mutations.map(|mutations| mutations.list(of)).unwrap_or_default()
    }

    /// Whether it is a `header_mutation` filter for one of the internal headers.
    pub(super) fn is_for_internal_headers(&self) -> bool {
        let concerns = |mutation: &ConfigNode<'_>| {
            session_append(mutation).is_some() || INTERNAL_HEADERS.iter().any(|header| removes(mutation, header))
        };
        ["request_mutations", "response_mutations"]
            .iter()
            .any(|of| self.mutations(of).iter().any(concerns))
    }

    /// Whether a `header_mutation` filter removes the header; `of`: as in [`Self::mutations`].
    pub(super) fn removes(&self, header: &str, of: &str) -> bool {
        self.mutations(of).iter().any(|mutation| removes(mutation, header))
    }
}

/// A chain with Limpet's filter in it.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// The `HttpConnectionManager`.
    pub(super) manager: ConfigNode<'a>,
    pub(super) build: LocatedBuild,
    /// `dynamic_module_config`, if the filter is a module and its configuration is known.
    pub(super) module: Option<ConfigNode<'a>>,
    /// The version of Envoy that it is for, if that is known.
    pub(super) envoy: Option<EnvoyVersion>,
    /// Why it is not known which headers the chain reads, if that is not known.
    pub(super) opaque: Option<String>,
    pub(super) filters: Vec<HttpFilter<'a>>,
    limpet: usize,
    soft: Option<usize>,
    strict: Option<usize>,
}

impl<'a> Chain<'a> {
    /// The chain of a connection manager; `limpet`: the index of Limpet's filter; `located`: that filter, if its
    /// configuration is known.
    pub(super) fn new(
        manager: &ConfigNode<'a>,
        limpet: usize,
        located: Option<&LocatedFilter<'a>>,
        envoy: Option<EnvoyVersion>,
    ) -> Self {
        let filters: Vec<_> = manager.list("http_filters").into_iter().map(HttpFilter::new).collect();
        let steering = |header: &str| filters.iter().position(|filter| filter.host_header() == Some(header));
        let expected = || filters.get(limpet).map(|filter| expected_build(&filter.node));
        let build = located.map(|located| located.build).or_else(expected);
        Self {
            manager: manager.clone(),
            build: build.unwrap_or(LocatedBuild::Wasm),
            module: located.and_then(|located| located.envoy.get("dynamic_module_config")),
            envoy,
            opaque: header_use::opaque(manager, located),
            limpet,
            soft: steering(HOST_HEADER),
            strict: steering(STRICT_HOST_HEADER),
            filters,
        }
    }

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

    pub(super) fn last(&self) -> Option<&HttpFilter<'a>> {
        self.filters.last()
    }

    /// The filters in front of Limpet's.
    pub(super) fn in_front(&self) -> &[HttpFilter<'a>] {
        self.filters.get(..self.limpet).unwrap_or_default()
    }

    /// The filters between Limpet's and the last that steers.
    pub(super) fn between(&self) -> impl Iterator<Item = &HttpFilter<'a>> {
        let last = self.soft.max(self.strict).unwrap_or(0);
        self.filters.iter().take(last).skip(self.limpet + 1)
    }

    /// The filters that sessions need.
    pub(super) fn parts(&self) -> impl Iterator<Item = &HttpFilter<'a>> {
        let is_part = |at: usize, filter: &HttpFilter<'a>| {
            let own = [Some(self.limpet), self.soft, self.strict].contains(&Some(at));
            own || at + 1 == self.filters.len() || filter.is_for_internal_headers()
        };
        self.filters
            .iter()
            .enumerate()
            .filter(move |(at, filter)| is_part(*at, filter))
            .map(|(_, filter)| filter)
    }

    /// Whether anything may read this internal header in requests, or write it into responses; `without`: the paths of
    /// parts that do not count.
    pub(super) fn may_use(&self, header: &str, without: &[String]) -> bool {
        // The filter itself reads the session.
        header == SESSION_HEADER || self.opaque.is_some() || header_use::names(&self.manager, header, without)
    }

    /// The filters that steer.
    pub(super) fn steering(&self) -> impl Iterator<Item = &HttpFilter<'a>> {
        self.soft().into_iter().chain(self.strict())
    }

    /// Whether a filter of the chain removes this header before the request goes upstream; `is_enabled`: which filters
    /// work on its route.
    pub(super) fn hides_from_upstream(&self, header: &str, is_enabled: impl Fn(&HttpFilter<'a>) -> bool) -> bool {
        let last = match header {
            SESSION_HEADER => self.limpet,
            _ => self.limpet.max(self.soft.max(self.strict).unwrap_or(0)),
        };
        self.filters
            .iter()
            .skip(last)
            .any(|filter| filter.removes(header, "request_mutations") && is_enabled(filter))
    }

    /// Whether Limpet's filter gets the session that a route's metadata name; `is_enabled`: which filters work on that
    /// route.
    pub(super) fn tells_session(&self, is_enabled: impl Fn(&HttpFilter<'a>) -> bool) -> bool {
        let in_front = self.in_front().iter().filter(|filter| is_enabled(filter));
        let mutations = in_front.flat_map(|filter| filter.mutations("request_mutations"));
        mutations.fold(false, |before, mutation| has_session(before, &mutation))
    }
}

/// The build of a filter whose configuration is elsewhere.
fn expected_build(filter: &ConfigNode<'_>) -> LocatedBuild {
    let types = filter
        .get("config_discovery")
        .map(|discovery| discovery.list("type_urls"));
    let types = types.unwrap_or_default();
    if LocatedBuild::Module.is_among(&types) && !LocatedBuild::Wasm.is_among(&types) {
        LocatedBuild::Module
    } else {
        LocatedBuild::Wasm
    }
}
