//! Annotations of Services about the sessions of rules that lead to them, and about their pods.

use std::collections::BTreeMap;

use super::field_error::{SessionFieldError, annotation_field};
use crate::field_problem::{FieldProblem, joined};
use crate::remembered_sessions::{SessionSettings, session_annotations};
use crate::reports::Condition;
use crate::session_fields::quoted;
use crate::stand_in::{InvalidSessions, SessionVerdict, SessionVerdicts};
use crate::{Objects, Settings, affinity};
use limpet_api::{Kind, Object, ObjectName, ObjectRef, ServiceSpec};

const BEGIN: &str = "begin";
const NEVER: &str = "never";
const POD_DELETION_COST: &str = "pod-deletion-cost";
const ALL: [&str; 2] = [BEGIN, POD_DELETION_COST];

/// Whether no session of a rule begins at the Service. A wrong annotation counts as absent ([`problems`]).
pub(crate) fn never_begins(service: &Object<ServiceSpec>) -> bool {
    says(service, BEGIN, NEVER)
}

/// Whether the cost to delete the Service's pods is to be written on them; with a mistake, as the Service said last.
#[must_use]
pub fn costs_of_deletion(objects: &Objects, name: &ObjectName, service: &Object<ServiceSpec>) -> bool {
    let said =
        |annotations: &BTreeMap<_, String>| annotations.get(POD_DELETION_COST).map(String::as_str) == Some("true");
    if is_wrong(service, POD_DELETION_COST) {
        let object = ObjectRef {
            kind: Kind::Service,
            name: name.clone(),
        };
        let known = objects.memory.sessions.of(&object, &service.meta);
        known.is_some_and(|known| said(&known.settings.annotations))
    } else {
        says(service, POD_DELETION_COST, "true")
    }
}

/// Whether an annotation has this value, which is no mistake.
fn says(service: &Object<ServiceSpec>, name: &str, value: &str) -> bool {
    session_annotations(&service.meta.annotations).any(|annotation| annotation == (name, value))
        && !is_wrong(service, name)
}

fn is_wrong(service: &Object<ServiceSpec>, name: &str) -> bool {
    let field = annotation_field(name);
    problems_of(service).iter().any(|problem| problem.field == field)
}

pub(crate) fn session_verdicts(objects: &Objects) -> SessionVerdicts {
    let services = objects.services.iter().map(|(name, service)| {
        let object = ObjectRef {
            kind: Kind::Service,
            name: name.clone(),
        };
        let problems = joined(&problems_of(service));
        let judged = if problems.is_empty() {
            SessionVerdict::Valid(Box::new(SessionSettings::annotated(&service.meta)))
        } else {
            SessionVerdict::Wrong(InvalidSessions {
                problems,
                ..InvalidSessions::default()
            })
        };
        (object, judged)
    });
    services.collect()
}

pub(crate) fn problems(objects: &Objects, settings: &Settings) -> BTreeMap<ObjectRef, Condition> {
    let wrong = objects.services.iter().filter_map(|(name, service)| {
        let mut problems = problems_of(service);
        if !settings.serves() && costs_of_deletion(objects, name, service) {
            let message = "remove it with another control plane, whose Envoys do not tell of sessions";
            problems.push(SessionFieldError::annotation(POD_DELETION_COST, message).below(""));
        }
        let object = ObjectRef {
            kind: Kind::Service,
            name: name.clone(),
        };
        let told = match objects.stand_ins.get(&object) {
            Some(stand_in) => stand_in.to_string(),
            None => joined(&problems),
        };
        (!told.is_empty()).then(|| (object, Condition::fails("Accepted", "Invalid", told)))
    });
    wrong.collect()
}

