//! `limpet check --minimal`: the parts of a chain that its configuration does not need.
//!
//! A client's copy of an internal header may stay in a request until it goes upstream if nothing reads it before. Where
//! the router removes headers, all of them stay removed.

use super::chain::Chain;
use super::header_use::names;
use super::headers::early_mutations;
use super::mutations::session_append;
use super::report::CheckReport;
use crate::envoy_config::filter_locator::{LocatedBuild, LocatedFilter};
use crate::envoy_config::node::ConfigNode;
use limpet_core::envoy::{FILTER_NAME, HOST_HEADER, INTERNAL_HEADERS, SESSION_HEADER, STRICT_HOST_HEADER};

/// Names the parts that the chain of a wasm filter does not need; `is_good`: whether the check has found no errors and
/// warnings in it.
pub(super) fn report_unneeded(
    report: &mut CheckReport,
    chain: &Chain<'_>,
    located: Option<&LocatedFilter<'_>>,
    is_good: bool,
) {
    if chain.build == LocatedBuild::Module {
        return;
    }
    let config = located.filter(|_| is_good && chain.opaque.is_none());
    let Some(config) = config.and_then(|located| located.configuration.parsed()) else {
        let why = chain.opaque.as_deref().unwrap_or("its errors and warnings come first");
        let message = format!("not known what this chain does not need: {why}");
        return report.add_note(&chain.manager, message);
    };
    let mut unneeded = Vec::new();
    for (strict, header, policies) in [
        (false, HOST_HEADER, "every policy is strict, without move"),
        (true, STRICT_HOST_HEADER, "no policy is strict"),
    ] {
        if config.policies.values().any(|policy| policy.may_steer(strict)) {
            continue;
        }
        let why = format!("{policies}; what routes say of this filter has no effect then");
        let filters = chain.filters.iter();
        let filters = filters.filter(|filter| filter.host_header() == Some(header));
        unneeded.extend(filters.map(|filter| (filter.node.clone(), why.clone())));
    }
    let filters: Vec<String> = unneeded.iter().map(|(filter, _)| filter.path.clone()).collect();
    let in_front = |of: &str| -> Vec<ConfigNode<'_>> {
        let filters = chain.in_front().iter();
        filters.flat_map(|filter| filter.mutations(of)).collect()
    };
    let unused = |header: &&str| !chain.may_use(header, &filters);
    for header in INTERNAL_HEADERS.into_iter().filter(unused) {
        let removals = early_mutations(chain).into_iter().chain(in_front("response_mutations"));
        let why = format!("nothing else in the chain uses {header}, and backends do not see a client's");
        let removals = removals.filter(|mutation| is_removal(mutation, header));
        unneeded.extend(removals.map(|mutation| (mutation, why.clone())));
    }
    let mutations = in_front("request_mutations");
    let appends = mutations.iter().filter_map(session_append);
    let appends: Vec<String> = appends.map(|append| append.path).collect();
    if !tells_sessions(chain) && !names(&chain.manager, SESSION_HEADER, &appends) {
        let is_for_session =
            |mutation: &ConfigNode<'_>| is_removal(mutation, SESSION_HEADER) || session_append(mutation).is_some();
        let why = format!("no route's metadata name a session, and a client's {SESSION_HEADER} is removed before");
        let mutations = mutations.into_iter().filter(is_for_session);
        unneeded.extend(mutations.map(|mutation| (mutation, why.clone())));
    }
    // The last items of lists first: deleting one after the other then deletes what the notes name.
    unneeded.sort_by(|(one, _), (other, _)| place(&other.path).cmp(&place(&one.path)));
    for (node, why) in unneeded {
        report.add_note(&node, format!("not needed: {why}"));
    }
}

/// Sorts as the document does: the items of a list by their numbers.
fn place(path: &str) -> Vec<(u32, &str)> {
    let parts = path.split(['[', ']']);
    parts
        .map(|part| part.parse().map_or((0, part), |number| (number, "")))
        .collect()
}

/// Whether a mutation removes this header and no other.
fn is_removal(mutation: &ConfigNode<'_>, header: &str) -> bool {
    mutation
        .text("remove")
        .is_some_and(|name| name.eq_ignore_ascii_case(header))
}

/// Whether metadata of any route may name a session.
fn tells_sessions(chain: &Chain<'_>) -> bool {
    let mut any = false;
    chain.manager.visit(&mut |object| {
        any |= object.at(&["filter_metadata", FILTER_NAME]).is_some();
    });
    any
}
