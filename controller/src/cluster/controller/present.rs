//! The published state, for people who ask. The event loop gathers it on request.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::cluster::kube::SliceIndex;
use crate::cluster::reconcile::fences;
use crate::cluster::reconcile::reported::PublishedReports;
use limpet_model::graph::Graph;

const LONGEST: Duration = Duration::from_secs(5);

pub(crate) type SnapshotQuestion = oneshot::Sender<PublishedSnapshot>;

#[derive(Debug, Default)]
pub(crate) struct PublishedSnapshot {
    /// `None`: nothing is published yet.
    pub(crate) graph: Option<Arc<Graph>>,
    pub(crate) reported: Option<PublishedReports>,
    pub(crate) slices: Arc<SliceIndex>,
    pub(crate) fences: fences::FenceList,
    /// The addresses that Envoys do not get yet, each with the namespace of the Services that lack it.
    pub(crate) held_back: BTreeSet<(Arc<str>, SocketAddr)>,
}

#[derive(Debug, Clone)]
pub(crate) struct SnapshotRequester(mpsc::Sender<SnapshotQuestion>);

impl SnapshotRequester {
    pub(crate) fn new() -> (Self, mpsc::Receiver<SnapshotQuestion>) {
        let (questions, asked) = mpsc::channel(1);
        (Self(questions), asked)
    }

    /// `None`: the event loop has ended, or does not answer in time.
    pub(crate) async fn request(&self) -> Option<PublishedSnapshot> {
        let (question, answer) = oneshot::channel();
        let asked = async {
            self.0.send(question).await.ok()?;
            answer.await.ok()
        };
        tokio::time::timeout(LONGEST, asked).await.ok()?
    }
}
