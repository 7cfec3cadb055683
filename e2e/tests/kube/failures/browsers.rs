//! Clients that keep all cookies, as browsers do, when a policy's second rule renames its cookies. The clients of a
//! crowd keep one token each, so they cannot follow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::Visitor;
use limpet_e2e::kube::Controller;
use tokio::task::JoinSet;

pub(super) struct Browsers {
    leaving: Arc<AtomicBool>,
    clients: JoinSet<Result<()>>,
}

impl Browsers {
    pub(super) async fn gather(controller: &Controller) -> Result<Self> {
        let leaving = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let mut visitor = Visitor::of(controller.address(8080));
            let backend = visitor.get("/").await?.backend().context("no backend")?.to_owned();
            ensure!(
                visitor.cookie_names() == ["limpet-session"],
                "{:?}",
                visitor.cookie_names()
            );
            clients.spawn(stay(visitor, backend, Arc::clone(&leaving)));
        }
        Ok(Self { leaving, clients })
    }

    /// Stops the clients, and checks that no request failed and no session moved.
    pub(super) async fn leave(mut self) -> Result<()> {
        self.leaving.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client??;
        }
        Ok(())
    }
}

async fn stay(mut visitor: Visitor, backend: String, leaving: Arc<AtomicBool>) -> Result<()> {
    let mut visits = 0;
    while !leaving.load(Ordering::Relaxed) {
        let before = format!("{visitor:?}");
        let answer = visitor.get("/").await?;
        visits += 1;
        let at = answer.backend();
        ensure!(
            answer.status == 200 && at == Some(backend.as_str()),
            "visit {visits}: expected {backend}, found {at:?} with {}; {before}, then {visitor:?}",
            answer.status
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ensure!(visits > 20, "{visits} visits");
    Ok(())
}
