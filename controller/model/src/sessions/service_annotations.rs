//! Annotations of Services: what Services say of the sessions of rules that lead to them.

use std::collections::BTreeMap;

use super::fault::{Fault, PREFIX};
use crate::problem::Problem;
use crate::reports::Condition;
use crate::session_fields::quoted;
use crate::{Objects, affinity};
use limpet_api::{Kind, Object, ObjectRef, ServiceSpec};

/// The only one.
const BEGIN: &str = "begin";
const NEVER: &str = "never";

/// Whether no session of a rule begins at the Service. One with a mistake is as if it said nothing, and [`problems`]
/// tells of it.
pub(crate) fn never_begins(service: &Object<ServiceSpec>) -> bool {
    ours(service).next().is_some() && problems_of(service).is_empty()
}

/// What is wrong with the annotations of Services.
pub(crate) fn problems(objects: &Objects) -> BTreeMap<ObjectRef, Condition> {
    let wrong = objects.services.iter().filter_map(|(name, service)| {
        let problems = problems_of(service);
        let told: Vec<String> = problems
            .iter()
            .map(|Problem { field, message }| format!("{field}: {message}"))
            .collect();
        let object = ObjectRef {
            kind: Kind::Service,
            name: name.clone(),
        };
        (!told.is_empty()).then(|| (object, Condition::fails("Accepted", "Invalid", told.join("; "))))
    });
    wrong.collect()
}

fn ours(service: &Object<ServiceSpec>) -> impl Iterator<Item = (&str, &str)> {
    let annotations = service.meta.annotations.range(PREFIX.to_owned()..);
    annotations.map_while(|(key, value)| Some((key.strip_prefix(PREFIX)?, value.as_str())))
}

fn problems_of(service: &Object<ServiceSpec>) -> Vec<Problem> {
    let has_affinity = matches!(affinity::of(&service.spec), Ok(Some(_)));
    let faults = ours(service).filter_map(|(name, value)| {
        let expected = match (name, value) {
            (BEGIN, NEVER) if has_affinity => {
                "none with sessionAffinity: ClientIP, whose sessions begin at the Service".to_owned()
            }
            (BEGIN, NEVER) => return None,
            (BEGIN, _) => NEVER.to_owned(),
            _ => format!("no annotation of this name on a Service, but {BEGIN}"),
        };
        let message = format!("expected {expected}, found {}", quoted(value));
        Some(Fault::annotation(name, message).below(""))
    });
    faults.collect()
}
