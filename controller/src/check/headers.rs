//! The internal headers of a chain: none of a client's own may get in, and none may get out.

use super::chain::Chain;
use super::report::Report;
use crate::node::Node;

const EARLY_HEADER_MUTATION: &str = "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation";

/// What the filter and Envoy tell each other by.
pub(crate) const INTERNAL_HEADERS: [&str; 4] = [SOFT_HEADER, STRICT_HEADER, DESTINATION_HEADER, SESSION_HEADER];
pub(crate) const SOFT_HEADER: &str = "x-limpet-host";
pub(crate) const STRICT_HEADER: &str = "x-limpet-host-strict";
/// What tells our filter the route's session, and what the chain writes into it.
pub(crate) const SESSION_HEADER: &str = "x-limpet-session";
pub(crate) const ROUTE_SESSION: &str = "%METADATA(ROUTE:limpet:session)%";

pub(crate) use limpet_core::view::DESTINATION_HEADER;

/// Whether a mutation takes the header away.
pub(super) fn removes(mutation: &Node<'_>, header: &str) -> bool {
    let matcher = mutation.at(&["remove_on_match", "key_matcher"]);
    let pattern = |kind: &str| matcher.as_ref()?.text(kind).map(str::to_ascii_lowercase);
    mutation
        .text("remove")
        .is_some_and(|name| name.eq_ignore_ascii_case(header))
        || pattern("exact").is_some_and(|name| name == header)
        || pattern("prefix").is_some_and(|prefix| header.starts_with(&prefix))
}

/// What a mutation appends to the header for the route's session, where it does.
pub(super) fn session_append<'a>(mutation: &Node<'a>) -> Option<Node<'a>> {
    let append = mutation.get("append")?;
    let key = append.at(&["header", "key"])?;
    let is_it = key.value.as_str()?.eq_ignore_ascii_case(SESSION_HEADER);
    is_it.then_some(append)
}

fn is_route_session(append: &Node<'_>) -> bool {
    append
        .at(&["header", "value"])
        .is_some_and(|value| value.value == ROUTE_SESSION)
}

/// Whether the header for the route's session has just that after a mutation, `before` being whether it had.
pub(super) fn has_session(before: bool, mutation: &Node<'_>) -> bool {
    let Some(append) = session_append(mutation) else {
        return before && !removes(mutation, SESSION_HEADER);
    };
    let is_session = is_route_session(&append);
    match append.text("append_action") {
        Some("OVERWRITE_IF_EXISTS_OR_ADD") => is_session,
        Some("OVERWRITE_IF_EXISTS") => before && is_session,
        Some("ADD_IF_ABSENT") => before || is_session,
        _ => !before && is_session,
    }
}

/// The headers that `is_removed` does not hold for, as words.
pub(super) fn missing(headers: &[&str], is_removed: impl Fn(&str) -> bool) -> String {
    let missing: Vec<&str> = headers.iter().copied().filter(|header| !is_removed(header)).collect();
    missing.join(", ")
}

/// Whether these headers of a client's own are gone before the first route match.
pub(super) fn check_early(report: &mut Report, chain: &Chain<'_>, headers: &[&str]) {
    let early: Vec<Node<'_>> = chain
        .manager
        .list("early_header_mutation_extensions")
        .iter()
        .filter_map(|extension| extension.get("typed_config"))
        .filter_map(|typed| typed.typed().filter(|(kind, _)| *kind == EARLY_HEADER_MUTATION))
        .flat_map(|(_, content)| content.list("mutations"))
        .collect();
    let missing = missing(headers, |header| early.iter().any(|mutation| removes(mutation, header)));
    if !missing.is_empty() {
        report.error(&chain.manager, format!("early_header_mutation_extensions: expected the removal of {missing}: a client's own would choose its backend or policy"));
    }
}

/// The internal headers of the wasm filter's chain, at every door but the last, which routes have.
pub(super) fn check(report: &mut Report, chain: &Chain<'_>) {
    check_early(report, chain, &INTERNAL_HEADERS);
    let in_front = chain.in_front();
    let leaking = missing(&[SOFT_HEADER, STRICT_HEADER], |header| {
        in_front
            .iter()
            .any(|filter| filter.removes(header, "response_mutations"))
    });
    if !leaking.is_empty() {
        report.error(&chain.manager, format!("http_filters: expected a header_mutation filter in front of limpet that removes {leaking} from responses: clients would see the backend's address"));
    }
    let mutations = in_front.iter().flat_map(|filter| filter.mutations("request_mutations"));
    let appended = mutations.filter_map(|mutation| session_append(&mutation));
    for append in appended.filter(|append| !is_route_session(append)) {
        report.error(&append, format!("expected {ROUTE_SESSION} as the value of {SESSION_HEADER}: any other chooses the session of routes whose metadata name none"));
    }
    for filter in chain.between() {
        let removed = ["request_mutations", "response_mutations"].iter().any(|mutations| {
            [SOFT_HEADER, STRICT_HEADER]
                .iter()
                .any(|header| filter.removes(header, mutations))
        });
        if removed {
            report.error(&filter.node, "expected in front of limpet or behind the stateful_session filters: here it takes away what they tell each other");
        }
    }
}
