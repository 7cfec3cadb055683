use std::collections::BTreeMap;

use crate::cluster::reconcile::diagnostics::{Diagnostic, DiagnosticReason, Diagnostics};

/// What the diagnostics are about.
const ABOUT: &str = "manifests";

/// Unwanted objects that the API server refuses to delete, with the API server's words.
pub(super) type UndeletedObjects = BTreeMap<String, String>;

/// Says what no Gateway's condition can say: the Gateway is gone.
pub(crate) struct OrphanDiagnostics {
    diagnostics: Diagnostics,
    pod: String,
}

impl OrphanDiagnostics {
    /// They become Events on this pod.
    pub(crate) fn new(diagnostics: &Diagnostics, pod: String) -> Self {
        let diagnostics = diagnostics.clone();
        Self { diagnostics, pod }
    }

    pub(super) fn report(&self, undeleted: &UndeletedObjects) {
        // One stands for all: they are refused for one reason.
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
