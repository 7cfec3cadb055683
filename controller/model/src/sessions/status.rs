//! What is reported of policies and backends, by GEP-713.
//!
//! - The ancestors are the Gateways whose rules lead to what a policy targets. A policy that no rule of ours leads to is nobody's of ours, and gets no
//!   entry: "implementations MUST ONLY populate ancestor status for the Ancestor resources they are responsible for". So `TargetNotFound` is
//!   reported where a rule names the Service, which is missing.
//! - `Accepted` is false with `Invalid`, `TargetNotFound`, or `Conflicted` (an older policy has each of its targets, or its session name, on all
//!   rules of the Gateway). Then there is no `Programmed`.
//! - `Programmed` is there where it is not all that Envoys have to acknowledge: false with `Overridden`, where no rule of the Gateway has the policy's
//!   sessions, and true with `PartiallyProgrammed`, where some have not, or some of its fields are not supported.

use std::collections::{BTreeMap, BTreeSet};

use crate::problem::Problem;
use crate::reports::{AncestorReport, Condition, PolicyReport};
use limpet_api::{Kind, Meta, ObjectName, ParentRef};

/// How many rules, or other things, a message lists.
const MAX_LISTED: usize = 4;

/// The Gateway as an ancestor.
pub(crate) fn ancestor(gateway: &ObjectName, conditions: Vec<Condition>) -> AncestorReport {
    AncestorReport {
        ancestor_ref: ParentRef {
            group: Kind::Gateway.group().to_owned(),
            kind: Kind::Gateway.as_str().to_owned(),
            namespace: Some(gateway.namespace.clone()),
            name: gateway.name.clone(),
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

/// What is wrong with the object.
pub(super) fn invalid(problems: &[Problem]) -> Condition {
    let problems: Vec<String> = problems
        .iter()
        .map(|problem| format!("{}: {}", problem.field, problem.message))
        .collect();
    Condition::fails("Accepted", "Invalid", problems.join("; "))
}

/// What is to be said of rules, by what is said.
#[derive(Debug, Default)]
pub(super) struct Remarks(BTreeMap<String, BTreeSet<String>>);

impl Remarks {
    /// `text` about `subject`.
    pub(super) fn add(&mut self, text: String, subject: String) {
        self.0.entry(text).or_default().insert(subject);
    }

    /// One sentence.
    pub(super) fn say(&mut self, sentence: String) {
        self.0.entry(sentence).or_default();
    }

    pub(super) fn is_empty(&self) -> bool {
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
