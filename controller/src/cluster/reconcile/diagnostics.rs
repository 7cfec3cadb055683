//! What a person must see to about the objects that the controller keeps for itself: its Secrets and its ConfigMap.

use std::collections::{BTreeMap, BTreeSet};

use kube::Error;
use tokio::sync::watch;

/// Something that a person must see to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Diagnostic {
    /// The object's kind, of `v1`.
    pub(crate) kind: &'static str,
    /// Its name, in the controller's own namespace.
    pub(crate) name: String,
    /// Its identity; empty where it was not seen.
    pub(crate) uid: String,
    /// What is the matter.
    pub(crate) reason: Reason,
    /// The field, and what was expected of it, or the API server's words. What was found is not repeated.
    pub(crate) message: String,
}

/// What is the matter with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// What it holds.
    Invalid,
    /// It may not be read.
    ReadRefused,
    /// It may not be written.
    WriteRefused,
}

impl Reason {
    /// As an Event has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::ReadRefused => "ReadRefused",
            Self::WriteRefused => "WriteRefused",
        }
    }
}

/// All that there is, by kinds.
#[derive(Debug, Clone)]
pub(crate) struct Diagnostics(watch::Sender<BTreeMap<&'static str, BTreeSet<Diagnostic>>>);

impl Diagnostics {
    /// None.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }

    /// These are all that there are with objects of a kind.
    pub(crate) fn set(&self, kind: &'static str, diagnostics: BTreeSet<Diagnostic>) {
        self.0.send_if_modified(|all| {
            let before = all.insert(kind, diagnostics);
            before.unwrap_or_default() != *all.entry(kind).or_default()
        });
    }

    /// All that there are with objects of a kind.
    pub(crate) fn of(&self, kind: &str) -> BTreeSet<Diagnostic> {
        self.0.borrow().get(kind).cloned().unwrap_or_default()
    }

    /// Tells each change.
    pub(crate) fn follow(&self) -> watch::Receiver<BTreeMap<&'static str, BTreeSet<Diagnostic>>> {
        self.0.subscribe()
    }
}

/// The API server's words, where it refuses a write for a reason that does not go away by itself: a missing right, or an object that it does not take.
pub(crate) fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::Api(status) if matches!(status.code, 400 | 403 | 413 | 422) => Some(status.message.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_told_and_each_kind_has_its_own() {
        let diagnostics = Diagnostics::new();
        let mut follower = diagnostics.follow();
        let diagnostic = |kind| Diagnostic {
            kind,
            name: "limpet".to_owned(),
            uid: String::new(),
            reason: Reason::Invalid,
            message: "data: expected something".to_owned(),
        };
        diagnostics.set("Secret", BTreeSet::new());
        assert!(!follower.has_changed().unwrap());
        diagnostics.set("Secret", [diagnostic("Secret")].into());
        diagnostics.set("ConfigMap", [diagnostic("ConfigMap")].into());
        assert!(follower.has_changed().unwrap());
        follower.mark_unchanged();
        diagnostics.set("Secret", [diagnostic("Secret")].into());
        assert!(!follower.has_changed().unwrap());
        diagnostics.set("Secret", BTreeSet::new());
        assert!(follower.has_changed().unwrap());
        assert_eq!(diagnostics.of("ConfigMap").len(), 1);
        assert_eq!(diagnostics.of("Secret").len(), 0);
    }
}
