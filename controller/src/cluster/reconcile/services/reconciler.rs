use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Error};
use limpet_xds::LogRate;
use serde_json::Value;
use tokio::sync::watch;

use super::wanted::{ServiceChange, ServiceChanges, changes, is_ours};
use crate::cluster::kube::{Backoff, FIELD_MANAGER, Observation, delete};
use crate::cluster::reconcile::diagnostics::{is_about_the_object, refusal};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::reconcile::reported::PublishedReports;
use crate::cluster::reconcile::turns::{DeferredRetries, RoundOrder};
use limpet_api::{Kind, ObjectName};

/// By `XBackend`, with the API server's words.
pub(crate) type RefusedServices = BTreeMap<ObjectName, String>;

pub(crate) struct ServiceReconciler {
    client: Client,
    reported: watch::Receiver<Option<PublishedReports>>,
    observation: watch::Receiver<Observation>,
    leads: watch::Receiver<bool>,
    refused: watch::Sender<RefusedServices>,
    order: RoundOrder,
    /// Refusals, with the API server's words if these are for a person, and writes that are not seen yet.
    waiting: DeferredRetries<ObjectName, Option<String>>,
    logs: LogRate,
    backoff: Backoff,
}

enum ServiceRound {
    Done,
    /// There is newer input.
    Outdated,
    /// The API server does not answer.
    Failed,
}

impl Reconcile for ServiceReconciler {
    const GATHER: Duration = Duration::from_millis(50);

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            changed = self.reported.changed() => Ok(changed?),
            changed = self.leads.changed() => Ok(changed?),
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        let round = self.round().await;
        if matches!(round, ServiceRound::Failed) {
            return Some(self.backoff.next());
        }
        self.backoff.reset();
        match round {
            ServiceRound::Outdated => Some(Self::GATHER),
            _ => self.waiting.rest(Instant::now()),
        }
    }
}

impl ServiceReconciler {
    pub(crate) fn new(
        client: Client,
        reported: watch::Receiver<Option<PublishedReports>>,
        observation: watch::Receiver<Observation>,
        leads: watch::Receiver<bool>,
    ) -> (Self, watch::Receiver<RefusedServices>) {
        let (refused, told) = watch::channel(RefusedServices::new());
        let reconciler = Self {
            client,
            reported,
            observation,
            leads,
            refused,
            order: RoundOrder::default(),
            waiting: DeferredRetries::default(),
            logs: LogRate::default(),
            backoff: Backoff::of_the_api(),
        };
        (reconciler, told)
    }

    async fn round(&mut self) -> ServiceRound {
        let Some(reported) = self.reported.borrow_and_update().clone() else {
            return ServiceRound::Done;
        };
        let leads = *self.leads.borrow_and_update();
        let served = self.observation.borrow().served.get(&Kind::XBackend).cloned();
        let (true, Some(served)) = (leads, served) else {
            self.waiting = DeferredRetries::default();
            self.refuse();
            return ServiceRound::Done;
        };
        let used = reported.reports.backends.keys();
        let changes = changes(&reported.objects, used, &served.api_version);
        self.waiting.retain(|backend| changes.contains_key(backend));
        let round = self.write(changes).await;
        self.refuse();
        round
    }

    async fn write(&mut self, changes: ServiceChanges) -> ServiceRound {
        let now = Instant::now();
        let due = changes
            .into_iter()
            .map(|(backend, change)| (change.digest(), backend, change));
        let due = due.filter(|(input, backend, _)| self.waiting.outcome(backend, *input, now).is_none());
        for (input, backend, change) in self.order.begin(due, |(_, backend, _)| &backend.namespace) {
            if self.order.may_end() && self.reported.has_changed().unwrap_or(true) {
                return ServiceRound::Outdated;
            }
            self.order.record_turn(&backend.namespace);
            let words = match self.make(&change).await {
                Ok(is_written) => {
                    if is_written {
                        tracing::info!(service = %change.service, "wrote the Service of an XBackend");
                    }
                    None
                }
                Err(Error::Api(status)) if is_about_the_object(status.code) => {
                    let error = Error::Api(status);
                    let words = refusal(&error);
                    if words.is_none() {
                        self.warn(&change.service, &error.to_string());
                    }
                    words
                }
                Err(error) => {
                    self.warn(&change.service, &error.to_string());
                    return ServiceRound::Failed;
                }
            };
            self.waiting.defer(backend, input, words, Instant::now());
        }
        ServiceRound::Done
    }

    fn warn(&self, service: &ObjectName, error: &str) {
        if let Some(left_out) = self.logs.permit() {
            tracing::warn!(%service, error, left_out, "cannot write the Service of an XBackend");
        }
    }

    /// Logs each refusal once.
    fn refuse(&self) {
        let refused = self.waiting.outcomes();
        let refused = refused.filter_map(|(backend, words)| Some((backend.clone(), words.clone()?)));
        let refused: RefusedServices = refused.collect();
        self.refused.send_if_modified(|before| {
            for (backend, error) in &refused {
                if before.get(backend) != Some(error)
                    && let Some(left_out) = self.logs.permit()
                {
                    tracing::warn!(%backend, error, left_out, "the Service of an XBackend may not be written");
                }
            }
            let changed = *before != refused;
            *before = refused;
            changed
        });
    }

    async fn make(&self, change: &ServiceChange) -> Result<bool, Error> {
        match &change.object {
            Some(object) => self.apply(&change.service, object).await,
            None => self.delete(&change.service).await,
        }
    }

    /// Whether anything was written.
    async fn apply(&self, name: &ObjectName, object: &Value) -> Result<bool, Error> {
        // The Lease may have been lost meanwhile.
        if !*self.leads.borrow() {
            return Ok(false);
        }
        let api = self.api(name);
        if let Some(other) = api.get_opt(&name.name).await?.filter(|there| !is_ours(there)) {
            if let Some(left_out) = self.logs.permit() {
                let labels = other.metadata.labels;
                tracing::warn!(service = %name, ?labels, left_out, "left as it is: another owner's Service");
            }
            return Ok(false);
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&name.name, &params, &Patch::Apply(object))
            .await
            .map(|_| true)
    }

    /// Whether anything was written.
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
