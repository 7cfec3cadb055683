use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Error};

use crate::api::ObjectName;
use crate::model::reports::Condition;

use super::shape::{Digest, Wanted, shortened};

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
pub(crate) struct Teller {
    client: Client,
    controller: String,
    instance: String,
    told: BTreeMap<Regarding, BTreeSet<Problem>>,
}

impl Teller {
    pub(crate) fn new(client: Client, controller: String, instance: String) -> Self {
        Self {
            client,
            controller,
            instance,
            told: BTreeMap::new(),
        }
    }

    /// These are all problems that there are.
    pub(super) async fn tell(&mut self, problems: BTreeMap<Regarding, BTreeSet<Problem>>) {
        for (regarding, problems) in &problems {
            let told = self.told.get(regarding);
            for problem in problems {
                if told.is_some_and(|told| told.contains(problem)) {
                    continue;
                }
                let Problem { reason, note } = problem;
                tracing::warn!(kind = regarding.kind, object = %regarding.name, reason, "{note}");
                if let Err(error) = self.create(regarding, problem).await {
                    tracing::warn!(kind = regarding.kind, object = %regarding.name, %error, "an event can not be written");
                }
            }
        }
        self.told = problems;
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
