//! Events on the objects that the controller keeps for itself, by the replica that leads. They do not wait for anything to be published: where nothing
//! can be, this says why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::reconcile::diagnostics::{Trouble, Troubles};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use limpet_api::ObjectName;

use super::events::{Problem, Regarding, Teller};

/// Tells of [`Troubles`].
pub(crate) struct KeptTeller {
    teller: Teller,
    namespace: String,
    troubles: watch::Receiver<BTreeMap<&'static str, BTreeSet<Trouble>>>,
    leads: watch::Receiver<bool>,
}

impl Reconcile for KeptTeller {
    const GATHER: Duration = Duration::from_millis(100);

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            changed = self.troubles.changed() => Ok(changed?),
            changed = self.leads.changed() => Ok(changed?),
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        if !*self.leads.borrow_and_update() {
            return None;
        }
        let problems = self.problems();
        self.teller.tell(problems).await
    }
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
