//! What is published at this moment, for people who ask. Nobody keeps it up to date: the event loop gathers it when it
//! is asked.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::cluster::kube::Slices;
use crate::cluster::reconcile::fences;
use crate::cluster::reconcile::reported::Reported;
use limpet_model::graph::Graph;

/// How long to wait for the event loop.
const LONGEST: Duration = Duration::from_secs(5);

/// Where the event loop puts the answer.
pub(crate) type Question = oneshot::Sender<Present>;

/// What is published, and what was said of it.
#[derive(Debug, Default)]
pub(crate) struct Present {
    /// `None`: nothing is published yet.
    pub(crate) graph: Option<Arc<Graph>>,
    pub(crate) reported: Option<Reported>,
    pub(crate) slices: Arc<Slices>,
    pub(crate) fences: fences::List,
    /// The addresses that Envoys do not get yet, each with the namespace of the Services that lack it.
    pub(crate) held_back: BTreeSet<(Arc<str>, SocketAddr)>,
}

/// Asks the event loop.
#[derive(Debug, Clone)]
pub(crate) struct Asker(mpsc::Sender<Question>);

impl Asker {
    /// One who asks, and where the event loop finds the questions.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(1);
        (Self(questions), asked)
    }

    /// `None`: the event loop has ended, or does not answer in time.
    pub(crate) async fn ask(&self) -> Option<Present> {
        let (question, answer) = oneshot::channel();
        let asked = async {
            self.0.send(question).await.ok()?;
            answer.await.ok()
        };
        tokio::time::timeout(LONGEST, asked).await.ok()?
    }
}
