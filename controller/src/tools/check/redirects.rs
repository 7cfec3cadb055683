//! Internal redirects: Envoy begins a request again, and the filter recognises it by its id.

use super::chain::Chain;
use super::report::CheckReport;
use super::route_entry::RouteEntry;
use super::session::CheckedSession;

/// Checks that sessions of a route outlast its internal redirects.
pub(super) fn check(
    report: &mut CheckReport,
    chain: &Chain<'_>,
    session: &CheckedSession<'_>,
    entry: &RouteEntry<'_, '_>,
) {
    let Some(policy) = entry.route.at(&["route", "internal_redirect_policy"]) else {
        return;
    };
    // Addresses stay as they are.
    if session.config.source.is_some() {
        return;
    }
    let generates = chain.manager.get("generate_request_id");
    if generates.is_some_and(|generates| generates.value == false) {
        let message = format!(
            "expected request ids (no generate_request_id: false in the connection manager): by its id, the filter \
             knows a request that Envoy begins again, and without one, a redirect moves the session {}",
            session.name()
        );
        report.error(&policy, message);
    }
}
