//! `limpet wait-drained`, with a page in the controller's place. `e2e` has it in pods.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Ran, limpet};

const NOTHING: &str = r#"{"known": true, "sessions": 0, "streams": 0, "since": "06:00", "complete": true}"#;
const JUST_STARTED: &str = r#"{"known": true, "sessions": 0, "streams": 0, "since": "06:00", "complete": false,
    "why": ["it has just started"]}"#;
const TWO_SESSIONS: &str = r#"{"known": true, "sessions": 2, "streams": 0, "since": "06:00", "complete": true}"#;

/// Answers with these in turn, and then repeats the last one. Returns its address.
fn controller(answers: &'static [(&'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let last = answers.last().into_iter().cycle();
        for (stream, (status, body)) in listener.incoming().zip(answers.iter().chain(last)) {
            let Ok(mut stream) = stream else { continue };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.extend(byte);
            }
            assert!(head.starts_with(b"GET /sessions/self?namespace=shop HTTP/1.1\r\n"));
            let length = body.len();
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        }
    });
    address
}

fn drained(controller: &str, timeout: &str) -> (Ran, Duration) {
    let begun = Instant::now();
    let arguments = [
        "wait-drained",
        "-n",
        "shop",
        "--controller",
        controller,
        "--timeout",
        timeout,
    ];
    let ran = limpet(&arguments).run();
    (ran, begun.elapsed())
}

/// Takes fifteen seconds, which is the moment: the command is a process.
#[test]
fn a_pod_without_sessions_is_held_for_a_moment() {
    let (ran, took) = drained(&controller(&[("200 OK", NOTHING)]), "30s");
    ran.code(0).says("drained: no session is left");
    assert!(took >= Duration::from_secs(15), "{took:?}");
    assert!(took < Duration::from_secs(25), "{took:?}");
}

/// Takes ten seconds: the command waits by the clock, and is a process.
#[test]
fn a_controller_that_does_not_know_all_is_not_believed() {
    let (ran, took) = drained(&controller(&[("200 OK", JUST_STARTED)]), "8s");
    ran.code(1).says("there may be more: it has just started");
    assert!(took >= Duration::from_secs(8), "{took:?}");
    let answers = &[("200 OK", JUST_STARTED), ("200 OK", NOTHING)];
    drained(&controller(answers), "30s").0.code(0);
}

#[test]
fn sessions_hold_it_until_the_time_is_over() {
    let (ran, took) = drained(&controller(&[("200 OK", TWO_SESSIONS)]), "2s");
    ran.code(1).says("the time is over").says("2 sessions, 0 streams");
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

/// Takes ten seconds: the command waits by the clock, and is a process.
#[test]
fn a_controller_that_is_away_is_asked_again() {
    let answers = &[("503 Service Unavailable", ""), ("200 OK", "{"), ("200 OK", NOTHING)];
    drained(&controller(answers), "30s").0.code(0);
    let (ran, took) = drained(&controller(&[("503 Service Unavailable", "")]), "2s");
    ran.code(3).complains("503 Service Unavailable");
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_controller_that_counts_no_sessions_is_not_waited_for() {
    let (ran, took) = drained(&controller(&[("404 Not Found", "")]), "30m");
    ran.code(3).complains("it counts no sessions");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_wrong_address_is_refused_at_once() {
    for address in [
        "limpet-controller",
        "http://limpet-controller:18080",
        "limpet:http",
        "limpet:0",
        ":18080",
        "::1:80",
    ] {
        let (ran, took) = drained(address, "1m");
        assert_eq!(ran.code, 3, "{address}");
        assert!(ran.stderr.contains("expected host:port, such as"), "{}", ran.stderr);
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
}
