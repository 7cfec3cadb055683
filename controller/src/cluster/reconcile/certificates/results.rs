//! Findings of a round over the Secrets of Gateways. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use kube::Error;
use limpet_xds::CertificateUse;

use super::schedule::renewal;
use crate::cluster::reconcile::diagnostics::{Diagnostic, DiagnosticReason, is_about_the_object, refusal};
use limpet_api::ObjectName;

#[derive(Debug, Default)]
pub(super) struct CertificateResults {
    /// The certificate that ends first.
    pub(super) first: Option<CertificateUse>,
    /// The earliest renewal.
    pub(super) renewal: Option<SystemTime>,
    /// Secrets that cannot be kept for lasting reasons, in words.
    pub(super) refused: BTreeMap<(ObjectName, DiagnosticReason), String>,
    pub(super) outdated: BTreeSet<ObjectName>,
    /// Whether to try again soon.
    pub(super) failed: bool,
    /// Whether the round has ended early, so that absence says nothing.
    pub(super) is_partial: bool,
}

#[derive(Debug)]
pub(super) enum CertificateObstacle {
    /// A Secret of its name is not ours.
    Taken,
    Api(Error),
}

impl From<Error> for CertificateObstacle {
    fn from(error: Error) -> Self {
        Self::Api(error)
    }
}

impl CertificateObstacle {
    /// The problem for a person to mend; `None`: it may pass by itself.
    pub(super) fn words(&self, secret: &ObjectName) -> Option<String> {
        match self {
            Self::Taken => Some(format!(
                "expected no other Secret {secret}; the existing one belongs to another owner"
            )),
            Self::Api(error) => refusal(error),
        }
    }

    /// Whether other Secrets may be written nevertheless.
    pub(super) fn is_about_the_object(&self) -> bool {
        match self {
            Self::Taken => true,
            Self::Api(Error::Api(status)) => is_about_the_object(status.code),
            Self::Api(_) => false,
        }
    }
}

impl CertificateResults {
    pub(super) fn refuse(&mut self, secret: &ObjectName, reason: DiagnosticReason, words: String) {
        self.refused.insert((secret.clone(), reason), words);
    }

    pub(super) fn failed(&mut self, secret: &ObjectName, reason: DiagnosticReason, obstacle: &CertificateObstacle) {
        if let Some(words) = obstacle.words(secret) {
            self.refuse(secret, reason, words);
            return;
        }
        // One line in a round: an API server that does not answer is the same for each of them.
        if !self.failed {
            tracing::warn!(%secret, error = ?obstacle, "certificates of Envoys cannot be kept");
        }
        self.failed = true;
        // An API server that does not answer is no tenant's fault.
        self.is_partial |= !matches!(obstacle, CertificateObstacle::Api(Error::Api(_)));
    }

    pub(super) fn keeps(&mut self, one: CertificateUse) {
        let renewal = renewal(one.validity);
        self.renewal = Some(self.renewal.map_or(renewal, |first| first.min(renewal)));
        if self.first.as_ref().is_none_or(|first| one.validity < first.validity) {
            self.first = Some(one);
        }
    }

    /// Whether these Gateways have the present authority, so that the next phase may begin. Problems of one namespace
    /// do not stop the others. Problems of most are the operator's mistake: the next phase would leave most Envoys
    /// without an authority.
    pub(super) fn is_everywhere<'a>(&'a self, gateways: impl IntoIterator<Item = &'a ObjectName>) -> bool {
        let all = namespaces(gateways);
        !self.is_partial && namespaces(&self.outdated).len() * 2 <= all.len()
    }

    /// One Secret for each namespace, because they are refused for one reason.
    pub(super) fn diagnostics(&self) -> BTreeSet<Diagnostic> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for (name, _) in self.refused.keys() {
            *counts.entry(&name.namespace).or_default() += 1;
        }
        let first = |(namespace, count): (&str, usize)| {
            let mut refused = self.refused.iter();
            let ((name, reason), words) = refused.find(|((name, _), _)| name.namespace == namespace)?;
            Some(Diagnostic {
                kind: "Secret",
                namespace: Some(namespace.to_owned()),
                name: name.name.to_string(),
                uid: String::new(),
                reason: *reason,
                message: format!("{words}; Secrets of Gateways that are refused in this namespace: {count}"),
            })
        };
        counts.into_iter().filter_map(first).collect()
    }
}

fn namespaces<'a>(names: impl IntoIterator<Item = &'a ObjectName>) -> BTreeSet<&'a str> {
    names.into_iter().map(|name| name.namespace.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOPS: [&str; 5] = ["a/web", "a/other", "b/web", "c/web", "d/web"];

    fn names(names: &[&str]) -> BTreeSet<ObjectName> {
        let split = names.iter().filter_map(|name| name.split_once('/'));
        split
            .map(|(namespace, name)| ObjectName::new(namespace, name))
            .collect()
    }

    fn with_behind(behind: &[&str]) -> CertificateResults {
        CertificateResults {
            outdated: names(behind),
            ..CertificateResults::default()
        }
    }

    #[test]
    fn an_authority_waits_for_most_namespaces_and_not_for_each() {
        let all = names(&SHOPS);
        let cases: [(&[&str], bool); 6] = [
            (&[], true),
            (&["a/web"], true),
            (&["a/web", "a/other"], true),
            (&["a/web", "a/other", "b/web"], true),
            (&["a/web", "b/web", "c/web"], false),
            (&SHOPS, false),
        ];
        for (behind, expected) in cases {
            assert_eq!(with_behind(behind).is_everywhere(&all), expected, "{behind:?}");
        }
        assert!(CertificateResults::default().is_everywhere(&BTreeSet::new()));
        assert!(!with_behind(&["a/web"]).is_everywhere(&names(&["a/web", "a/other"])));
    }

    #[test]
    fn a_round_that_ended_early_says_nothing() {
        let mut found = CertificateResults::default();
        let secret = ObjectName::new("a", "web");
        found.failed(
            &secret,
            DiagnosticReason::WriteRefused,
            &CertificateObstacle::Api(Error::TlsRequired),
        );
        assert!(found.failed && !found.is_everywhere(&names(&SHOPS)));
    }

    #[test]
    fn each_namespace_is_told_of_its_own_refusal() {
        let mut found = CertificateResults::default();
        for secret in names(&["a/one", "a/two", "b/one"]) {
            found.failed(&secret, DiagnosticReason::WriteRefused, &CertificateObstacle::Taken);
        }
        let told: Vec<_> = found
            .diagnostics()
            .into_iter()
            .map(|told| (told.namespace.unwrap_or_default(), told.name, told.message))
            .collect();
        let expected = |namespace: &str, count: usize| {
            let message = format!(
                "expected no other Secret {namespace}/one; the existing one belongs to another owner; Secrets of \
                 Gateways that are refused in this namespace: {count}"
            );
            (namespace.to_owned(), "one".to_owned(), message)
        };
        assert_eq!(told, [expected("a", 2), expected("b", 1)]);
    }
}
