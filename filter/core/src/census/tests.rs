use std::collections::HashMap;
use std::net::SocketAddr;

use super::report::BackendReport;
use prost::Message as _;

use super::*;
use crate::token::DestinationId;

const SEED: [u8; 16] = [7; 16];

fn backend(last: u8, live_for: u32) -> Backend {
    Backend {
        destination: DestinationId([1, 2, 3, 4]),
        host: SocketAddr::from(([10, 0, 0, last], 80)),
        live_for,
    }
}

fn seen(backend: Backend, nonce: u32, at: Timestamp) -> ObservedSession {
    ObservedSession {
        backend,
        session: SessionIdentity::Token(nonce.to_be_bytes()),
        began: at,
        at,
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_seconds(1_800_000_000 + seconds)
}

/// As unlike each other as nonces.
fn nonce(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b9) ^ 0x1234_5678
}

fn answer(memory: u64) -> report::ReportResponse {
    report::ReportResponse {
        memory,
        ..report::ReportResponse::default()
    }
}

#[derive(Default)]
struct Merged {
    windows: HashMap<(Backend, u64), Sketch>,
    requests: HashMap<Backend, u64>,
    last_use: HashMap<Backend, u64>,
}

impl Merged {
    fn add(&mut self, report: &Report) {
        for change in &report.backends {
            let backend = change.backend().unwrap();
            *self.requests.entry(backend).or_default() += change.requests;
            let last_use = self.last_use.entry(backend).or_default();
            *last_use = change.last_use.max(*last_use);
            for window in &change.windows {
                let sketch = self.windows.entry((backend, window.number)).or_default();
                sketch.merge(&window.sketch().unwrap());
            }
        }
    }

    fn sessions(&self, backend: Backend, now: Timestamp) -> usize {
        let newest = sub_window(backend.live_for, now);
        let mut all = Sketch::default();
        for ((of, number), sketch) in &self.windows {
            if *of == backend && number + SUB_WINDOWS >= newest {
                all.merge(sketch);
            }
        }
        all.estimate()
    }
}

#[test]
fn few_sessions_are_counted_exactly_by_three_envoys_together() {
    let envoys = [(); 3].map(|()| Census::new(SEED, 100));
    let shop = backend(1, 600);
    let mut merged = Merged::default();
    for round in 0..20 {
        for number in 0..99 {
            let envoy = &envoys[(number + round) as usize % 3];
            envoy.record(&seen(shop, nonce(number), at(u64::from(round))));
        }
        for envoy in &envoys {
            merged.add(&envoy.report(at(u64::from(round))).unwrap());
        }
    }
    assert_eq!(merged.sessions(shop, at(20)), 99);
    assert_eq!(merged.requests[&shop], 20 * 99);
}

#[test]
fn ten_thousand_sessions_are_counted_within_five_percent() {
    for series in 0..20 {
        let envoys = [(); 3].map(|()| Census::new(SEED, 100));
        let shop = backend(1, 600);
        for number in 0..10_000 {
            for use_ in 0..4 {
                let envoy = &envoys[(number * 7 + use_ * use_) as usize % 3];
                envoy.record(&seen(shop, nonce(series * 10_000 + number), at(u64::from(use_) * 100)));
            }
        }
        let mut merged = Merged::default();
        for envoy in &envoys {
            merged.add(&envoy.report(at(400)).unwrap());
        }
        let sessions = merged.sessions(shop, at(400));
        assert!(sessions.abs_diff(10_000) <= 500, "{sessions}");
    }
}

#[test]
fn sessions_are_forgotten_after_their_idle_bound() {
    let census = Census::new(SEED, 100);
    let shop = backend(1, 60);
    let mut merged = Merged::default();
    for number in 0..50 {
        census.record(&seen(shop, nonce(number), at(0)));
    }
    for number in 0..20 {
        census.record(&seen(shop, nonce(number), at(50)));
    }
    merged.add(&census.report(at(50)).unwrap());
    assert_eq!(merged.sessions(shop, at(50)), 50);
    // A sub-window late.
    assert_eq!(merged.sessions(shop, at(76)), 20);
    assert_eq!(merged.sessions(shop, at(126)), 0);
    assert_eq!(census.report(at(110)), None);
    assert_eq!(census.backends.load(Ordering::Relaxed), 1);
    assert_eq!(census.report(at(112)), None);
    assert_eq!(census.backends.load(Ordering::Relaxed), 0);
}

