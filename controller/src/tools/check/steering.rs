//! The filters that steer, on the routes that have sessions.

use super::chain::{Chain, HttpFilter};
use super::report::Report;
use super::routes::{Place, Session};
use crate::envoy_config::filter_locator::FILTER_CONFIG;
use crate::envoy_config::node::Node;

const PER_ROUTE: &str = "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute";

/// What a filter does on a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is not in the chain. Envoy makes a request's chain once, for the first route that the request matches.
    Absent,
    /// It is in the chain and does nothing. That is asked when the request gets to it, of the route that the request has by then.
    Idle,
    /// It works.
    Active,
}

/// What the route has this filter do: the innermost level that says something counts.
fn standing(filter: &HttpFilter<'_>, place: &Place<'_, '_>) -> Standing {
    let (mut is_absent, mut is_idle) = (filter.disabled, false);
    for level in place.levels() {
        let entry = level.get("typed_per_filter_config");
        let Some(entry) = entry.and_then(|filters| filters.entry(filter.name)) else {
            continue;
        };
        let Some((mut kind, mut content)) = entry.typed() else {
            continue;
        };
        is_absent = false;
        if kind == FILTER_CONFIG {
            is_absent = content.flag("disabled");
            // Envoy ignores the configuration in one that is disabled; without one in it, that of an outer level holds.
            let inner = content.get("config").filter(|_| !is_absent);
            let Some(inner) = inner.as_ref().and_then(Node::typed) else {
                continue;
            };
            (kind, content) = inner;
        }
        if kind == PER_ROUTE {
            is_idle = content.flag("disabled");
        }
    }
    match (is_absent, is_idle) {
        (true, _) => Standing::Absent,
        (false, true) => Standing::Idle,
        (false, false) => Standing::Active,
    }
}

/// Whether a filter works on a route.
pub(super) fn is_enabled(filter: &HttpFilter<'_>, place: &Place<'_, '_>) -> bool {
    standing(filter, place) == Standing::Active
}

/// Whether the filters that these sessions need are on their route. `split`: it is the last route of a split, which none of its sessions
/// stays on.
pub(super) fn check(
    report: &mut Report,
    chain: &Chain<'_>,
    sessions: &[Session<'_>],
    place: &Place<'_, '_>,
    split: bool,
) {
    let Some(any) = sessions.first() else {
        return;
    };
    if let Some(limpet) = chain.limpet().filter(|limpet| !is_enabled(limpet, place)) {
        let (name, words) = (limpet.name, any.words());
        let message = format!("the filter {name} is disabled here, so there is no session {words}");
        return report.warning(place.route, message);
    }
    let filters = [(chain.soft(), false), (chain.strict(), true)];
    let filters = filters
        .into_iter()
        .filter_map(|(filter, strict)| Some((filter?, strict)));
    let filters = filters.map(|(filter, strict)| (filter.name, standing(filter, place), strict));
    let filters: Vec<_> = filters.collect();
    let of = |strict: bool| sessions.iter().find(|session| session.config.strict == strict);
    let kind = |strict: bool| if strict { "strict" } else { "not strict" };
    for &(name, standing, strict) in &filters {
        match of(strict) {
            Some(session) if split => check_last(report, place, session, name, standing),
            Some(session) if standing != Standing::Active => {
                let (words, kind) = (session.words(), kind(strict));
                report.error(place.route, format!("typed_per_filter_config: expected {name} enabled: the session {words} is {kind}, and this filter steers it"));
            }
            _ => {}
        }
    }
    for &(name, standing, strict) in &filters {
        if standing == Standing::Active && of(strict).is_none() {
            let (words, kind) = (any.words(), kind(!strict));
            report.warning(place.route, format!("typed_per_filter_config: expected {name} disabled: the session {words} is {kind}, and there this filter only adds a header to every response"));
        }
    }
}

/// The filter that steers sessions of a split must be in the chain of its last route, for those that are led elsewhere, and do nothing for
/// those that are not.
fn check_last(report: &mut Report, place: &Place<'_, '_>, session: &Session<'_>, name: &str, standing: Standing) {
    let words = session.words();
    let idle =
        format!("typed_per_filter_config: expected {name} disabled by a StatefulSessionPerRoute with disabled: true");
    match standing {
        Standing::Idle => {}
        Standing::Absent => report.error(place.route, format!("{idle}, and not otherwise: Envoy makes the chain for this route, so sessions {words} that are led to the routes of their clusters would not be steered there")),
        Standing::Active if session.config.strict => report.error(place.route, format!("{idle}: a session {words} whose cluster has no route any more would fail here until it ends")),
        Standing::Active => report.warning(place.route, format!("{idle}: a session {words} whose cluster has no route any more is not to be steered here")),
    }
}
