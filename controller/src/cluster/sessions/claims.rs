//! Limits of the moves that a report may claim: counters never go down again. Each move had a request, so there are not
//! more moves than requests.

use limpet_core::census::report::{BackendReport, Report};

/// Moves that are believed whatever the number of requests: those may come with the next report.
const FEW: u64 = 1_000;
/// The most moves of a report: no two reports of an Envoy are so many moves apart.
const MANY: u64 = 1_000_000;

pub(super) fn bound(report: &mut Report) {
    let requests = report.backends.iter().map(|backend| backend.requests);
    let mut rest = requests.fold(0, u64::saturating_add).clamp(FEW, MANY);
    let backends = report.backends.iter_mut().flat_map(|backend| {
        let rebalanced = backend.rebalanced.iter_mut().map(|window| &mut window.sessions);
        rebalanced.chain([&mut backend.departed])
    });
    let restarts = report.restarts.iter_mut().map(|restart| &mut restart.sessions);
    for sessions in backends.chain(restarts) {
        *sessions = rest.min(*sessions);
        rest -= *sessions;
    }
}

/// Sessions at backends that are not told apart live no longer than others. `longest`: the Gateway's longest idle
/// bound, in seconds.
pub(super) fn bound_others(report: &mut Report, longest: impl FnOnce() -> u32) {
    let is_of_others = |change: &&mut BackendReport| change.backend().is_some_and(|backend| backend.is_others());
    let mut others = report.backends.iter_mut().filter(is_of_others).peekable();
    if others.peek().is_some() {
        let longest = longest();
        others.for_each(|change| change.live_for = change.live_for.min(longest));
    }
}

#[cfg(test)]
mod tests {
    use limpet_core::census::report::{RebalancedReport, RestartReport};

    use super::*;

    fn report(requests: u64, left: u64) -> Report {
        let backend = BackendReport {
            requests,
            departed: left,
            rebalanced: vec![RebalancedReport {
                number: 1,
                sessions: left,
            }],
            ..BackendReport::default()
        };
        let restart = RestartReport {
            reason: "moved".to_owned(),
            sessions: left,
        };
        Report {
            backends: vec![backend],
            restarts: vec![restart],
            ..Report::default()
        }
    }

    fn claimed(requests: u64, left: u64) -> [u64; 3] {
        let mut report = report(requests, left);
        bound(&mut report);
        let backend = &report.backends[0];
        [
            backend.rebalanced[0].sessions,
            backend.departed,
            report.restarts[0].sessions,
        ]
    }

    #[test]
    fn no_more_sessions_move_than_there_were_requests() {
        assert_eq!(claimed(30_000, 10_000), [10_000; 3]);
        assert_eq!(claimed(25_000, 10_000), [10_000, 10_000, 5_000]);
        assert_eq!(claimed(0, 300), [300; 3]);
        assert_eq!(claimed(0, u64::MAX), [FEW, 0, 0]);
        assert_eq!(claimed(u64::MAX, u64::MAX), [MANY, 0, 0]);
    }
}