#[test]
fn a_report_tells_what_has_changed_alone() {
    let census = Census::new(SEED, 100);
    census.record(&seen(backend(1, 600), 1, at(0)));
    census.record(&seen(backend(2, 600), 2, at(0)));
    assert_eq!(census.report(at(1)).unwrap().backends.len(), 2);
    assert_eq!(census.report(at(2)), None);
    census.record(&seen(backend(2, 600), 2, at(3)));
    let report = census.report(at(3)).unwrap();
    let [change] = &report.backends[..] else {
        panic!("{report:?}");
    };
    assert_eq!(change.backend(), Some(backend(2, 600)));
    assert_eq!((change.requests, change.windows.len()), (1, 0));
}

#[test]
fn a_report_that_was_lost_is_told_again() {
    let census = Census::new(SEED, 100);
    let shop = backend(1, 600);
    census.record(&seen(shop, 1, at(0)));
    census.record_departure(SessionDeparture::Moved);
    census.record_departure(SessionDeparture::Backend(shop));
    let lost = census.report(at(1)).unwrap();
    census.merge(lost.clone());
    assert_eq!(census.report(at(2)), Some(lost.clone()));
    census.merge(lost);
    census.record(&seen(shop, 2, at(3)));
    census.record_departure(SessionDeparture::Moved);
    let report = census.report(at(3)).unwrap();
    assert_eq!(report.restarts[0].sessions, 2);
    let change = &report.backends[0];
    assert_eq!((change.requests, change.departed), (2, 1));
    assert_eq!(change.windows[0].sketch().unwrap().estimate(), 2);
}

#[test]
fn backends_beyond_the_limit_are_counted_together() {
    let census = Census::new(SEED, 2);
    for host in 0..10 {
        census.record(&seen(backend(host, 600), u32::from(host), at(0)));
    }
    let report = census.report(at(1)).unwrap();
    let (others, known): (Vec<_>, Vec<_>) = report
        .backends
        .iter()
        .partition(|change| change.backend().unwrap().is_others());
    assert_eq!(known.len(), 2);
    let sessions: usize = others
        .iter()
        .map(|change| change.windows[0].sketch().unwrap().estimate())
        .sum();
    assert_eq!(sessions, 8);
}

#[test]
fn addresses_of_clients_cannot_be_found_by_their_hash() {
    let key = EntryKey::of_client([10; 16], 1);
    let report = |seed| {
        let census = Census::new(seed, 10);
        census.record(&ObservedSession {
            session: SessionIdentity::Client(key),
            ..seen(backend(1, 600), 0, at(0))
        });
        census.report(at(1)).unwrap()
    };
    assert_eq!(report([1; 16]), report([1; 16]));
    assert_ne!(report([1; 16]), report([2; 16]));
}

#[test]
fn reports_have_the_same_bytes_everywhere() {
    let census = Census::new(SEED, 10);
    census.record(&seen(backend(1, 600), 1, at(0)));
    let report = census.report(at(1)).unwrap();
    let body = report.grpc_body();
    let (head, message) = body.split_at(5);
    assert_eq!(head, [0, 0, 0, 0, u8::try_from(message.len()).unwrap()]);
    assert_eq!(<Report as prost::Message>::decode(message), Ok(report));
}

#[test]
fn what_is_no_report_of_a_backend_is_noticed() {
    for (address, port) in [(vec![1, 2, 3], 1), (vec![], 1), (vec![1, 2, 3, 4], 65536)] {
        let change = BackendReport {
            address,
            port,
            ..BackendReport::default()
        };
        assert_eq!(change.backend(), None);
    }
}

#[test]
fn a_controller_that_has_forgotten_is_told_everything() {
    let census = Census::new(SEED, 10);
    let shop = backend(1, 600);
    census.record(&seen(shop, 1, at(0)));
    census.record(&seen(shop, 2, at(300)));
    let first = census.report(at(300)).unwrap();
    for memory in [7, 7] {
        census.receive(&answer(memory), at(300));
        assert_eq!(census.report(at(301)), None);
    }
    census.receive(&answer(8), at(301));
    let again = census.report(at(302)).unwrap();
    assert_eq!(again.backends[0].windows, first.backends[0].windows);
    assert_eq!(
        (again.backends[0].requests, again.backends[0].last_use),
        (0, first.backends[0].last_use)
    );
}

