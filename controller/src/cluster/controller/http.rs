//! Metrics and health, for Kubernetes and for people.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::Failure;

use super::metrics::Exposition;

/// The text format's name.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether there is something to serve, or what is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The first complete state is published.
    Ready,
    /// Why not yet.
    Waiting(String),
}

#[derive(Debug)]
struct Shared {
    exposition: Exposition,
    readiness: watch::Receiver<Readiness>,
}

/// # Errors
/// If nobody can listen on the address.
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
        // Also when nobody is left to tell.
        let _ = shutdown.wait_for(|ends| *ends).await;
    };
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(ended).await {
        tracing::error!(%error, "metrics and health are not served any more");
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
