//! The status of policies and backends, by GEP-713.
//!
//! - The ancestors are the Gateways whose routes name the targets, as valid backends or not. Without such a route there
//!   is no entry: "implementations MUST ONLY populate ancestor status for the Ancestor resources they are responsible
//!   for". Its problems become an Event.
//! - `Accepted` is false with `Invalid`, `TargetNotFound`, or `Conflicted` (on all rules of the Gateway, an older
//!   policy has each of its targets, or its session name). Then there is no `Programmed`.
//! - `Programmed` is there only if there is more to say than what Envoys acknowledge: false with `Overridden` if no
//!   rule of the Gateway has the policy's sessions, or `Invalid` if none can have them, and true with
//!   `PartiallyProgrammed` if some rules do not have them, some fields are not supported, or an upgrade took unknown
//!   values.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_problem::{FieldProblem, joined};
use crate::reports::{AncestorReport, Condition, PolicyReport};
use limpet_api::{Kind, Meta, ObjectName, ParentRef};

/// Rules or Services in a message.
const MAX_LISTED: usize = 4;

pub(crate) fn ancestor(gateway: &ObjectName, conditions: Vec<Condition>) -> AncestorReport {
    AncestorReport {
        ancestor_ref: ParentRef {
            group: Kind::Gateway.group().to_owned(),
            kind: Kind::Gateway.as_str().to_owned(),
            namespace: Some(gateway.namespace.to_string()),
            name: gateway.name.to_string(),
            section_name: None,
            port: None,
        },
        conditions,
    }
}

pub(super) fn report(meta: &Meta, ancestors: impl IntoIterator<Item = AncestorReport>) -> PolicyReport {
    PolicyReport {
        observed_generation: meta.generation,
        ancestors: ancestors.into_iter().collect(),
    }
}

pub(super) fn invalid(problems: &[FieldProblem]) -> Condition {
    Condition::fails("Accepted", "Invalid", joined(problems))
}

/// The note where release 1.7 of the Gateway API deprecates `sessionPersistence`. `services`: where its sessions are.
pub(super) fn deprecated(what: &str, services: impl Iterator<Item = ObjectName>) -> Option<String> {
    let services: BTreeSet<String> = services.map(|name| name.to_string()).collect();
    let mut listed: Vec<&str> = services.iter().map(String::as_str).take(MAX_LISTED).collect();
    if services.len() > listed.len() {
        listed.push("others");
    }
    (!services.is_empty()).then(|| {
        format!(
            "release 1.7 of the Gateway API deprecates sessionPersistence of {what}: an XBackend with it, and with the \
             selector and the port of its Service, replaces it, where backendRefs lead there, and clients get new \
             sessions ({})",
            listed.join(", ")
        )
    })
}

/// Remarks on rules or Services, grouped by their text.
#[derive(Debug, Default)]
pub(crate) struct Remarks(BTreeMap<String, BTreeSet<String>>);

impl Remarks {
    pub(crate) fn add(&mut self, text: String, subject: String) {
        self.0.entry(text).or_default().insert(subject);
    }

    pub(crate) fn add_sentence(&mut self, sentence: String) {
        self.0.entry(sentence).or_default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for Remarks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (text, subjects)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            f.write_str(text)?;
            for (index, subject) in subjects.iter().take(MAX_LISTED).enumerate() {
                write!(f, "{} {subject}", if index == 0 { ":" } else { "," })?;
            }
            if subjects.len() > MAX_LISTED {
                write!(f, " and {} more", subjects.len() - MAX_LISTED)?;
            }
        }
        Ok(())
    }
}