#[test]
fn answers_are_read_from_the_body_of_a_call() {
    use prost::Message as _;
    let answer = answer(0x0102_0304);
    let message = answer.encode_to_vec();
    let body = [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()][..], &message].concat();
    assert_eq!(report::ReportResponse::of_grpc_body(&body), Some(answer));
    for end in 0..body.len() {
        assert_eq!(report::ReportResponse::of_grpc_body(&body[..end]), None);
    }
    assert_eq!(report::ReportResponse::of_grpc_body(&[1, 0, 0, 0, 0]), None);
}

/// Numbered from `first`.
fn shed_hosts(first: u8, sessions: [u32; 2]) -> Vec<report::ShedHost> {
    let hosts = std::iter::zip(first.., sessions);
    hosts
        .map(|(last, sessions)| report::ShedHost::new(backend(last, 600).host, sessions))
        .collect()
}

#[test]
fn a_budget_lets_as_many_sessions_leave() {
    use report::{ReportResponse, ShedBudget};
    let census = Census::new(SEED, 10);
    let hosts = [1, 2, 3].map(|last| backend(last, 600));
    let grant_to = |sessions, of_hosts, to: [u32; 2]| ReportResponse {
        memory: 7,
        process: 7,
        sheds: vec![ShedBudget {
            destination: u32::from_be_bytes(hosts[0].destination.0),
            sessions,
            hosts: shed_hosts(1, of_hosts),
            targets: shed_hosts(4, to),
        }],
    };
    let grant = |sessions, of_hosts| grant_to(sessions, of_hosts, [9, 9]);
    let left_for = |host: &Backend, now| {
        (0..9)
            .filter_map(|_| census.consume_budget(host, now))
            .collect::<Vec<_>>()
    };
    let leaving = |now| hosts.map(|host| left_for(&host, now).len());
    assert_eq!(leaving(at(0)), [0, 0, 0]);
    census.receive(&grant(9, [2, 3]), at(0));
    assert_eq!(leaving(at(15)), [2, 3, 0]);
    census.receive(&grant(3, [2, 3]), at(0));
    assert_eq!(leaving(at(15)), [2, 1, 0]);
    // A new answer replaces the last, and counts for a while.
    census.receive(&grant(9, [2, 3]), at(0));
    census.receive(&answer(7), at(0));
    assert_eq!(leaving(at(0)), [0, 0, 0]);
    census.receive(&grant(9, [2, 3]), at(0));
    assert_eq!(leaving(at(16)), [0, 0, 0]);
    // No backend gets more than it lacks; if none lacks any, or no controller says so, all stay.
    for (to, expected) in [([1, 2], vec![5, 5, 4]), ([0, 1], vec![5]), ([0, 0], vec![])] {
        census.receive(&grant_to(9, [4, 0], to), at(0));
        let to: Vec<_> = left_for(&hosts[0], at(0)).into_iter().collect();
        let expected: Vec<_> = expected.into_iter().map(|last| backend(last, 600).host).collect();
        assert_eq!(to, expected);
    }
    // A host that did not answer gets none for five minutes.
    census.record_departure(SessionDeparture::Astray(hosts[2], at(0), backend(5, 600).host, at(0)));
    census.report(at(0));
    for (now, last) in [(15, 4), (299, 4), (300, 5)] {
        census.receive(&grant_to(9, [9, 9], [1, 9]), at(now));
        assert_eq!(left_for(&hosts[0], at(now))[0], backend(last, 600).host, "{now}");
    }
    // A report gives it back.
    census.receive(&grant(9, [2, 3]), at(0));
    for last_seen in [0, 300, 0] {
        census.record_departure(SessionDeparture::Rebalanced(hosts[0], at(last_seen)));
    }
    let report = census.report(at(1)).unwrap();
    let windows = [(0, 2), (300, 1)].map(|(last_seen, sessions)| report::RebalancedReport {
        number: sub_window(600, at(last_seen)),
        sessions,
    });
    assert_eq!(report.backends[0].rebalanced, windows);
    assert_eq!(leaving(at(1)), [0, 0, 0]);
    census.merge(report);
    assert_eq!(census.report(at(2)).unwrap().backends[0].rebalanced, windows);
    assert_eq!(census.report(at(3)), None);
    assert_eq!(census.reporter(), census.reporter());
    assert_ne!(census.reporter(), Census::new(SEED, 10).reporter());
}

