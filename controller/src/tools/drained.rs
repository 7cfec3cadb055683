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
/// The page that says what the controller knows of whoever asks.
const PAGE: &str = "/sessions/self";

/// What the controller knows of this pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Own {
    /// Whether the address is a backend's. What is none has no sessions.
    known: bool,
    sessions: u64,
    streams: u64,
}

impl Own {
    fn is_empty(self) -> bool {
        self.sessions == 0 && self.streams == 0
    }
}

pub(crate) fn run(args: &DrainedArgs, form: Output) -> Result<Verdict, Failure> {
    let begun = Instant::now();
    let deadline = begun + args.timeout.get();
    let controller = Http::new(args.controller.clone());
    let mut last: Result<Own, String> = Err("it was not asked yet".to_owned());
    let mut empty_since = None;
    while Instant::now() < deadline {
        last = ask(&controller, deadline);
        empty_since = match &last {
            Ok(own) if own.is_empty() => empty_since.or_else(|| Some(Instant::now())),
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

fn ask(controller: &Http, deadline: Instant) -> Result<Own, String> {
    let page = controller.get(PAGE, deadline).map_err(|error| error.to_string())?;
    serde_json::from_str(&page).map_err(|error| format!("expected what it knows of this pod: {error}"))
}

fn report(own: Own, took: Duration, form: Output) -> Result<Verdict, Failure> {
    let seconds = took.as_secs();
    let Own {
        known,
        sessions,
        streams,
    } = own;
    match form {
        Output::Json => output::print_json(&json!({
            "known": known, "sessions": sessions, "streams": streams, "seconds": seconds,
        }))?,
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
    Ok(if own.is_empty() { Verdict::Good } else { Verdict::Bad })
}
