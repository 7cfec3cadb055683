//! The leader's Events on the controller's own objects, even if nothing can be published.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;

use super::events::{EventObject, EventRecorder, StatusEvent};
use crate::cluster::reconcile::diagnostics::{Diagnostic, Diagnostics};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use limpet_api::ObjectName;

pub(crate) struct DiagnosticEvents {
    recorder: EventRecorder,
    namespace: String,
    diagnostics: Diagnostics,
    followed: watch::Receiver<BTreeMap<&'static str, BTreeSet<Diagnostic>>>,
    leads: watch::Receiver<bool>,
}

impl Reconcile for DiagnosticEvents {
    const GATHER: Duration = Duration::from_millis(100);

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            changed = self.followed.changed() => Ok(changed?),
            changed = self.leads.changed() => Ok(changed?),
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        if !*self.leads.borrow_and_update() {
            return None;
        }
        let all: BTreeSet<Diagnostic> = self.followed.borrow_and_update().values().flatten().cloned().collect();
        let problems = self.problems(&all);
        let again = self.recorder.report(problems).await;
        if again.is_none() {
            self.diagnostics.forget(&all);
        }
        again
    }
}

impl DiagnosticEvents {
    pub(crate) fn new(
        recorder: EventRecorder,
        namespace: String,
        diagnostics: &Diagnostics,
        leads: watch::Receiver<bool>,
    ) -> Self {
        Self {
            recorder,
            namespace,
            followed: diagnostics.follow(),
            diagnostics: diagnostics.clone(),
            leads,
        }
    }

    fn problems(&self, all: &BTreeSet<Diagnostic>) -> BTreeMap<EventObject, BTreeSet<StatusEvent>> {
        let mut problems: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for diagnostic in all {
            let regarding = EventObject {
                kind: diagnostic.kind,
                api_version: "v1".to_owned(),
                name: ObjectName::new(
                    diagnostic.namespace.as_deref().unwrap_or(&self.namespace),
                    &diagnostic.name,
                ),
                uid: diagnostic.uid.clone(),
            };
            problems.entry(regarding).or_default().insert(StatusEvent {
                reason: diagnostic.reason.name().to_owned(),
                note: diagnostic.message.clone(),
                is_news: diagnostic.reason.is_news(),
                // It concerns a single object.
                patience: Duration::ZERO,
            });
        }
        problems
    }
}
