use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::sync::watch;

use super::costs::{CostPatch, INTERVAL, PodCounts, writes};
use crate::cluster::kube::{DELETION_COST, PodDeletion, PodDeletions, writer_of_costs};
use crate::cluster::reconcile::diagnostics::{Diagnostic, DiagnosticReason, Diagnostics, refusal};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::reconcile::reported::PublishedReports;
use crate::cluster::reconcile::turns::RoundOrder;
use crate::time_format::now;
use limpet_api::ObjectName;
use limpet_core::time::Timestamp;
use limpet_model::{Objects, costs_of_deletion};
use limpet_xds::LogRate;

/// The time between counts.
const TURN: Duration = Duration::from_secs(5);
/// The time between rounds if there is more to write.
const MORE: Duration = Duration::from_secs(1);
/// The wait after a refusal: a right may be granted, which no watch shows.
const REFUSED: Duration = Duration::from_secs(10);
const ABOUT: &str = "costs of deletion";

pub(crate) struct PodWriter {
    client: Client,
    field_manager: String,
    /// The `ClusterRole` that permits it.
    role: String,
}

impl PodWriter {
    pub(crate) fn new(client: Client, controller: &str, role: String) -> Self {
        Self {
            client,
            field_manager: writer_of_costs(controller),
            role,
        }
    }
}

pub(super) fn advice(role: &str, words: &str) -> String {
    format!(
        "The annotation {DELETION_COST} of its pods may not be written: {words}. Bind the ClusterRole {role} in this \
         namespace, or add it to the chart's podDeletionCost.namespaces"
    )
}

pub(crate) struct DeletionCostReconciler<F> {
    writer: PodWriter,
    count: F,
    reported: watch::Receiver<Option<PublishedReports>>,
    deletions: watch::Receiver<Option<Arc<PodDeletions>>>,
    leads: watch::Receiver<bool>,
    diagnostics: Diagnostics,
    last: BTreeMap<ObjectName, Timestamp>,
    /// By namespace, with the time of the refusal. A role counts for all of them.
    refused: BTreeMap<String, (Timestamp, Diagnostic)>,
    order: RoundOrder,
    logs: LogRate,
}

impl<F: Fn() -> PodCounts + Send + Sync> Reconcile for DeletionCostReconciler<F> {
    const GATHER: Duration = Duration::ZERO;

    async fn changed(&mut self) -> Result<(), Closed> {
        Ok(self.leads.changed().await?)
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        if !*self.leads.borrow_and_update() {
            self.refused.clear();
            self.report_diagnostics();
            return None;
        }
        let is_all = self.round().await;
        self.report_diagnostics();
        Some(if is_all { TURN } else { MORE })
    }
}

impl<F: Fn() -> PodCounts> DeletionCostReconciler<F> {
    pub(crate) fn new(
        writer: PodWriter,
        count: F,
        reported: watch::Receiver<Option<PublishedReports>>,
        deletions: watch::Receiver<Option<Arc<PodDeletions>>>,
        leads: watch::Receiver<bool>,
        diagnostics: Diagnostics,
    ) -> Self {
        Self {
            writer,
            count,
            reported,
            deletions,
            leads,
            diagnostics,
            last: BTreeMap::new(),
            refused: BTreeMap::new(),
            order: RoundOrder::default(),
            logs: LogRate::default(),
        }
    }

    /// Returns whether all was written.
    async fn round(&mut self) -> bool {
        let now = now();
        self.last.retain(|_, time| now.since(*time) < INTERVAL);
        self.refused.retain(|_, (time, _)| now.since(*time) < REFUSED);
        let objects = self
            .reported
            .borrow()
            .as_ref()
            .map(|reported| Arc::clone(&reported.objects));
        let (Some(objects), Some(written)) = (objects, self.deletions.borrow().clone()) else {
            return true;
        };
        let asking: BTreeSet<ObjectName> = objects
            .services
            .iter()
            .filter(|(name, service)| costs_of_deletion(&objects, name, service))
            .map(|(name, _)| name.clone())
            .collect();
        let is_ours = |deletion: &PodDeletion| matches!(deletion, PodDeletion::Costs(cost) if cost.written.is_some());
        // Counting takes time, and most clusters have neither.
        if asking.is_empty() && !written.values().any(is_ours) {
            return true;
        }
        let counts = (self.count)();
        let writes = writes(&asking, &counts, &written, &self.last, now);
        for (pod, write) in self.order.begin(writes, |(pod, _)| &pod.namespace) {
            // The Lease may have been lost meanwhile.
            if !*self.leads.borrow() {
                return true;
            }
            if self.refused.contains_key(pod.namespace.as_str()) {
                continue;
            }
            if self.order.may_end() {
                return false;
            }
            self.order.record_turn(&pod.namespace);
            match self.write(&pod, write.cost).await {
                Ok(()) => drop(self.last.insert(pod, now)),
                Err(Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    if let Some(words) = refusal(&error) {
                        self.refuse(&objects, &pod, &write, now, &words);
                    } else if let Some(left_out) = self.logs.permit() {
                        tracing::warn!(%pod, %error, left_out, "cannot write what it costs to delete a pod");
                    }
                }
            }
        }
        true
    }

    async fn write(&self, pod: &ObjectName, cost: Option<i32>) -> Result<(), Error> {
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.writer.client.clone(), &pod.namespace);
        let cost = cost.map(|cost| cost.to_string());
        let change = json!({"metadata": {"annotations": {DELETION_COST: cost}}});
        let params = PatchParams {
            field_manager: Some(self.writer.field_manager.clone()),
            ..PatchParams::default()
        };
        api.patch_metadata(&pod.name, &params, &Patch::Merge(&change)).await?;
        tracing::debug!(%pod, cost, "wrote what it costs to delete a pod");
        Ok(())
    }

    fn refuse(&mut self, objects: &Objects, pod: &ObjectName, write: &CostPatch, now: Timestamp, words: &str) {
        let service = write.service.as_ref().and_then(|name| objects.services.get(name));
        let (kind, name, uid) = match service {
            Some(service) => ("Service", service.meta.name.to_string(), service.meta.uid.clone()),
            None => ("Pod", pod.name.to_string(), String::new()),
        };
        let diagnostic = Diagnostic {
            kind,
            namespace: Some(pod.namespace.to_string()),
            name,
            uid,
            reason: DiagnosticReason::WriteRefused,
            message: advice(&self.writer.role, words),
        };
        self.refused.insert(pod.namespace.to_string(), (now, diagnostic));
    }

    fn report_diagnostics(&self) {
        let diagnostics = self.refused.values().map(|(_, diagnostic)| diagnostic.clone());
        self.diagnostics.set_and_log(ABOUT, diagnostics.collect());
    }
}
