//! Metrics and health.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::debug::{self, Debug};
use super::metrics::Exposition;
use super::port::{Client, Port, Times, TurnedAway, Turns};
use super::session_pages;
use crate::cluster::reconcile::replicas::Replicas;
use crate::cluster::sessions::Book;

/// The content type of the text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether a complete state is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// Nothing is published, and what is missing.
    Waiting(String),
    /// An earlier state is published, and what is missing for another. Envoys can get it, so this is no reason to send
    /// them elsewhere.
    Stale(String),
}

#[derive(Debug)]
struct Shared {
    exposition: Exposition,
    readiness: watch::Receiver<Readiness>,
    turns: Turns,
}

/// What is served, and the counter of connections that are not.
#[derive(Debug)]
pub(crate) struct Pages {
    router: Router,
    turned_away: TurnedAway,
}

/// Serves these pages until `shutdown`.
pub(crate) async fn serve(listener: TcpListener, pages: Pages, replicas: Replicas, shutdown: watch::Receiver<bool>) {
    let is_replica = Box::new(move |address| replicas.are_at(address));
    Port::new(pages.router, is_replica, Times::default(), pages.turned_away)
        .serve(listener, shutdown)
        .await;
}

/// `/metrics`, `/healthz`, `/readyz`, the pages of sessions if there is a book, and the debug page if there is one.
pub(crate) fn pages(
    exposition: Exposition,
    readiness: watch::Receiver<Readiness>,
    book: Option<Book>,
    debug: Option<Debug>,
) -> Pages {
    let turned_away = exposition.metrics.http_turned_away.clone();
    let shared = Shared {
        exposition,
        readiness,
        turns: Turns::default(),
    };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(shared))
        .merge(book.map(session_pages::router).unwrap_or_default())
        .merge(debug.map(debug::router).unwrap_or_default());
    Pages { router, turned_away }
}

async fn metrics(
    State(shared): State<Arc<Shared>>,
    Extension(client): Extension<Client>,
) -> Result<impl IntoResponse, Response> {
    let _turn = shared.turns.take(client).await?;
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], shared.exposition.text()))
}

async fn readyz(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    match shared.readiness.borrow().clone() {
        Readiness::Ready => (StatusCode::OK, "ok\n".to_owned()),
        Readiness::Stale(why) => (StatusCode::OK, format!("{why}; what was published stays\n")),
        Readiness::Waiting(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
