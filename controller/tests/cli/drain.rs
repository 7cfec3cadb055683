//! `limpet envoy drain`, with a program in Envoy's place. `e2e` has it with Envoy.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Ran, limpet};

/// An admin interface with this status and these statistics. Returns its port, and the first lines of requests.
fn admin(status: &'static str, counters: &'static str) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let Some(head) = head(&mut stream) else { continue };
            let line = head.lines().next().unwrap_or_default().to_owned();
            let body = if line.contains(" /stats?") { counters } else { "OK\n" };
            let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
            let answer = format!("HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
            let answered = stream.write_all(answer.as_bytes());
            if answered.is_err() || sender.send(head).is_err() {
                return;
            }
        }
    });
    (port, requests)
}

fn head(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        read.extend(byte);
    }
    String::from_utf8(read).ok()
}

fn drain(port: u16, time: &str, more: &[&str]) -> Ran {
    let port = port.to_string();
    let arguments = ["envoy", "drain", "--admin-port", &port, "--timeout", time];
    limpet(&[&arguments, more].concat()).run()
}

#[test]
fn envoy_is_told_first_and_watched_then() {
    let (port, requests) = admin("200 OK", "listener.0.0.0.0_80.downstream_cx_active: 1\n");
    let begun = Instant::now();
    let ran = drain(port, "1s", &[]).code(0);
    ran.says("the time is over").says("1 connections, 0 requests");
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(1), "it ended after {took:?}");
    let requests: Vec<String> = requests.try_iter().collect();
    let lines: Vec<&str> = requests.iter().filter_map(|head| head.lines().next()).collect();
    assert_eq!(lines[0], "POST /healthcheck/fail HTTP/1.1");
    assert_eq!(lines[1], "POST /drain_listeners?graceful&skip_exit HTTP/1.1");
    assert!(
        lines[2..].iter().all(|line| line.starts_with("GET /stats?")),
        "{lines:?}"
    );
    for head in &requests {
        let length = head.contains("content-length: 0\r\n");
        assert_eq!(length, head.starts_with("POST"), "{head}");
    }
}

#[test]
fn requests_that_are_cut_off_are_an_exit_code_of_their_own() {
    let stats = "http.http-80.downstream_rq_active: 2\nlistener.0.0.0.0_80.downstream_cx_active: 3\n";
    let (port, _requests) = admin("200 OK", stats);
    let said = drain(port, "500ms", &["-o", "json"]).code(1).json();
    assert_eq!(said["requests"], 2);
    assert_eq!(said["connections"], 3);
}

#[test]
fn an_envoy_that_is_not_there_is_no_success() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ran = drain(port, "20s", &[]).code(3);
    ran.complains(&format!("Envoy's admin interface at 127.0.0.1:{port}: "));
    let (port, _requests) = admin("426 Upgrade Required", "");
    let ran = drain(port, "20s", &[]).code(3);
    ran.complains("expected status 200 for /healthcheck/fail, found \"HTTP/1.1 426 Upgrade Required\"");
}

#[test]
fn a_silent_envoy_does_not_hold_it_longer_than_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drain(port, "1s", &[]).code(3).complains("no answer in time");
}
