use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Error};

use super::desired::SERVICE_REFUSED;
use super::shape::{DesiredStatus, StatusDetails, shortened};
use crate::cluster::kube::{Backoff, StatusDigest};
use limpet_api::ObjectName;
use limpet_model::reports::{Condition, IngressRouteStatus};
use limpet_xds::LogRate;

/// The maximum length of a note (events.k8s.io/v1).
const MAX_NOTE: usize = 1024;
/// The most bytes of the object's name in an Event's name, which may have 253.
const MAX_NAME: usize = 200;
/// The reason for ignored parts of an `IngressRoute` that is served.
const IGNORED: &str = "Ignored";
/// The minimum age of a problem: objects that belong together are applied one by one, and Envoys and status take a
/// moment.
const SETTLING: Duration = Duration::from_secs(5);
/// The most Events of one namespace in a row, and the pause after them: statuses wait meanwhile.
const IN_A_ROW: usize = 20;
const BETWEEN: Duration = Duration::from_secs(1);
/// A cloud's load balancer needs a minute or two for its address.
const ADDRESSING: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StatusEvent {
    pub(super) reason: String,
    pub(super) note: String,
    /// Logged where it happens. Its Event is `Normal`.
    pub(super) is_news: bool,
    /// The minimum age for a report.
    pub(super) patience: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventObject {
    pub(super) kind: &'static str,
    pub(super) api_version: String,
    pub(super) name: ObjectName,
    pub(super) uid: String,
}

/// The problems in a wanted status.
pub(super) fn problems(wanted: &DesiredStatus) -> BTreeSet<StatusEvent> {
    let is_problem = |condition: &&Condition| match condition.kind {
        "Accepted" | "ResolvedRefs" => !condition.is_true(),
        "PartiallyInvalid" => condition.is_true(),
        // Waiting for Envoys is no problem, because it may last.
        "Programmed" => !condition.is_true() && condition.reason != "Pending",
        _ => false,
    };
    match wanted {
        DesiredStatus::Whole { conditions, rest, .. } => {
            let listeners = match rest {
                StatusDetails::Gateway(gateway) => gateway.listeners.as_slice(),
                StatusDetails::Class => &[],
            };
            let of_listeners = listeners.iter().flat_map(|listener| {
                let bad = listener.conditions.iter().filter(is_problem);
                // The Gateway's own `Programmed` is not repeated for each listener.
                bad.filter(|condition| condition.kind != "Programmed")
                    .map(|condition| StatusEvent {
                        note: format!("Listener {}: {}", listener.name, condition.message),
                        ..problem(condition)
                    })
            });
            conditions
                .iter()
                .filter(is_problem)
                .map(problem)
                .chain(of_listeners)
                .collect()
        }
        DesiredStatus::Entries(entries) => {
            let conditions = entries.iter().flat_map(|entry| &entry.conditions);
            // `Programmed` is the Gateway's.
            let own = conditions
                .filter(is_problem)
                .filter(|condition| condition.kind != "Programmed" || condition.reason == SERVICE_REFUSED);
            own.map(problem).collect()
        }
        DesiredStatus::Contour {
            status,
            description,
            notes,
        } => {
            let is_invalid = *status == IngressRouteStatus::Invalid;
            let invalid = is_invalid.then(|| StatusEvent::of_object("Invalid", description.to_string()));
            let ignored = (!notes.is_empty()).then(|| StatusEvent::of_object(IGNORED, notes.join("; ")));
            invalid.into_iter().chain(ignored).collect()
        }
    }
}

pub(super) fn problem(condition: &Condition) -> StatusEvent {
    StatusEvent::of_object(condition.reason, condition.message.clone())
}

impl StatusEvent {
    /// A problem of a user's object.
    pub(super) fn of_object(reason: &str, note: String) -> Self {
        Self {
            reason: reason.to_owned(),
            note,
            is_news: false,
            patience: if reason == "AddressNotAssigned" {
                ADDRESSING
            } else {
                SETTLING
            },
        }
    }
}

/// Writes an Event once for each lasting problem, across replicas and restarts, while it exists.
pub(crate) struct EventRecorder {
    client: Client,
    controller: String,
    instance: String,
    reported: BTreeMap<EventObject, BTreeMap<StatusEvent, EventOutcome>>,
    logs: LogRate,
    notes: LogRate,
    backoff: Backoff,
    retry_due: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventOutcome {
    /// Since when the problem exists.
    Noticed(Instant),
    /// The Event exists, or would be refused again.
    Settled,
    Failed,
}

#[derive(Debug, PartialEq, Eq)]
enum EventFailure {
    /// Only this Event, which would be refused again.
    Refused,
    /// All Events of a namespace without the right, or being deleted.
    Namespace,
    /// All Events, for now.
    Server,
}

impl EventFailure {
    fn of(error: &Error) -> Self {
        match error {
            Error::Api(status) if matches!(status.code, 400 | 413 | 422) => Self::Refused,
            Error::Api(status) if matches!(status.code, 403 | 404) => Self::Namespace,
            _ => Self::Server,
        }
    }
}

#[derive(Debug, Default)]
struct EventRound {
    /// The namespaces that take no Events.
    closed: BTreeSet<limpet_api::Text>,
    in_a_row: BTreeMap<limpet_api::Text, usize>,
    /// Whether the API server does not answer.
    is_away: bool,
}

impl EventRound {
    /// How long an Event waits: until the problem is old enough, and its namespace may have one more Event.
    fn wait(&self, regarding: &EventObject, problem: &StatusEvent, known: EventOutcome, now: Instant) -> Duration {
        let left = match known {
            EventOutcome::Noticed(since) => problem.patience.saturating_sub(now.duration_since(since)),
            EventOutcome::Settled => return Duration::ZERO,
            EventOutcome::Failed => Duration::ZERO,
        };
        let in_a_row = self.in_a_row.get(&regarding.name.namespace);
        if left.is_zero() && in_a_row.is_some_and(|written| *written >= IN_A_ROW) {
            return BETWEEN;
        }
        left
    }
}

impl EventRecorder {
    pub(crate) fn new(client: Client, controller: String, instance: String) -> Self {
        Self {
            client,
            controller,
            instance,
            reported: BTreeMap::new(),
            logs: LogRate::default(),
            notes: LogRate::default(),
            backoff: Backoff::of_the_api(),
            retry_due: None,
        }
    }

    /// Returns when to call it again, for problems that may not last and for failed writes. Until writing works again,
    /// it tries one Event per namespace, or only one if the API server does not answer.
    pub(super) async fn report(&mut self, problems: BTreeMap<EventObject, BTreeSet<StatusEvent>>) -> Option<Duration> {
        let now = Instant::now();
        let is_due = self.retry_due.is_none_or(|again| again <= now);
        let mut rest: Option<Duration> = None;
        let mut before = std::mem::take(&mut self.reported);
        let mut has_failed = false;
        let mut round = EventRound {
            is_away: !is_due,
            ..EventRound::default()
        };
        for (regarding, problems) in problems {
            let mut before = before.remove(&regarding).unwrap_or_default();
            let mut told = BTreeMap::new();
            for problem in problems {
                let known = before.remove(&problem).unwrap_or(EventOutcome::Noticed(now));
                let left = round.wait(&regarding, &problem, known, now);
                if !left.is_zero() {
                    rest = Some(rest.map_or(left, |rest| rest.min(left)));
                    told.insert(problem, known);
                    continue;
                }
                if matches!(known, EventOutcome::Noticed(_)) && !problem.is_news {
                    let StatusEvent { reason, note, .. } = &problem;
                    if let Some(left_out) = self.notes.permit() {
                        tracing::warn!(kind = regarding.kind, object = %regarding.name, reason, left_out, "{note}");
                    }
                }
                let outcome = if known == EventOutcome::Settled {
                    EventOutcome::Settled
                } else {
                    self.attempt(&regarding, &problem, &mut round).await
                };
                has_failed |= outcome == EventOutcome::Failed;
                told.insert(problem, outcome);
            }
            self.reported.insert(regarding, told);
        }
        if !has_failed {
            self.backoff.reset();
            self.retry_due = None;
        } else if is_due {
            self.retry_due = Some(Instant::now() + self.backoff.next());
        }
        let again = self
            .retry_due
            .map(|again| again.saturating_duration_since(Instant::now()));
        rest.into_iter().chain(again).min()
    }

    async fn attempt(&self, regarding: &EventObject, problem: &StatusEvent, round: &mut EventRound) -> EventOutcome {
        let EventObject { kind, name, .. } = regarding;
        if round.is_away || round.closed.contains(&name.namespace) {
            return EventOutcome::Failed;
        }
        *round.in_a_row.entry(name.namespace.clone()).or_default() += 1;
        let Err(error) = self.create(regarding, problem).await else {
            return EventOutcome::Settled;
        };
        if let Some(left_out) = self.logs.permit() {
            tracing::warn!(kind, object = %name, %error, left_out, "an Event cannot be written");
        }
        match EventFailure::of(&error) {
            EventFailure::Refused => return EventOutcome::Settled,
            EventFailure::Namespace => drop(round.closed.insert(name.namespace.clone())),
            EventFailure::Server => round.is_away = true,
        }
        EventOutcome::Failed
    }

    async fn create(&self, regarding: &EventObject, problem: &StatusEvent) -> Result<(), Error> {
        let EventObject {
            kind,
            api_version,
            name,
            uid,
        } = regarding;
        let namespace = if name.namespace.is_empty() {
            "default"
        } else {
            &name.namespace
        };
        // Equal problems have equal names, so that the API server refuses a second Event.
        let text = format!("{uid}\n{}\n{}\n{}", self.controller, problem.reason, problem.note);
        let hash = StatusDigest::of(text.as_bytes());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{hash}", shortened(&name.name, MAX_NAME))),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some(if problem.is_news { "Normal" } else { "Warning" }.to_owned()),
            reason: Some(problem.reason.clone()),
            note: Some(shortened(&problem.note, MAX_NOTE).to_owned()),
            action: Some("Configure".to_owned()),
            event_time: Some(MicroTime(Timestamp::now())),
            regarding: Some(ObjectReference {
                api_version: Some(api_version.clone()),
                kind: Some((*kind).to_owned()),
                name: Some(name.name.to_string()),
                namespace: Some(name.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
                uid: Some(uid.clone()).filter(|uid| !uid.is_empty()),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        match events.create(&PostParams::default(), &event).await {
            Err(Error::Api(status)) if status.code == 409 => Ok(()),
            result => result.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// Also returns the number of written Events.
    fn recorder() -> (EventRecorder, Arc<AtomicUsize>) {
        let written = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&written);
        let answer = move |request: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, std::io::Error>(Response::new(request.into_body())) }
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let recorder = EventRecorder::new(client, "limpet.dev/test".to_owned(), "one".to_owned());
        (recorder, written)
    }

    fn problems(patience: Duration) -> BTreeMap<EventObject, BTreeSet<StatusEvent>> {
        let regarding = EventObject {
            kind: "HTTPRoute",
            api_version: "gateway.networking.k8s.io/v1".to_owned(),
            name: ObjectName::new("shop", "web"),
            uid: "1".to_owned(),
        };
        let problem = StatusEvent {
            patience,
            ..StatusEvent::of_object("BackendNotFound", "no such Service".to_owned())
        };
        [(regarding, [problem].into())].into()
    }

    #[test]
    fn an_ingress_route_is_told_what_is_wrong_and_what_is_ignored() {
        let told = |status, notes: &[&str]| {
            let wanted = DesiredStatus::Contour {
                status,
                description: "its description".into(),
                notes: notes.iter().map(|note| (*note).to_owned()).collect(),
            };
            let problems = super::problems(&wanted).into_iter();
            problems
                .map(|problem| (problem.reason, problem.note))
                .collect::<Vec<_>>()
        };
        let pair = |reason: &str, note: &str| (reason.to_owned(), note.to_owned());
        assert_eq!(told(IngressRouteStatus::Valid, &[]), []);
        assert_eq!(told(IngressRouteStatus::Orphaned, &[]), []);
        let invalid = pair("Invalid", "its description");
        assert_eq!(told(IngressRouteStatus::Invalid, &[]), std::slice::from_ref(&invalid));
        let ignored = pair("Ignored", "one; two");
        assert_eq!(
            told(IngressRouteStatus::Valid, &["one", "two"]),
            std::slice::from_ref(&ignored)
        );
        assert_eq!(told(IngressRouteStatus::Invalid, &["one", "two"]), [ignored, invalid]);
    }

    #[tokio::test]
    async fn what_passes_at_once_is_not_told() {
        let patience = Duration::from_millis(300);
        let (mut recorder, written) = recorder();
        let again = recorder.report(problems(patience)).await;
        assert!(again.is_some_and(|again| again <= patience), "{again:?}");
        assert_eq!(recorder.report(BTreeMap::new()).await, None);
        tokio::time::sleep(patience).await;
        // A problem that comes back has not lasted.
        assert!(recorder.report(problems(patience)).await.is_some());
        assert_eq!(written.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn events_of_one_namespace_held_up_statuses() {
        let (mut recorder, written) = recorder();
        let notes = 0..3 * IN_A_ROW;
        let mut all = problems(Duration::ZERO);
        for told in all.values_mut() {
            let problem = |note: usize| StatusEvent {
                patience: Duration::ZERO,
                ..StatusEvent::of_object("Invalid", note.to_string())
            };
            *told = notes.clone().map(problem).collect();
        }
        for round in 1..=3 {
            let again = recorder.report(all.clone()).await;
            assert_eq!(written.load(Ordering::Relaxed), round * IN_A_ROW);
            assert_eq!(again, (round < 3).then_some(BETWEEN));
        }
        recorder.report(all).await;
        assert_eq!(written.load(Ordering::Relaxed), notes.len());
    }

    #[tokio::test]
    async fn what_lasts_is_told_once() {
        let patience = Duration::from_millis(50);
        let (mut recorder, written) = recorder();
        let again = recorder.report(problems(patience)).await.expect("a time");
        tokio::time::sleep(again).await;
        for _ in 0..2 {
            assert_eq!(recorder.report(problems(patience)).await, None);
            assert_eq!(written.load(Ordering::Relaxed), 1);
        }
    }
}
