use std::collections::BTreeMap;

use crate::cluster::reconcile::diagnostics::{Diagnostic, Diagnostics, Reason};

/// What the diagnostics are about.
const ABOUT: &str = "manifests";

/// Objects that nobody wants and that the API server refuses to delete, with the API server's words.
pub(super) type Undeleted = BTreeMap<String, String>;

/// Says what no Gateway's condition can say: the Gateway is gone.
pub(crate) struct Complaints {
    diagnostics: Diagnostics,
    pod: String,
}

impl Complaints {
    /// They are told as Events on this pod.
    pub(crate) fn new(diagnostics: &Diagnostics, pod: String) -> Self {
        let diagnostics = diagnostics.clone();
        Self { diagnostics, pod }
    }

    pub(super) fn tell(&self, undeleted: &Undeleted) {
        // One stands for all: they are refused for one reason.
        let diagnostic = undeleted.iter().next().map(|(object, words)| Diagnostic {
            kind: "Pod",
            namespace: None,
            name: self.pod.clone(),
            uid: String::new(),
            reason: Reason::DeleteRefused,
            message: format!(
                "{object} is not wanted any more and cannot be deleted: {words}; objects that cannot be deleted: {}",
                undeleted.len()
            ),
        });
        self.diagnostics.complain(ABOUT, diagnostic.into_iter().collect());
    }
}
