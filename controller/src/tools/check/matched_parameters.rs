//! Routes that match on the parameter of a session, which the filter takes out of the request.

use super::chain::Chain;
use super::report::CheckReport;
use super::route_entry::RouteEntry;
use super::session::CheckedSession;
use crate::envoy_config::filter_locator::LocatedBuild;

/// Checks that a route of a session does not match on its parameter: with the wasm filter, Envoy matches again without.
pub(super) fn check(
    report: &mut CheckReport,
    chain: &Chain<'_>,
    session: &CheckedSession<'_>,
    entry: &RouteEntry<'_, '_>,
) {
    if chain.build != LocatedBuild::Wasm {
        return;
    }
    let also = session.config.also.iter().filter_map(|further| further.query.as_ref());
    let also = also.filter(|query| !query.forward).map(|query| &query.name);
    let own = session.config.query.as_ref().filter(|query| !query.forward);
    let taken: Vec<&String> = own.map(|query| &query.name).into_iter().chain(also).collect();
    let Some(matched) = entry.route.get("match") else {
        return;
    };
    for matcher in matched.list("query_parameters") {
        let name = matcher.text("name").unwrap_or_default();
        if taken.iter().any(|taken| *taken == name) {
            let message = format!(
                "the session {} has its token in the parameter {name}, which the filter takes out: the wasm filter has \
                 Envoy match the request again without it, and this route does not match then",
                session.name()
            );
            report.warning(&matcher, message);
        }
    }
}
