//! Protocols that tests add to backends.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::task::JoinSet;

use crate::body::Body;

/// The future that produces an answer.
pub type Reply = Pin<Box<dyn Future<Output = Result<Response<Body>>> + Send>>;

/// A protocol of backends, implemented by tests, so that the demo and the benchmark need no library for it.
pub trait Protocol: fmt::Debug + Send + Sync {
    /// Whether a request belongs to this protocol.
    fn speaks(&self, request: &Request<Incoming>) -> bool;

    /// Answers a request as the backend of this name. Later work belongs to `tasks`.
    fn answer(&self, backend: &str, request: Request<Incoming>, tasks: &Tasks) -> Reply;
}

/// Tasks of a connection that continue after an answer, until the backend ends.
#[derive(Debug, Clone)]
pub struct Tasks {
    running: Arc<Mutex<JoinSet<()>>>,
    count: Count,
}

impl Tasks {
    pub(super) fn new(count: &Count) -> Self {
        Self {
            running: Arc::default(),
            count: count.clone(),
        }
    }

    /// Starts a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let under_way = self.count.begin();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(async move {
            task.await;
            drop(under_way);
        });
    }

    pub(super) async fn finish(&self) {
        let mut running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        while running.join_next().await.is_some() {}
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(super) fn begin(&self) -> UnderWay {
        self.0.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) struct UnderWay(Count);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
