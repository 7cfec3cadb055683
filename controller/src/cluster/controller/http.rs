//! Metrics and health.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::debug::{self, Debug};
use super::metrics::Exposition;
use super::session_pages;
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
}

/// Serves `/metrics`, `/healthz`, `/readyz`, the pages of sessions if there is a book, and the debug page if there is
/// one, until `shutdown`.
pub(crate) async fn serve(
    listener: TcpListener,
    exposition: Exposition,
    readiness: watch::Receiver<Readiness>,
    book: Option<Book>,
    debug: Option<Debug>,
    mut shutdown: watch::Receiver<bool>,
) {
    let shared = Shared { exposition, readiness };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(shared));
    let router = router.merge(book.map(session_pages::router).unwrap_or_default());
    let router = router.merge(debug.map(debug::router).unwrap_or_default());
    let ended = async move {
        // Also if the sender is gone.
        let _ = shutdown.wait_for(|ends| *ends).await;
    };
    if let Err(error) = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(ended)
        .await
    {
        tracing::error!(%error, "metrics and health are no longer served");
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], shared.exposition.text())
}

async fn readyz(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    match shared.readiness.borrow().clone() {
        Readiness::Ready => (StatusCode::OK, "ok\n".to_owned()),
        Readiness::Stale(why) => (StatusCode::OK, format!("{why}; what was published stays\n")),
        Readiness::Waiting(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
