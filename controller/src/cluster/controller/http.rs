//! Metrics and health, for Kubernetes and for people.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::metrics;

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
    registry: Registry,
    readiness: watch::Receiver<Readiness>,
    refresh: Box<dyn Refresh>,
}

/// Brings the figures up to date that nobody keeps.
pub(crate) trait Refresh: std::fmt::Debug + Send + Sync + 'static {
    /// Before they are told.
    fn refresh(&self);
}

/// Serves `/metrics`, `/healthz` and `/readyz` until `shutdown`.
pub(crate) async fn serve(
    listener: TcpListener,
    registry: Registry,
    readiness: watch::Receiver<Readiness>,
    refresh: impl Refresh,
    mut shutdown: watch::Receiver<bool>,
) {
    let shared = Shared {
        registry,
        readiness,
        refresh: Box::new(refresh),
    };
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
    shared.refresh.refresh();
    ([(header::CONTENT_TYPE, OPEN_METRICS)], metrics::text(&shared.registry))
}

async fn readyz(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    match shared.readiness.borrow().clone() {
        Readiness::Ready => (StatusCode::OK, "ok\n".to_owned()),
        Readiness::Waiting(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
