use limpet_core::census::report::{BackendReport, RebalancedReport, ShedHost};
use limpet_core::token::DestinationId;

use super::*;

const SHOP: DestinationId = DestinationId([1, 2, 3, 4]);

fn backend(last: u8) -> Backend {
    Backend {
        destination: SHOP,
        host: SocketAddr::from(([10, 0, 0, last], 80)),
        live_for: 600,
    }
}

fn shed(sessions: u32, hosts: [u32; 2]) -> ShedBudget {
    ShedBudget {
        destination: u32::from_be_bytes(SHOP.0),
        sessions,
        hosts: std::iter::zip([1, 2], hosts)
            .map(|(last, sessions)| ShedHost::new(backend(last).host, sessions))
            .collect(),
        targets: vec![ShedHost::new(backend(4).host, 9)],
    }
}

fn given(sheds: Vec<ShedBudget>) -> SharedBudgets {
    SharedBudgets {
        since: 1,
        left: sheds.clone(),
        given: sheds,
    }
}

fn taken(hosts: [u32; 2]) -> HashMap<BudgetHost, u32> {
    let hosts = std::iter::zip([1, 2], hosts).filter(|(_, sessions)| *sessions > 0);
    hosts
        .map(|(last, sessions)| ((u32::from_be_bytes(SHOP.0), backend(last).host), sessions))
        .collect()
}

fn report(hosts: [u64; 2]) -> Report {
    let backends = std::iter::zip([1, 2], hosts).map(|(last, sessions)| BackendReport {
        rebalanced: vec![RebalancedReport { number: 1, sessions }],
        ..BackendReport::new(backend(last))
    });
    Report {
        backends: backends.collect(),
        ..Report::default()
    }
}

#[test]
fn no_more_is_taken_than_was_given() {
    let mut budgets = given(vec![shed(4, [1, 9])]);
    let mut take = |last| {
        (0..9)
            .filter_map(|_| ShedBudget::consume(&mut budgets.left, &backend(last), |_| true))
            .count()
    };
    assert_eq!([3, 1, 2].map(&mut take), [0, 1, 3]);
    assert_eq!(budgets.taken(), taken([1, 3]));
    let targets = budgets.left.iter().flat_map(|shed| &shed.targets);
    assert_eq!(targets.map(|target| target.sessions).collect::<Vec<_>>(), [5]);
}

#[test]
fn what_no_report_has_told_yet_is_not_given_again() {
    let mut untold = UnreportedRestarts::default();
    let all = || vec![shed(10, [5, 5])];
    assert_eq!(untold.withhold(all()), all());
    untold.rotate(Some(taken([3, 1])));
    untold.on_report(&report([1, 0]));
    assert_eq!(untold.withhold(all()), [shed(7, [3, 4])]);
    untold.rotate(Some(taken([2, 0])));
    untold.on_report(&report([2, 1]));
    assert_eq!(untold.withhold(all()), [shed(8, [3, 5])]);
    untold.on_report(&report([2, 0]));
    assert_eq!(untold.withhold(all()), all());
}

#[test]
fn who_is_not_in_the_report_after_has_stayed() {
    let mut untold = UnreportedRestarts::default();
    untold.rotate(Some(taken([3, 1])));
    untold.rotate(None);
    assert_eq!(untold.withhold(vec![shed(2, [2, 2])]), [shed(2, [2, 2])]);
    untold.rotate(Some(taken([3, 0])));
    assert_eq!(untold.withhold(vec![shed(2, [2, 2])]), [shed(0, [0, 2])]);
}
