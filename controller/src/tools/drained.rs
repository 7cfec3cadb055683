//! `limpet drained`.

use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::http::Http;
use crate::cli::DrainedArgs;
use crate::exit::{Failure, Verdict};
use crate::output::{self, Output};

/// How often the controller is asked. Envoys tell it of sessions every few seconds.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long there must be none. An Envoy may tell of a session that it has just seen a few seconds later.
const QUIET: Duration = Duration::from_secs(5);
/// How long a controller must have counted before it is believed that there is none: after a start of all controllers,
/// Envoys have to find one, and tell everything again.
const SETTLED: Duration = Duration::from_secs(30);
/// The page that says what the controller knows of whoever asks.
const PAGE: &str = "/sessions/self";

/// What the controller knows of this pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Own {
    /// Whether the address is a backend's. What is none has no sessions.
    known: bool,
    sessions: u64,
    streams: u64,
    /// For how many seconds sessions have been counted.
    counted_for: u64,
}

impl Own {
    /// Whether it is known that nothing is left.
    fn is_drained(self) -> bool {
        self.is_empty() && Duration::from_secs(self.counted_for) >= SETTLED
    }

    fn is_empty(self) -> bool {
        self.sessions == 0 && self.streams == 0
    }
}

pub(crate) fn run(args: &DrainedArgs, form: Output) -> Result<Verdict, Failure> {
    let begun = Instant::now();
    let deadline = begun + args.timeout.get();
    let controller = Http::new(args.controller.clone());
    let mut last = Err("it was not asked yet".to_owned());
    let mut empty_since = None;
    while Instant::now() < deadline {
        last = match controller.get(PAGE, deadline) {
            Ok(page) => read(&page),
            // Nor will it later.
            Err(error) if error.is_missing() => {
                let why = "it counts no sessions (sessions.enabled in its configuration)";
                return Err(Failure(format!("the controller at {controller}: {why}")));
            }
            Err(error) => Err(error.to_string()),
        };
        empty_since = match &last {
            Ok(own) if own.is_drained() => empty_since.or_else(|| Some(Instant::now())),
            // A controller that is away for a moment says nothing of sessions.
            _ => None,
        };
        if empty_since.is_some_and(|since| since.elapsed() >= QUIET) {
            break;
        }
        thread::sleep(INTERVAL.min(deadline.saturating_duration_since(Instant::now())));
    }
    let own = last.map_err(|error| Failure(format!("the controller at {controller}: {error}")))?;
    report(own, begun.elapsed(), form)
}

fn read(page: &str) -> Result<Own, String> {
    serde_json::from_str(page).map_err(|error| format!("expected what it knows of this pod: {error}"))
}

fn report(own: Own, took: Duration, form: Output) -> Result<Verdict, Failure> {
    let seconds = took.as_secs();
    let Own {
        known,
        sessions,
        streams,
        counted_for,
    } = own;
    match form {
        Output::Json => output::print_json(&json!({
            "known": known, "sessions": sessions, "streams": streams, "seconds": seconds,
        }))?,
        Output::Text if own.is_empty() && !own.is_drained() => output::print(&format!(
            "the time is over after {seconds} s: the controller has counted for {counted_for} s and knows of no session\n"
        ))?,
        Output::Text if !known => {
            output::print("no Envoy of the controller leads to this pod, so it has no sessions\n")?;
        }
        Output::Text if own.is_empty() => {
            output::print(&format!("drained: no session is left after {seconds} s\n"))?;
        }
        Output::Text => output::print(&format!(
            "the time is over after {seconds} s: {sessions} sessions, {streams} streams\n"
        ))?,
    }
    Ok(if own.is_drained() { Verdict::Good } else { Verdict::Bad })
}
