//! `limpet wait-drained`.

use std::time::{Duration, Instant};
use std::{fs, thread};

use serde::Deserialize;
use serde_json::json;

use super::http::Http;
use crate::cli::WaitDrainedArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::settling::SETTLING;

/// How often the controller is asked. Envoys tell it of sessions every few seconds.
const INTERVAL: Duration = Duration::from_secs(1);
/// The page that says what the controller knows of the pod that asks.
const PAGE: &str = "/sessions/self";
/// The namespace of the pod, where the token of its service account is mounted.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// What the controller knows of this pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct PodDrainage {
    /// Whether the address is a backend's. What is none has no sessions, if the controller knows all backends.
    known: bool,
    sessions: u64,
    streams: u64,
    /// Since when sessions are counted: another time after a restart; `None`: they are not yet.
    since: Option<String>,
    /// Whether there are no more than these.
    complete: bool,
    /// Why there may be more.
    why: Vec<String>,
}

impl PodDrainage {
    fn is_empty(&self) -> bool {
        self.sessions == 0 && self.streams == 0
    }

    /// Whether it is known that there is nothing.
    fn is_known_empty(&self) -> bool {
        self.is_empty() && self.complete && self.since.is_some()
    }

    fn doubts(&self) -> Option<String> {
        (!self.complete).then(|| self.why.join("; "))
    }
}

/// Waits until nothing was left for a while.
#[derive(Debug, Default)]
struct DrainedWait {
    /// Since when it is known that there is nothing.
    empty_since: Option<Instant>,
    /// Since when the controller counted at the last look.
    since: Option<String>,
}

impl DrainedWait {
    /// Takes in what the controller says now; `None`: it does not answer. Returns whether the last session is over.
    fn observe(&mut self, now: Instant, own: Option<&PodDrainage>) -> bool {
        // A controller that is away for a moment says nothing of sessions.
        let Some(own) = own.filter(|own| own.is_known_empty()) else {
            self.empty_since = None;
            return false;
        };
        if self.since != own.since {
            // What another one knew of does not count.
            self.since.clone_from(&own.since);
            self.empty_since = None;
        }
        let since = *self.empty_since.get_or_insert(now);
        now.saturating_duration_since(since) >= SETTLING
    }
}

pub(crate) fn run(args: &WaitDrainedArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let begun = Instant::now();
    let deadline = begun + args.timeout.get();
    let controller = Http::new(args.controller.clone());
    let namespace = args
        .namespace
        .clone()
        .or_else(|| fs::read_to_string(OWN_NAMESPACE).ok());
    let page = page(namespace.as_deref());
    let mut last: Result<PodDrainage, String> = Err("it was not asked yet".to_owned());
    let mut complained = None;
    let mut wait = DrainedWait::default();
    let mut is_drained = false;
    while !is_drained && Instant::now() < deadline {
        last = match controller.get(&page, deadline) {
            Ok(page) => read(&page),
            // Nor will it later.
            Err(error) if error.is_missing() => {
                let why = "it counts no sessions (sessions.enabled in its configuration)";
                return Err(CommandFailure(format!("the controller at {controller}: {why}")));
            }
            Err(error) => Err(error.to_string()),
        };
        is_drained = wait.observe(Instant::now(), last.as_ref().ok());
        let doubts = last
            .as_ref()
            .map_or_else(|error| Some(error.clone()), PodDrainage::doubts);
        if let Some(doubts) = doubts.as_ref().filter(|doubts| complained.as_ref() != Some(*doubts)) {
            output::print_error(&format!("warning: it is not known what is left: {doubts}\n"));
        }
        complained = doubts;
        if !is_drained {
            thread::sleep(INTERVAL.min(deadline.saturating_duration_since(Instant::now())));
        }
    }
    let own = last.map_err(|error| CommandFailure(format!("the controller at {controller}: {error}")))?;
    report(&own, is_drained, begun.elapsed(), form)
}

/// With the namespace, EndpointSlices of others with the pod's address do not count.
fn page(namespace: Option<&str>) -> String {
    match namespace.map(str::trim) {
        Some(namespace) if !namespace.is_empty() => format!("{PAGE}?namespace={namespace}"),
        _ => PAGE.to_owned(),
    }
}

fn read(page: &str) -> Result<PodDrainage, String> {
    serde_json::from_str(page).map_err(|error| format!("expected what it knows of this pod: {error}"))
}

