use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Error};
use serde_json::Value;
use tokio::sync::watch;

use super::wanted::{changes, is_ours};
use crate::cluster::kube::{Backoff, FIELD_MANAGER, Observation};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::reconcile::reported::Reported;
use limpet_api::{Kind, ObjectName};

pub(crate) struct Reconciler {
    client: Client,
    reported: watch::Receiver<Option<Reported>>,
    observation: watch::Receiver<Observation>,
    leads: watch::Receiver<bool>,
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
        let failed = self.round().await;
        if !failed {
            self.backoff.reset();
        }
        failed.then(|| self.backoff.next())
    }
}

impl Reconciler {
    pub(crate) fn new(
        client: Client,
        reported: watch::Receiver<Option<Reported>>,
        observation: watch::Receiver<Observation>,
        leads: watch::Receiver<bool>,
    ) -> Self {
        Self {
            client,
            reported,
            observation,
            leads,
            backoff: Backoff::of_the_api(),
        }
    }

    /// Returns whether anything must be tried again.
    async fn round(&mut self) -> bool {
        let Some(reported) = self.reported.borrow_and_update().clone() else {
            return false;
        };
        let leads = *self.leads.borrow_and_update();
        let served = self.observation.borrow().served.get(&Kind::XBackend).cloned();
        let (true, Some(served)) = (leads, served) else {
            return false;
        };
        let used = reported.reports.backends.keys();
        let changes = changes(&reported.objects, used, &served.api_version);
        let mut failed = false;
        for (name, object) in &changes.apply {
            failed |= Self::done(name, self.apply(name, object).await);
        }
        for name in &changes.delete {
            failed |= Self::done(name, self.delete(name).await);
        }
        failed
    }

    /// Returns whether it must be tried again.
    fn done(name: &ObjectName, result: Result<bool, Error>) -> bool {
        match result {
            Ok(true) => tracing::info!(service = %name, "wrote the Service of an XBackend"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(service = %name, %error, "cannot write the Service of an XBackend");
                return true;
            }
        }
        false
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
        let same = Preconditions {
            uid: service.metadata.uid,
            resource_version: None,
        };
        let params = DeleteParams::default().preconditions(same);
        match api.delete(&name.name, &params).await {
            Ok(_) => Ok(true),
            Err(Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn api(&self, name: &ObjectName) -> Api<Service> {
        Api::namespaced(self.client.clone(), &name.namespace)
    }
}
