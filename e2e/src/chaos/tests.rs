use std::net::IpAddr;
use std::time::Duration;

use super::*;

const ENVOY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));

fn seconds(value: f64) -> Duration {
    Duration::from_secs_f64(value)
}

fn end(cause: Cause, begins: f64, over: Option<f64>) -> End {
    End {
        cause,
        begins: seconds(begins),
        over: over.map(seconds),
        process: Some((seconds(begins), seconds(begins + 0.1))),
    }
}

fn pod(role: Role, name: &str, ends: &[End]) -> Pod {
    Pod {
        role,
        name: name.to_owned(),
        address: (role == Role::Envoy).then_some(ENVOY),
        ends: ends.to_vec(),
    }
}

fn visit(begun: f64, outcome: Outcome) -> Visit {
    Visit {
        client: 1,
        protocol: Protocol::Http2,
        begun: seconds(begun),
        ended: seconds(begun + 0.01),
        outcome,
    }
}

fn answered(begun: f64, backend: &str) -> Visit {
    let (backend, has_token) = (backend.to_owned(), false);
    visit(begun, Outcome::Answered { backend, has_token })
}

fn loss(opening: f64) -> Loss {
    Loss {
        reason: "reset".to_owned(),
        opening: seconds(opening),
        envoy: Some(ENVOY),
    }
}

#[test]
fn a_move_from_a_pod_that_ended_has_a_reason() {
    let pods = [pod(Role::Application, "a", &[end(Cause::Rollout, 5.0, None)])];
    let verdict = judge(&pods, &[answered(1.0, "a"), answered(6.0, "b")]);
    assert_eq!((verdict.moved.len(), verdict.moved_again.len()), (0, 0));
    assert_eq!(
        verdict.rows[&(Role::Application, Cause::Rollout)].moved[&Protocol::Http2],
        1
    );
}

#[test]
fn a_move_from_a_pod_that_lives_is_a_fault() {
    let killed = pod(Role::Application, "a", &[end(Cause::Killed, 5.0, Some(6.0))]);
    for at in [4.0, 12.0] {
        let verdict = judge(std::slice::from_ref(&killed), &[answered(1.0, "a"), answered(at, "b")]);
        assert_eq!(verdict.moved.len(), 1, "at {at} s");
    }
}

#[test]
fn a_second_move_for_the_same_end_is_a_fault() {
    let ended = [end(Cause::Rollout, 5.0, None)];
    let pods = [pod(Role::Application, "a", &ended), pod(Role::Application, "b", &ended)];
    let visits = ["a", "b", "a", "c"].map(|backend| answered(6.0, backend));
    let verdict = judge(&pods, &visits);
    assert_eq!((verdict.moved.len(), verdict.moved_again.len()), (0, 1));
}

#[test]
fn a_request_that_a_killed_process_had_is_lost_with_it() {
    let killed = [end(Cause::Killed, 5.0, Some(6.0))];
    for (role, name) in [(Role::Application, "a"), (Role::Envoy, "e")] {
        let pods = [pod(role, name, &killed)];
        let failed = |begun| [answered(1.0, "a"), visit(begun, Outcome::Failed(loss(1.0)))];
        let verdict = judge(&pods, &failed(4.995));
        assert_eq!(verdict.rows[&(role, Cause::Killed)].lost[&Protocol::Http2], 1, "{name}");
        for begun in [4.0, 8.0] {
            let verdict = judge(&pods, &failed(begun));
            assert_eq!(verdict.failed.len(), 1, "{name}: {begun}");
        }
    }
}

#[test]
fn a_failure_on_a_connection_after_a_kill_is_a_fault() {
    let pods = [pod(Role::Envoy, "e", &[end(Cause::Killed, 5.0, Some(6.0))])];
    let verdict = judge(&pods, &[visit(5.5, Outcome::Failed(loss(5.4)))]);
    assert_eq!(verdict.failed.len(), 1);
}

#[test]
fn an_end_in_peace_explains_no_lost_request() {
    let pods = [
        pod(Role::Envoy, "e", &[end(Cause::Rollout, 5.0, None)]),
        pod(Role::Application, "a", &[end(Cause::Rollout, 5.0, None)]),
    ];
    let visits = [answered(1.0, "a"), visit(5.0, Outcome::Failed(loss(1.0)))];
    assert_eq!(judge(&pods, &visits).failed.len(), 1);
}

#[test]
fn streams_end_with_their_process_and_not_before() {
    let pods = [pod(Role::Envoy, "e", &[end(Cause::Rollout, 5.0, None)])];
    let ended = |begun| [answered(1.0, "a"), visit(begun, Outcome::Ended(loss(1.0)))];
    let verdict = judge(&pods, &ended(5.05));
    assert_eq!(
        verdict.rows[&(Role::Envoy, Cause::Rollout)].streams[&Protocol::Http2],
        1
    );
    assert_eq!(judge(&pods, &ended(4.0)).failed.len(), 1);
}

#[test]
fn streams_of_a_pod_end_before_its_process_does() {
    let ending = End {
        process: None,
        ..end(Cause::Rollout, 5.0, None)
    };
    let pods = [pod(Role::Application, "a", &[ending])];
    let ended = |begun| [answered(1.0, "a"), visit(begun, Outcome::Ended(loss(1.0)))];
    assert_eq!(judge(&pods, &ended(9.0)).failed.len(), 0);
    assert_eq!(judge(&pods, &ended(4.0)).failed.len(), 1);
}

#[test]
fn only_a_killed_envoy_may_refuse_connections() {
    let refused = [visit(5.5, Outcome::Refused(loss(0.0)))];
    for (cause, faults) in [(Cause::Killed, 0), (Cause::OutOfMemory, 0), (Cause::Rollout, 1)] {
        let pods = [pod(Role::Envoy, "e", &[end(cause, 5.0, Some(6.0))])];
        assert_eq!(judge(&pods, &refused).failed.len(), faults, "{cause:?}");
    }
}

#[test]
fn refused_tokens_growth_and_unplanned_ends_are_faults() {
    let samples = |late: u64| {
        let sample = |at: u64| Sample {
            at: Duration::from_secs(at),
            role: Role::Envoy,
            process: 1,
            memory: if at < 300 { 100 } else { late },
            cpu: Duration::ZERO,
        };
        (0..600).map(sample).collect()
    };
    let report = |refused, late, ends: &[End]| Report {
        about: serde_json::Value::Null,
        events: Vec::new(),
        verdict: judge(&[pod(Role::Envoy, "e", ends)], &[]),
        counters: [("refused.idle".to_owned(), refused), ("steered".to_owned(), 7)].into(),
        samples: samples(late),
    };
    let unplanned = [end(Cause::Unplanned, 5.0, None)];
    for (report, faults) in [
        (report(0, 190, &[]), 0),
        (report(1, 190, &[]), 1),
        (report(0, 210, &[]), 1),
        (report(0, 190, &unplanned), 1),
    ] {
        assert_eq!(report.faults().len(), faults, "{:?}", report.faults());
    }
}

/// `UPDATE_GOLDEN=1` writes it, after a change of its text.
#[test]
fn the_page_is_what_the_runs_say() -> anyhow::Result<()> {
    let folder = crate::tools::checkout().join("design");
    let mut runs = Vec::new();
    for file in ["chaos/wasm.json", "chaos/module.json"] {
        runs.push(serde_json::from_str(&std::fs::read_to_string(folder.join(file))?)?);
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(folder.join("chaos.md"), page(&runs))?;
    }
    assert_eq!(std::fs::read_to_string(folder.join("chaos.md"))?, page(&runs));
    Ok(())
}