fn report(own: &PodDrainage, is_drained: bool, took: Duration, form: Output) -> Result<CommandVerdict, CommandFailure> {
    match form {
        Output::Document(format) => {
            let value = json!({
                "drained": is_drained, "known": own.known, "sessions": own.sessions, "streams": own.streams,
                "complete": own.complete, "why": own.why, "seconds": took.as_secs(),
            });
            output::print_document(format, &value)?;
        }
        Output::Text { .. } => output::print(&text(own, is_drained, took))?,
    }
    Ok(if is_drained {
        CommandVerdict::Good
    } else {
        CommandVerdict::Warned
    })
}

fn text(own: &PodDrainage, is_drained: bool, took: Duration) -> String {
    let seconds = took.as_secs();
    let PodDrainage { sessions, streams, .. } = own;
    match own.doubts() {
        _ if is_drained && own.known => format!("drained: no session is left after {seconds} s\n"),
        _ if is_drained => "no Envoy of the controller leads to this pod, so it has no sessions\n".to_owned(),
        Some(doubts) => format!(
            "the time is over after {seconds} s: {sessions} sessions, {streams} streams, and there may be more: {doubts}\n"
        ),
        None if own.is_empty() => format!(
            "the time is over after {seconds} s: there was no session for less than {} s\n",
            SETTLING.as_secs()
        ),
        None => format!("the time is over after {seconds} s: {sessions} sessions, {streams} streams\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> PodDrainage {
        PodDrainage {
            known: true,
            since: Some("06:00".to_owned()),
            complete: true,
            ..PodDrainage::default()
        }
    }

    /// Whether it has ended after these looks, by seconds.
    fn ends(looks: &[(u64, Option<PodDrainage>)]) -> bool {
        let start = Instant::now();
        let mut wait = DrainedWait::default();
        let looks = looks.iter();
        looks
            .map(|(second, own)| wait.observe(start + Duration::from_secs(*second), own.as_ref()))
            .fold(false, |_, last| last)
    }

    #[test]
    fn a_pod_says_which_namespace_it_is_in() {
        assert_eq!(page(Some("shop\n")), "/sessions/self?namespace=shop");
        assert_eq!(page(None), "/sessions/self");
    }

    #[test]
    fn a_pod_is_drained_when_nothing_was_left_for_a_while() {
        let busy = PodDrainage { sessions: 1, ..empty() };
        assert!(ends(&[(0, Some(empty())), (15, Some(empty()))]));
        assert!(!ends(&[(0, Some(empty())), (14, Some(empty()))]));
        assert!(!ends(&[(0, Some(empty())), (9, Some(busy)), (15, Some(empty()))]));
        assert!(!ends(&[(0, Some(empty())), (9, None), (15, Some(empty()))]));
    }

    #[test]
    fn a_controller_that_starts_again_begins_the_wait_anew() {
        let again = PodDrainage {
            since: Some("06:10".to_owned()),
            ..empty()
        };
        let looks = |last| {
            [
                (0, Some(empty())),
                (14, Some(again.clone())),
                (last, Some(again.clone())),
            ]
        };
        assert!(!ends(&looks(28)));
        assert!(ends(&looks(29)));
    }

    #[test]
    fn what_is_not_known_is_not_nothing() {
        let doubtful = PodDrainage {
            complete: false,
            why: vec!["2 Envoys are connected, and 1 tells".to_owned()],
            ..empty()
        };
        let unpublished = PodDrainage { since: None, ..empty() };
        // Of an earlier controller.
        let old: PodDrainage = serde_json::from_str(r#"{"known": true, "sessions": 0, "streams": 0}"#).unwrap();
        for own in [doubtful.clone(), unpublished, old] {
            assert!(!ends(&[(0, Some(own.clone())), (60, Some(own))]));
        }
        let text = text(&doubtful, false, Duration::from_secs(60));
        assert!(
            text.contains("there may be more: 2 Envoys are connected, and 1 tells"),
            "{text}"
        );
    }

    #[test]
    fn a_pod_that_is_no_backend_goes_when_the_controller_knows_all() {
        let own = |complete| PodDrainage {
            known: false,
            complete,
            ..empty()
        };
        assert!(!ends(&[(0, Some(own(false))), (60, Some(own(false)))]));
        assert!(ends(&[(0, Some(own(true))), (15, Some(own(true)))]));
        let text = text(&own(true), true, Duration::from_secs(15));
        assert!(
            text.starts_with("no Envoy of the controller leads to this pod"),
            "{text}"
        );
    }
}
