//! What lives at pods, for what it costs to delete them.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::context::Context;
use crate::cluster::kube::Deletions;
use crate::cluster::reconcile::deletion_costs::{Counts, Living, Reconciler, Writer};
use crate::cluster::reconcile::reconcile_loop;
use crate::cluster::reconcile::reported::Reported;
use crate::cluster::sessions::Book;
use limpet_api::ObjectName;

/// Starts what writes on pods what it costs to delete them, if what pods say is read.
pub(super) fn start(
    tasks: &mut JoinSet<()>,
    context: &Context,
    book: &Book,
    reported: watch::Receiver<Option<Reported>>,
    deletions: watch::Receiver<Option<Arc<Deletions>>>,
) {
    if !context.counts_sessions() {
        return;
    }
    let book = book.clone();
    let role = context.cluster_role("pod-deletion-cost");
    let costs = Reconciler::new(
        Writer::new(context.client.clone(), &context.settings.controller_name, role),
        move || counts(&book),
        reported,
        deletions,
        context.leads.clone(),
        context.diagnostics.clone(),
    );
    tasks.spawn(reconcile_loop::run(costs));
}

/// What lives at pods.
fn counts(book: &Book) -> Counts {
    let services = book.services();
    let sessions = book.sessions();
    // An address without a pod has no annotation, and no pod has a colon in its name.
    let pods = sessions.pods.into_iter().filter(|row| !row.pod.contains(':'));
    let pods = pods.map(|row| Living {
        service: ObjectName::new(&row.namespace, &row.service),
        pod: ObjectName::new(&row.namespace, &row.pod),
        is_endpoint: row.state.is_backend(),
        count: row.streams.saturating_add(row.sessions.try_into().unwrap_or(u64::MAX)),
        complete: row.gaps.is_complete(),
    });
    Counts {
        since: sessions.since,
        services,
        pods: pods.collect(),
    }
}
