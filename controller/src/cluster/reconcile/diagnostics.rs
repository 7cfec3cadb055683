//! Problems of the controller's own objects (its Secrets, its `ConfigMap`s and its pod), for a person to correct, and
//! news, which are reported once.

use std::collections::{BTreeMap, BTreeSet};

use kube::Error;
use tokio::sync::watch;
use tracing::Level;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Diagnostic {
    /// In `v1`.
    pub(crate) kind: &'static str,
    /// `None`: the controller's own.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// Empty if the object was not seen.
    pub(crate) uid: String,
    pub(crate) reason: DiagnosticReason,
    /// The field and the expectation, without the value, or the API server's message.
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DiagnosticReason {
    Invalid,
    ReadRefused,
    WriteRefused,
    DeleteRefused,
    CertificateEnds,
    /// Some endpoints of a Service have no room.
    EndpointsLeftOut,
    RotationWaits,
    /// A rotation continued without a proxy. News.
    RotationGoesOn,
    /// A key is revoked, and Envoys may not know yet.
    Revoking,
    /// Every connected Envoy knows. News, and no problem.
    Revoked,
}

impl DiagnosticReason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::ReadRefused => "ReadRefused",
            Self::WriteRefused => "WriteRefused",
            Self::DeleteRefused => "DeleteRefused",
            Self::CertificateEnds => "CertificateEnds",
            Self::EndpointsLeftOut => "EndpointsLeftOut",
            Self::RotationWaits => "RotationWaits",
            Self::RotationGoesOn => "RotationGoesOn",
            Self::Revoking => "Revoking",
            Self::Revoked => "Revoked",
        }
    }

    pub(crate) fn is_news(self) -> bool {
        self == Self::Revoked
    }

    /// A requested revocation and the course of a rotation are no errors.
    fn level(self) -> Level {
        match self {
            Self::Invalid | Self::ReadRefused | Self::WriteRefused | Self::DeleteRefused => Level::ERROR,
            Self::CertificateEnds
            | Self::EndpointsLeftOut
            | Self::RotationWaits
            | Self::RotationGoesOn
            | Self::Revoking => Level::WARN,
            Self::Revoked => Level::INFO,
        }
    }
}

const NEWS: &str = "news";

/// Diagnostics by topic: Secrets, or a ConfigMap's field.
#[derive(Debug, Clone)]
pub(crate) struct Diagnostics(watch::Sender<BTreeMap<&'static str, BTreeSet<Diagnostic>>>);

impl Diagnostics {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }

    /// As [`Diagnostics::set`], and logs new ones.
    pub(crate) fn set_and_log(&self, about: &'static str, diagnostics: BTreeSet<Diagnostic>) {
        for diagnostic in diagnostics.difference(&self.of(about)) {
            let (kind, name, message) = (diagnostic.kind, &diagnostic.name, &diagnostic.message);
            let reason = diagnostic.reason.name();
            match diagnostic.reason.level() {
                Level::ERROR => tracing::error!(kind, name, reason, "{message}"),
                Level::WARN => tracing::warn!(kind, name, reason, "{message}"),
                _ => tracing::info!(kind, name, reason, "{message}"),
            }
        }
        self.set(about, diagnostics);
    }

    /// Replaces the diagnostics of a topic.
    pub(crate) fn set(&self, about: &'static str, diagnostics: BTreeSet<Diagnostic>) {
        self.0.send_if_modified(|all| {
            let before = all.insert(about, diagnostics);
            before.unwrap_or_default() != *all.entry(about).or_default()
        });
    }

    pub(crate) fn of(&self, about: &str) -> BTreeSet<Diagnostic> {
        self.0.borrow().get(about).cloned().unwrap_or_default()
    }

    /// Adds news until [`Diagnostics::forget`].
    pub(crate) fn announce(&self, news: Diagnostic) {
        let mut all = self.of(NEWS);
        all.insert(news);
        self.set(NEWS, all);
    }

    pub(crate) fn forget(&self, told: &BTreeSet<Diagnostic>) {
        let mut news = self.of(NEWS);
        news.retain(|news| !told.contains(news));
        self.set(NEWS, news);
    }

    pub(crate) fn follow(&self) -> watch::Receiver<BTreeMap<&'static str, BTreeSet<Diagnostic>>> {
        self.0.subscribe()
    }
}

/// The message of a lasting refusal: a missing right, or an invalid object.
pub(crate) fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::Api(status) if matches!(status.code, 400 | 403 | 413 | 422) => Some(status.message.clone()),
        _ => None,
    }
}

/// Whether the API server refuses this object: for its content, for lack of a right, or by an admission webhook. Other
/// objects do not wait for it then. A 500 may be an object that does not fit a built-in schema.
pub(crate) fn is_about_the_object(code: u16) -> bool {
    (400..=500).contains(&code) && code != 429
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
            namespace: None,
            name: "limpet".to_owned(),
            uid: String::new(),
            reason: DiagnosticReason::Invalid,
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

    #[test]
    fn a_revocation_that_a_user_asked_for_was_logged_as_an_error() {
        assert_eq!(DiagnosticReason::Revoking.level(), Level::WARN);
        assert_eq!(DiagnosticReason::WriteRefused.level(), Level::ERROR);
    }

    #[test]
    fn news_stay_until_they_are_told() {
        let diagnostics = Diagnostics::new();
        let news = |name: &str| Diagnostic {
            kind: "Secret",
            namespace: None,
            name: name.to_owned(),
            uid: String::new(),
            reason: DiagnosticReason::Revoked,
            message: "key 1 is revoked".to_owned(),
        };
        diagnostics.announce(news("one"));
        diagnostics.announce(news("two"));
        diagnostics.set("Secret", BTreeSet::new());
        diagnostics.forget(&[news("one")].into());
        assert_eq!(diagnostics.of(NEWS), [news("two")].into());
        diagnostics.forget(&[news("two")].into());
        assert!(diagnostics.of(NEWS).is_empty());
    }
}