/// Takes seconds: 1,800,000 sessions at 400 backends, more than a report holds.
#[test]
fn every_backend_gets_its_turn_in_a_report() {
    let census = Census::new(SEED, 1000);
    let shops: Vec<Backend> = (0..400_u16)
        .map(|number| Backend {
            host: SocketAddr::from(([10, 0, 0, 1], number)),
            ..backend(1, 600)
        })
        .collect();
    let mut told = HashMap::<Backend, u64>::new();
    for round in 0..9_u32 {
        for shop in &shops {
            for session in 0..500 {
                let number = (round * 500 + session) * 400 + u32::from(shop.host.port());
                census.record(&seen(*shop, nonce(number), at(u64::from(round) * 2)));
            }
        }
        let report = census.report(at(u64::from(round) * 2)).unwrap();
        assert!(report.more);
        assert!(report.encoded_len() < REPORT_LEN + 20_000);
        for change in &report.backends {
            *told.entry(change.backend().unwrap()).or_default() += 1;
        }
    }
    // Two reports have room for all.
    let least = shops
        .iter()
        .map(|shop| told.get(shop).copied().unwrap_or_default())
        .min();
    assert!(least >= Some(3), "{least:?} of 9 reports");
    let rest: Vec<_> = std::iter::from_fn(|| census.report(at(40))).collect();
    assert!(rest.iter().rev().skip(1).all(|report| report.more));
    assert!(!rest.last().unwrap().more);
}

#[test]
fn another_process_of_the_controller_hears_what_the_one_before_may_not_have_passed_on() {
    let census = Census::new(SEED, 100);
    let process = |process| report::ReportResponse { process, ..answer(1) };
    census.record(&seen(backend(1, 600), 1, at(0)));
    census.report(at(0)).unwrap();
    census.receive(&process(1), at(0));
    census.record(&seen(backend(2, 600), 2, at(11)));
    census.report(at(11)).unwrap();
    census.receive(&process(1), at(11));
    assert_eq!(census.report(at(12)), None);
    census.receive(&process(2), at(12));
    let again = census.report(at(12)).unwrap();
    let [change] = &again.backends[..] else {
        panic!("{again:?}");
    };
    assert_eq!(change.backend(), Some(backend(2, 600)));
    assert_eq!((change.windows.len(), change.requests), (1, 0));
}

#[test]
fn a_clock_that_is_set_back_loses_no_session() {
    let census = Census::new(SEED, 100);
    let shop = backend(1, 600);
    let day = 24 * 60 * 60;
    for window in 0..5 {
        census.record(&seen(shop, nonce(window), at(day + u64::from(window) * 150)));
    }
    let mut merged = Merged::default();
    merged.add(&census.report(at(10)).unwrap());
    assert_eq!(merged.sessions(shop, at(10)), 5);
    assert_eq!(merged.last_use[&shop], at(10).unix_millis());
    census.record(&seen(shop, nonce(7), at(20)));
    merged.add(&census.report(at(20)).unwrap());
    assert_eq!(merged.sessions(shop, at(20)), 6);
    assert_eq!(census.report(at(700)), None);
}

#[test]
fn an_envoy_without_sessions_says_that_it_counts() {
    let census = Census::new(SEED, 100);
    let mut idle = 0;
    let reports = [(); 11].map(|()| {
        let report = census.next_report("web", &mut idle, at(0));
        census.receive(&answer(1), at(0));
        report
    });
    let sent = reports.iter().flatten();
    assert_eq!(sent.clone().count(), 2);
    assert!(
        sent.clone()
            .all(|report| report.node_cluster == "web" && report.backends.is_empty())
    );
}

