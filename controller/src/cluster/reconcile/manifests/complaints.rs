use std::collections::BTreeMap;

use crate::cluster::reconcile::diagnostics::{Diagnostic, DiagnosticReason, Diagnostics};

const ABOUT: &str = "manifests";

/// Excess objects that cannot be deleted, with the API server's words.
pub(super) type UndeletedObjects = BTreeMap<String, String>;

/// Reports objects of former Gateways, which have no condition.
pub(crate) struct OrphanDiagnostics {
    diagnostics: Diagnostics,
    pod: String,
}

impl OrphanDiagnostics {
    pub(crate) fn new(diagnostics: &Diagnostics, pod: String) -> Self {
        let diagnostics = diagnostics.clone();
        Self { diagnostics, pod }
    }

    pub(super) fn report(&self, undeleted: &UndeletedObjects) {
        // One is enough: they are refused for one reason.
        let diagnostic = undeleted.iter().next().map(|(object, words)| Diagnostic {
            kind: "Pod",
            namespace: None,
            name: self.pod.clone(),
            uid: String::new(),
            reason: DiagnosticReason::DeleteRefused,
            message: format!(
                "{object} is not wanted any more and cannot be deleted: {words}; objects that cannot be deleted: {}",
                undeleted.len()
            ),
        });
        self.diagnostics.set_and_log(ABOUT, diagnostic.into_iter().collect());
    }
}
