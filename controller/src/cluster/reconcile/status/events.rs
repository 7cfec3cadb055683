use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Error};

use crate::cluster::kube::{Backoff, Digest};
use limpet_api::ObjectName;
use limpet_model::reports::Condition;

use super::shape::{Wanted, shortened};

/// The longest note (events.k8s.io/v1).
const MAX_NOTE: usize = 1024;
/// How much of an object's name an event's has: with what else is in it, at most 253 bytes.
const MAX_NAME: usize = 200;

/// Something that a person must act on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    pub(super) reason: String,
    pub(super) note: String,
}

/// An object, and which one of its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Regarding {
    pub(super) kind: &'static str,
    pub(super) api_version: String,
    pub(super) name: ObjectName,
    pub(super) uid: String,
}

/// What is wrong with an object, by the status that it is to have.
pub(super) fn problems(wanted: &Wanted) -> BTreeSet<Problem> {
    let is_problem = |condition: &&Condition| match condition.kind {
        "Accepted" | "ResolvedRefs" => !condition.is_true(),
        "PartiallyInvalid" => condition.is_true(),
        // Who waits for an Envoy may wait for long.
        "Programmed" => !condition.is_true() && condition.reason == "Invalid",
        _ => false,
    };
    let problem = |condition: &Condition| Problem {
        reason: condition.reason.to_owned(),
        note: condition.message.clone(),
    };
    match wanted {
        Wanted::Whole {
            conditions, gateway, ..
        } => {
            let listeners = gateway.iter().flat_map(|gateway| &gateway.listeners);
            let of_listeners = listeners.flat_map(|listener| {
                let bad = listener.conditions.iter().filter(is_problem);
                // What the Gateway itself says of Envoys is not said again for each listener.
                bad.filter(|condition| condition.kind != "Programmed")
                    .map(|condition| Problem {
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
        Wanted::Entries(entries) => {
            let conditions = entries.iter().flat_map(|entry| &entry.conditions);
            // A policy's `Programmed` is its Gateway's.
            let own = conditions
                .filter(is_problem)
                .filter(|condition| condition.kind != "Programmed");
            own.map(problem).collect()
        }
    }
}

/// Tells problems, each once: not while it lasts, and not again by another replica or after a restart as long as the event is there.
pub(crate) struct EventRecorder {
    client: Client,
    controller: String,
    instance: String,
    told: BTreeMap<Regarding, BTreeMap<Problem, Told>>,
    backoff: Backoff,
    /// When what failed is to be tried again.
    again: Option<Instant>,
}

/// What became of a problem's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It is there, or would be refused again.
    Settled,
    /// It is to be tried again.
    Failed,
}

/// What the failure of an event means for the others.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// It is this one that is refused, and would be refused again.
    Refused,
    /// None can be written in its namespace: a right is missing, or it is on its way out.
    Namespace,
    /// None can be written.
    Server,
}

impl Failure {
    fn of(error: &Error) -> Self {
        match error {
            Error::Api(status) if matches!(status.code, 400 | 413 | 422) => Self::Refused,
            Error::Api(status) if matches!(status.code, 403 | 404) => Self::Namespace,
            _ => Self::Server,
        }
    }
}

impl EventRecorder {
    pub(crate) fn new(client: Client, controller: String, instance: String) -> Self {
        Self {
            client,
            controller,
            instance,
            told: BTreeMap::new(),
            backoff: Backoff::of_the_api(),
            again: None,
        }
    }

    /// These are all problems that there are. What can not be told is tried again when this is called after the time that it gives, if any: one event
    /// for each namespace, and one at all while the API server does not answer, until it works again.
    pub(super) async fn tell(&mut self, problems: BTreeMap<Regarding, BTreeSet<Problem>>) -> Option<Duration> {
        let is_due = self.again.is_none_or(|again| again <= Instant::now());
        let mut before = std::mem::take(&mut self.told);
        let mut closed = BTreeSet::new();
        let (mut is_away, mut has_failed) = (!is_due, false);
        for (regarding, problems) in problems {
            let mut before = before.remove(&regarding).unwrap_or_default();
            let mut told = BTreeMap::new();
            for problem in problems {
                let known = before.remove(&problem);
                if known.is_none() {
                    let Problem { reason, note } = &problem;
                    tracing::warn!(kind = regarding.kind, object = %regarding.name, reason, "{note}");
                }
                let outcome = if known == Some(Told::Settled) {
                    Told::Settled
                } else if is_away || closed.contains(&regarding.name.namespace) {
                    Told::Failed
                } else {
                    match self.create(&regarding, &problem).await {
                        Ok(()) => Told::Settled,
                        Err(error) => {
                            tracing::warn!(kind = regarding.kind, object = %regarding.name, %error, "an event can not be written");
                            match Failure::of(&error) {
                                Failure::Refused => Told::Settled,
                                Failure::Namespace => {
                                    closed.insert(regarding.name.namespace.clone());
                                    Told::Failed
                                }
                                Failure::Server => {
                                    is_away = true;
                                    Told::Failed
                                }
                            }
                        }
                    }
                };
                has_failed |= outcome == Told::Failed;
                told.insert(problem, outcome);
            }
            self.told.insert(regarding, told);
        }
        if !has_failed {
            self.backoff.reset();
            self.again = None;
        } else if is_due {
            self.again = Some(Instant::now() + self.backoff.next());
        }
        self.again.map(|again| again.saturating_duration_since(Instant::now()))
    }

    async fn create(&self, regarding: &Regarding, problem: &Problem) -> Result<(), Error> {
        let Regarding {
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
        // Equal problems have one name, so the second one of them is refused.
        let text = format!("{uid}\n{}\n{}\n{}", self.controller, problem.reason, problem.note);
        let hash = Digest::of(text.as_bytes());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{hash}", shortened(&name.name, MAX_NAME))),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some("Warning".to_owned()),
            reason: Some(problem.reason.clone()),
            note: Some(shortened(&problem.note, MAX_NOTE).to_owned()),
            action: Some("Configure".to_owned()),
            event_time: Some(MicroTime(Timestamp::now())),
            regarding: Some(ObjectReference {
                api_version: Some(api_version.clone()),
                kind: Some((*kind).to_owned()),
                name: Some(name.name.clone()),
                namespace: Some(name.namespace.clone()).filter(|namespace| !namespace.is_empty()),
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