#[test]
fn several_censuses_are_told_by_one() {
    let [one, two, all, direct] = [(); 4].map(|()| Census::new(SEED, 10));
    let shop = backend(1, 600);
    for number in 0..300 {
        let of = if number % 3 == 0 { &one } else { &two };
        let time = at(u64::from(number));
        for census in [of, &direct] {
            census.record(&seen(shop, nonce(number % 250), time));
        }
    }
    for census in [&one, &two, &direct] {
        census.record_departure(SessionDeparture::Moved);
        census.record_departure(SessionDeparture::Backend(shop));
        census.record_departure(SessionDeparture::Rebalanced(shop, at(0)));
    }
    for census in [&one, &two] {
        all.merge(census.report(at(300)).unwrap());
        assert_eq!(census.report(at(300)), None);
    }
    let (report, direct) = (all.report(at(300)).unwrap(), direct.report(at(300)).unwrap());
    assert_eq!(all.report(at(300)), None);
    assert_eq!(report.restarts[0].sessions, 2);
    let ([change], [expected]) = (&report.backends[..], &direct.backends[..]) else {
        panic!("{report:?}");
    };
    assert_eq!((change.requests, change.departed), (300, 2));
    assert_eq!(change.rebalanced[0].sessions, 2);
    assert_eq!(change.last_use, expected.last_use);
    for (window, expected) in std::iter::zip(&change.windows, &expected.windows) {
        assert_eq!((window.number, window.oldest), (expected.number, expected.oldest));
        let [sessions, expected] = [window, expected].map(|window| window.sketch().unwrap().estimate());
        assert_eq!(sessions, expected);
    }
    all.receive(&answer(1), at(300));
    all.receive(&answer(2), at(300));
    assert_eq!(all.report(at(301)).unwrap().backends[0].windows, change.windows);
}

#[test]
fn others_of_several_censuses_take_no_place() {
    let census = Census::new(SEED, 2);
    let full = Census::new(SEED, 0);
    full.record(&seen(backend(1, 60), 1, at(0)));
    census.merge(full.report(at(1)).unwrap());
    assert_eq!(census.backends.load(Ordering::Relaxed), 0);
    let report = census.report(at(2)).unwrap();
    assert!(report.backends[0].backend().unwrap().is_others());
    assert_eq!(census.report(at(200)), None);
    assert_eq!(census.backends.load(Ordering::Relaxed), 0);
}

#[test]
fn a_report_without_an_answer_is_sent_again_as_it_was() {
    let census = Census::new(SEED, 100);
    let next = || census.next_report("web", &mut 0, at(0));
    let shop = backend(1, 600);
    census.record(&seen(shop, 1, at(0)));
    let first = next().unwrap();
    assert_eq!((first.number, first.backends[0].requests), (1, 1));
    census.record(&seen(shop, 2, at(0)));
    assert_eq!(next(), None, "the first one is under way");
    census.report_failed();
    assert_eq!(next(), Some(first));
    census.receive(&answer(1), at(0));
    let second = next().unwrap();
    assert_eq!((second.number, second.backends[0].requests), (2, 1));
}

#[test]
fn a_report_without_any_answer_does_not_hold_up_the_others() {
    let census = Census::new(SEED, 100);
    let next = || census.next_report("web", &mut 0, at(0)).unwrap();
    census.record(&seen(backend(1, 600), 1, at(0)));
    for _ in 0..TRIES {
        assert_eq!(next().number, 1);
        census.report_failed();
    }
    census.record(&seen(backend(1, 600), 2, at(0)));
    let other = next();
    assert_eq!((other.number, other.backends[0].requests), (2, 2));
}

#[test]
fn a_report_that_was_never_sent_is_not_sent_as_it_was() {
    let census = Census::new(SEED, 100);
    let next = || census.next_report("web", &mut 0, at(0)).unwrap();
    census.record(&seen(backend(1, 600), 1, at(0)));
    assert_eq!(next().number, 1);
    census.report_unsent();
    let second = next();
    assert_eq!((second.number, second.backends[0].requests), (2, 1));
    // It may have arrived, however long there is no connection.
    census.report_failed();
    for _ in 0..3 * TRIES {
        assert_eq!(next(), second);
        census.report_unsent();
    }
    assert_eq!(next(), second);
}
