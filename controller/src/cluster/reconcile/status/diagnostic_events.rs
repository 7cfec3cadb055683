//! Events on the controller's own objects, written by the leader. They do not wait until something is published: if
//! nothing can be, they say why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;

use super::events::{EventRecorder, Problem, Regarding};
use crate::cluster::reconcile::diagnostics::{Diagnostic, Diagnostics};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use limpet_api::ObjectName;

/// Writes [`Diagnostics`] as Events.
pub(crate) struct DiagnosticEvents {
    recorder: EventRecorder,
    namespace: String,
    diagnostics: watch::Receiver<BTreeMap<&'static str, BTreeSet<Diagnostic>>>,
    leads: watch::Receiver<bool>,
}

impl Reconcile for DiagnosticEvents {
    const GATHER: Duration = Duration::from_millis(100);

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            changed = self.diagnostics.changed() => Ok(changed?),
            changed = self.leads.changed() => Ok(changed?),
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        if !*self.leads.borrow_and_update() {
            return None;
        }
        let problems = self.problems();
        self.recorder.tell(problems).await
    }
}

impl DiagnosticEvents {
    pub(crate) fn new(
        recorder: EventRecorder,
        namespace: String,
        diagnostics: &Diagnostics,
        leads: watch::Receiver<bool>,
    ) -> Self {
        let diagnostics = diagnostics.follow();
        Self {
            recorder,
            namespace,
            diagnostics,
            leads,
        }
    }

    fn problems(&mut self) -> BTreeMap<Regarding, BTreeSet<Problem>> {
        let mut problems: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for diagnostic in self.diagnostics.borrow_and_update().values().flatten() {
            let regarding = Regarding {
                kind: diagnostic.kind,
                api_version: "v1".to_owned(),
                name: ObjectName::new(&self.namespace, &diagnostic.name),
                uid: diagnostic.uid.clone(),
            };
            problems.entry(regarding).or_default().insert(Problem {
                reason: diagnostic.reason.name().to_owned(),
                note: diagnostic.message.clone(),
            });
        }
        problems
    }
}
