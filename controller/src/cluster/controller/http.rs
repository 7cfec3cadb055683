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

use super::metrics::Exposition;
use crate::exit::Failure;

/// The content type of the text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether the first complete state is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// What is missing.
    Waiting(String),
}

#[derive(Debug)]
struct Shared {
    exposition: Exposition,
    readiness: watch::Receiver<Readiness>,
}

/// # Errors
/// If the address cannot be listened on.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| Failure(format!("http.address: cannot listen on {address}: {error}")))
}

/// Serves `/metrics`, `/healthz` and `/readyz` until `shutdown`.
pub(crate) async fn serve(
    listener: TcpListener,
    exposition: Exposition,
    readiness: watch::Receiver<Readiness>,
    mut shutdown: watch::Receiver<bool>,
) {
    let shared = Shared { exposition, readiness };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(shared));
    let ended = async move {
        // Also if the sender is gone.
        let _ = shutdown.wait_for(|ends| *ends).await;
    };
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(ended).await {
        tracing::error!(%error, "metrics and health are no longer served");
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], shared.exposition.text())
}

async fn readyz(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    match shared.readiness.borrow().clone() {
        Readiness::Ready => (StatusCode::OK, "ok\n".to_owned()),
        Readiness::Waiting(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
