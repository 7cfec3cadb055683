use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Error};
use serde_json::Value;
use tokio::sync::watch;

use super::wanted::{Change, changes, is_ours};
use crate::cluster::kube::{Backoff, FIELD_MANAGER, Observation, delete};
use crate::cluster::reconcile::diagnostics::refusal;
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::reconcile::reported::Reported;
use limpet_api::{Kind, ObjectName};

/// The `XBackend`s whose Service the API server refuses to write, with its words.
pub(crate) type Refused = BTreeMap<ObjectName, String>;

/// When to try again what was refused: somebody may have granted the right, which no watch tells.
const REFUSED: Duration = Duration::from_secs(10);

pub(crate) struct Reconciler {
    client: Client,
    reported: watch::Receiver<Option<Reported>>,
    observation: watch::Receiver<Observation>,
    leads: watch::Receiver<bool>,
    refused: watch::Sender<Refused>,
    backoff: Backoff,
}

impl Reconcile for Reconciler {
    const GATHER: Duration = Duration::from_millis(50);

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            changed = self.reported.changed() => Ok(changed?),
            changed = self.leads.changed() => Ok(changed?),
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        if self.round().await {
            return Some(self.backoff.next());
        }
        self.backoff.reset();
        (!self.refused.borrow().is_empty()).then_some(REFUSED)
    }
}

impl Reconciler {
    pub(crate) fn new(
        client: Client,
        reported: watch::Receiver<Option<Reported>>,
        observation: watch::Receiver<Observation>,
        leads: watch::Receiver<bool>,
    ) -> (Self, watch::Receiver<Refused>) {
        let (refused, told) = watch::channel(Refused::new());
        let reconciler = Self {
            client,
            reported,
            observation,
            leads,
            refused,
            backoff: Backoff::of_the_api(),
        };
        (reconciler, told)
    }

    /// Returns whether anything must be tried again soon.
    async fn round(&mut self) -> bool {
        let Some(reported) = self.reported.borrow_and_update().clone() else {
            return false;
        };
        let leads = *self.leads.borrow_and_update();
        let served = self.observation.borrow().served.get(&Kind::XBackend).cloned();
        let (true, Some(served)) = (leads, served) else {
            self.refuse(Refused::new());
            return false;
        };
        let used = reported.reports.backends.keys();
        let (mut failed, mut refused) = (false, Refused::new());
        for (backend, change) in changes(&reported.objects, used, &served.api_version) {
            match self.make(&change).await {
                Ok(true) => tracing::info!(service = %change.service, "wrote the Service of an XBackend"),
                Ok(false) => {}
                Err(error) => {
                    if let Some(words) = refusal(&error) {
                        refused.insert(backend, words);
                    } else {
                        tracing::warn!(service = %change.service, %error, "cannot write the Service of an XBackend");
                        failed = true;
                    }
                }
            }
        }
        self.refuse(refused);
        failed
    }

    /// Each refusal is logged once.
    fn refuse(&self, refused: Refused) {
        self.refused.send_if_modified(|before| {
            for (backend, error) in &refused {
                if before.get(backend) != Some(error) {
                    tracing::warn!(%backend, error, "the Service of an XBackend may not be written");
                }
            }
            let changed = *before != refused;
            *before = refused;
            changed
        });
    }

    /// Returns whether anything was written.
    async fn make(&self, change: &Change) -> Result<bool, Error> {
        match &change.object {
            Some(object) => self.apply(&change.service, object).await,
            None => self.delete(&change.service).await,
        }
    }

    /// Returns whether anything was written.
    async fn apply(&self, name: &ObjectName, object: &Value) -> Result<bool, Error> {
        // The Lease may have been lost meanwhile.
        if !*self.leads.borrow() {
            return Ok(false);
        }
        let api = self.api(name);
        if let Some(other) = api.get_opt(&name.name).await?.filter(|there| !is_ours(there)) {
            let labels = other.metadata.labels;
            tracing::warn!(service = %name, ?labels, "left alone: this Service belongs to somebody else");
            return Ok(false);
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&name.name, &params, &Patch::Apply(object))
            .await
            .map(|_| true)
    }

    /// Returns whether anything was written.
    async fn delete(&self, name: &ObjectName) -> Result<bool, Error> {
        if !*self.leads.borrow() {
            return Ok(false);
        }
        let api = self.api(name);
        let Some(service) = api.get_opt(&name.name).await?.filter(is_ours) else {
            return Ok(false);
        };
        delete(&api, &service.metadata).await
    }

    fn api(&self, name: &ObjectName) -> Api<Service> {
        Api::namespaced(self.client.clone(), &name.namespace)
    }
}
