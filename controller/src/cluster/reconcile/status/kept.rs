//! Events on the objects that the controller keeps for itself, by the replica that leads. They do not wait for anything to be published: where nothing
//! can be, this says why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::reconcile::diagnostics::{Trouble, Troubles};
use limpet_api::ObjectName;

use super::events::{Problem, Regarding, Teller};
use super::keeper::after;

/// Troubles that come together are told together.
const GATHER: Duration = Duration::from_millis(100);

/// Tells of [`Troubles`].
pub(crate) struct KeptTeller {
    teller: Teller,
    namespace: String,
    troubles: watch::Receiver<BTreeMap<&'static str, BTreeSet<Trouble>>>,
    leads: watch::Receiver<bool>,
}

impl KeptTeller {
    /// Of objects in this namespace.
    pub(crate) fn new(teller: Teller, namespace: String, troubles: &Troubles, leads: watch::Receiver<bool>) -> Self {
        let troubles = troubles.follow();
        Self {
            teller,
            namespace,
            troubles,
            leads,
        }
    }

    /// Goes on until it is dropped, or nobody tells it anything any more.
    pub(crate) async fn run(mut self) {
        loop {
            let mut again = None;
            if *self.leads.borrow_and_update() {
                let problems = self.problems();
                again = self.teller.tell(problems).await;
            }
            let changed = tokio::select! {
                () = after(again) => Ok(()),
                changed = self.troubles.changed() => changed,
                changed = self.leads.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    fn problems(&mut self) -> BTreeMap<Regarding, BTreeSet<Problem>> {
        let mut problems: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for trouble in self.troubles.borrow_and_update().values().flatten() {
            let regarding = Regarding {
                kind: trouble.kind,
                api_version: "v1".to_owned(),
                name: ObjectName::new(&self.namespace, &trouble.name),
                uid: trouble.uid.clone(),
            };
            problems.entry(regarding).or_default().insert(Problem {
                reason: trouble.reason.name().to_owned(),
                note: trouble.message.clone(),
            });
        }
        problems
    }
}
