//! Starts the reconciler of pods' deletion costs, and counts sessions for it.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::context::ControllerContext;
use crate::cluster::kube::PodDeletions;
use crate::cluster::reconcile::deletion_costs::{DeletionCostReconciler, PodCounts, PodSessionCount, PodWriter};
use crate::cluster::reconcile::reconcile_loop;
use crate::cluster::reconcile::reported::PublishedReports;
use crate::cluster::sessions::SessionRegistry;
use limpet_api::ObjectName;

/// Does nothing if pods are not read.
pub(super) fn start(
    tasks: &mut JoinSet<()>,
    context: &ControllerContext,
    session_registry: &SessionRegistry,
    reported: watch::Receiver<Option<PublishedReports>>,
    deletions: watch::Receiver<Option<Arc<PodDeletions>>>,
) {
    if !context.counts_sessions() {
        return;
    }
    let session_registry = session_registry.clone();
    let role = context.cluster_role("pod-deletion-cost");
    let costs = DeletionCostReconciler::new(
        PodWriter::new(context.client.clone(), &context.settings.controller_name, role),
        move || counts(&session_registry),
        reported,
        deletions,
        context.leads.clone(),
        context.diagnostics.clone(),
    );
    tasks.spawn(reconcile_loop::run(costs));
}

fn counts(session_registry: &SessionRegistry) -> PodCounts {
    let services = session_registry.services();
    let sessions = session_registry.sessions();
    // An address without a pod has no annotation, and no pod has a colon in its name.
    let pods = sessions.pods.into_iter().filter(|row| !row.pod.contains(':'));
    let pods = pods.map(|row| PodSessionCount {
        service: ObjectName::new(&row.namespace, &row.service),
        pod: ObjectName::new(&row.namespace, &row.pod),
        is_endpoint: row.state.is_backend(),
        count: row.streams.saturating_add(row.sessions.try_into().unwrap_or(u64::MAX)),
        complete: row.gaps.is_complete(),
    });
    PodCounts {
        since: sessions.since,
        services,
        pods: pods.collect(),
    }
}
