//! The internal headers of a chain: a client cannot send them, and neither clients nor backends see them.

use super::chain::{Chain, HttpFilter};
use super::header_use::EARLY_HEADER_MUTATION;
use super::mutations::{is_route_session, removes, session_append};
use super::report::CheckReport;
use super::route_entry::RouteEntry;
use super::steering::{is_enabled, is_present};
use crate::envoy_config::filter_locator::LocatedBuild;
use crate::envoy_config::node::ConfigNode;
use limpet_core::envoy::{
    DESTINATION_HEADER, HOST_HEADER, INTERNAL_HEADERS, ROUTE_SESSION_FORMAT, SESSION_HEADER, STRICT_HOST_HEADER,
};

/// The headers of the filters that steer, which these also write into responses.
const HOST_HEADERS: [&str; 2] = [HOST_HEADER, STRICT_HOST_HEADER];

/// The headers that are not removed, for a message.
fn missing(headers: &[&str], is_removed: impl Fn(&str) -> bool) -> String {
    let missing: Vec<&str> = headers.iter().copied().filter(|header| !is_removed(header)).collect();
    missing.join(", ")
}

/// Checks that these headers, if a client sends them, are removed before the first route match.
pub(super) fn check_early(report: &mut CheckReport, chain: &Chain<'_>, headers: &[&str]) {
    let early = early_mutations(chain);
    let missing = missing(headers, |header| early.iter().any(|mutation| removes(mutation, header)));
    if !missing.is_empty() {
        let message = format!(
            "early_header_mutation_extensions: expected the removal of {missing}: a client's own would choose its \
             backend or policy"
        );
        report.error(&chain.manager, message);
    }
}

/// What Envoy does to the headers of a request before the first route match.
pub(super) fn early_mutations<'a>(chain: &Chain<'a>) -> Vec<ConfigNode<'a>> {
    let extensions = chain.manager.list("early_header_mutation_extensions");
    let typed = extensions.iter().filter_map(|extension| extension.get("typed_config"));
    let typed = typed.filter_map(|typed| typed.typed().filter(|(kind, _)| *kind == EARLY_HEADER_MUTATION));
    typed.flat_map(|(_, content)| content.list("mutations")).collect()
}

/// Checks the chain of a wasm filter; [`check_upstream`] checks its routes.
pub(super) fn check(report: &mut CheckReport, chain: &Chain<'_>) {
    let read = INTERNAL_HEADERS.into_iter().filter(|header| chain.may_use(header, &[]));
    let read: Vec<&str> = read.collect();
    check_early(report, chain, &read);
    let in_front = chain.in_front();
    let written: Vec<&str> = read
        .into_iter()
        .filter(|header| HOST_HEADERS.contains(header))
        .collect();
    let leaking = missing(&written, |header| {
        in_front
            .iter()
            .any(|filter| filter.removes(header, "response_mutations"))
    });
    if !leaking.is_empty() {
        let message = format!(
            "http_filters: expected a header_mutation filter in front of limpet that removes {leaking} from responses: \
             clients would see the backend's address"
        );
        report.error(&chain.manager, message);
    }
    let mutations = in_front.iter().flat_map(|filter| filter.mutations("request_mutations"));
    let appended = mutations.filter_map(|mutation| session_append(&mutation));
    for append in appended.filter(|append| !is_route_session(append)) {
        let message = format!(
            "expected {ROUTE_SESSION_FORMAT} as the value of {SESSION_HEADER}: any other value chooses the session of \
             routes whose metadata name none"
        );
        report.error(&append, message);
    }
    for filter in chain.between() {
        let removed = ["request_mutations", "response_mutations"]
            .iter()
            .any(|mutations| HOST_HEADERS.iter().any(|header| filter.removes(header, mutations)));
        if removed {
            let message = "expected in front of limpet or behind the stateful_session filters: here it removes the \
                           headers by which they tell each other the host";
            report.error(&filter.node, message);
        }
    }
}

/// Checks that clients do not see the internal headers of a route's responses. [`check`] reports what no route has.
pub(super) fn check_downstream(report: &mut CheckReport, chain: &Chain<'_>, entry: &RouteEntry<'_, '_>) {
    let steers = chain.steering().any(|filter| is_present(filter, entry));
    if chain.build == LocatedBuild::Module || entry.route.get("route").is_none() || !steers {
        return;
    }
    let removing = |filter: &HttpFilter<'_>| {
        let removes = |header: &&str| filter.removes(header, "response_mutations");
        HOST_HEADERS.iter().any(removes)
    };
    for filter in chain
        .in_front()
        .iter()
        .filter(|filter| removing(filter) && !is_enabled(filter, entry))
    {
        let message = format!(
            "expected the filter {} enabled: clients would see the address of the backend that answers here",
            filter.name
        );
        report.error(entry.route, message);
    }
}

/// Checks that backends do not see the internal headers; `led`: sessions are led to this route, or away from it.
pub(super) fn check_upstream(report: &mut CheckReport, chain: &Chain<'_>, entry: &RouteEntry<'_, '_>, led: bool) {
    let internal = match chain.build {
        LocatedBuild::Wasm => INTERNAL_HEADERS.as_slice(),
        LocatedBuild::Module if led => &[DESTINATION_HEADER],
        LocatedBuild::Module => &[],
    };
    if entry.route.get("route").is_none() {
        return;
    }
    let visible = missing(internal, |header| {
        let is_it = |name: &ConfigNode<'_>| {
            name.value
                .as_str()
                .is_some_and(|name| name.eq_ignore_ascii_case(header))
        };
        chain.hides_from_upstream(header, |filter| is_enabled(filter, entry))
            || entry
                .levels()
                .any(|level| level.list("request_headers_to_remove").iter().any(is_it))
    });
    if !visible.is_empty() {
        report.error(
            entry.route_configuration,
            format!("request_headers_to_remove: expected {visible}: backends would see them"),
        );
    }
}