fn problems_of(service: &Object<ServiceSpec>) -> Vec<FieldProblem> {
    let has_affinity = matches!(affinity::of(&service.spec), Ok(Some(_)));
    let faults = session_annotations(&service.meta.annotations).filter_map(|(name, value)| {
        let expected = match (name, value) {
            (BEGIN, NEVER) if has_affinity => {
                let message = "remove it with sessionAffinity: ClientIP, whose sessions begin at the Service";
                return Some(SessionFieldError::annotation(name, message).below(""));
            }
            (BEGIN, NEVER) | (POD_DELETION_COST, "true" | "false") => return None,
            (BEGIN, _) => NEVER.to_owned(),
            (POD_DELETION_COST, _) => "true or false".to_owned(),
            _ => format!("no annotation of this name on a Service, but one of {}", ALL.join(", ")),
        };
        let message = format!("expected {expected}, found {}", quoted(value));
        Some(SessionFieldError::annotation(name, message).below(""))
    });
    faults.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use imbl::OrdMap;
    use serde_json::json;

    use super::*;
    use crate::settings::GatewayOwner;
    use crate::stand_in::remembered;

    fn service(annotations: &serde_json::Value) -> Object<ServiceSpec> {
        limpet_api::readable(&json!({
            "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
            "spec": {"ports": [{"port": 80}]},
        }))
    }

    fn problem(service: &Object<ServiceSpec>, settings: &Settings) -> Option<String> {
        let objects = Objects {
            services: OrdMap::unit(service.meta.object_name(), service.clone().into()),
            ..Objects::default()
        };
        let told = problems(&objects, settings).into_values().next();
        told.map(|condition| condition.message)
    }

    fn costs(service: &Object<ServiceSpec>) -> bool {
        costs_of_deletion(&Objects::default(), &service.meta.object_name(), service)
    }

    #[test]
    fn a_typo_took_the_costs_away() {
        const ASKS: &str = "session.limpet.dev/pod-deletion-cost";
        let mut objects = Objects::default();
        let mut say = |value: &str| {
            let service = service(&json!({ASKS: value}));
            let name = service.meta.object_name();
            objects.services.insert(name.clone(), service.clone().into());
            let asks = costs_of_deletion(&objects, &name, &service);
            objects.memory.sessions = remembered(&objects, &session_verdicts(&objects), |_| false);
            asks
        };
        let said = ["ture", "true", "ture", "yes", "false", "ture"].map(&mut say);
        assert_eq!(said, [false, true, true, true, false, false]);
    }

    #[test]
    fn a_service_asks_for_costs_by_true_alone() {
        const ASKS: &str = "session.limpet.dev/pod-deletion-cost";
        let expected = |found: &str| {
            Some(format!(
                "metadata.annotations[{ASKS}]: expected true or false, found \"{found}\""
            ))
        };
        for (value, asks, message) in [
            ("true", true, None),
            ("false", false, None),
            ("True", false, expected("True")),
            ("", false, expected("")),
        ] {
            let service = service(&json!({ASKS: value}));
            assert_eq!(costs(&service), asks, "{value}");
            assert_eq!(problem(&service, &Settings::default()), message, "{value}");
        }
        let both = service(&json!({ASKS: "true", "session.limpet.dev/begin": "never"}));
        assert!(costs(&both) && never_begins(&both));
        let wrong = service(&json!({ASKS: "true", "session.limpet.dev/begin": "later"}));
        assert!(costs(&wrong) && !never_begins(&wrong));
        let other = service(&json!({ASKS: "true", "session.limpet.dev/strict": "true"}));
        assert!(costs(&other) && !never_begins(&other));
    }

    #[test]
    fn costs_with_another_control_plane_are_told_of() {
        let settings = Settings {
            gateways: GatewayOwner::Of(BTreeSet::new()),
            ..Settings::default()
        };
        let asking = service(&json!({"session.limpet.dev/pod-deletion-cost": "true"}));
        let message = "metadata.annotations[session.limpet.dev/pod-deletion-cost]: remove it with another control \
                       plane, whose Envoys do not tell of sessions";
        assert_eq!(problem(&asking, &settings).as_deref(), Some(message));
    }
}
