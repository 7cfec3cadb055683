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

use super::debug::{self, DebugPage};
use super::metrics::Exposition;
use super::port::{AnswerTurns, ConnectionTimeouts, PortClient, PortServer, RejectedConnections};
use super::session_pages;
use crate::cluster::reconcile::replicas::ReplicaReports;
use crate::cluster::sessions::SessionRegistry;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadinessState {
    Ready,
    /// Nothing is published: what is missing.
    Waiting(String),
    /// An earlier state is published: what is missing for another one. Envoys can get it, so this replica stays ready.
    Stale(String),
}

#[derive(Debug)]
struct HttpState {
    exposition: Exposition,
    readiness: watch::Receiver<ReadinessState>,
    turns: AnswerTurns,
}

#[derive(Debug)]
pub(crate) struct MetricsPages {
    router: Router,
    turned_away: RejectedConnections,
}

pub(crate) async fn serve(
    listener: TcpListener,
    pages: MetricsPages,
    replicas: ReplicaReports,
    shutdown: watch::Receiver<bool>,
) {
    let is_replica = Box::new(move |address| replicas.are_at(address));
    PortServer::new(
        pages.router,
        is_replica,
        ConnectionTimeouts::default(),
        pages.turned_away,
    )
    .serve(listener, shutdown)
    .await;
}

/// `/metrics`, `/healthz`, `/readyz`, the pages of sessions if they are counted, and the debug page if there is one.
pub(crate) fn pages(
    exposition: Exposition,
    readiness: watch::Receiver<ReadinessState>,
    session_registry: Option<SessionRegistry>,
    debug: Option<DebugPage>,
) -> MetricsPages {
    let turned_away = exposition.metrics.http_turned_away.clone();
    let shared = HttpState {
        exposition,
        readiness,
        turns: AnswerTurns::default(),
    };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(shared))
        .merge(session_registry.map(session_pages::router).unwrap_or_default())
        .merge(debug.map(debug::router).unwrap_or_default());
    MetricsPages { router, turned_away }
}

async fn metrics(
    State(shared): State<Arc<HttpState>>,
    Extension(client): Extension<PortClient>,
) -> Result<impl IntoResponse, Response> {
    let _turn = shared.turns.acquire(client).await?;
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], shared.exposition.text()))
}

async fn readyz(State(shared): State<Arc<HttpState>>) -> impl IntoResponse {
    match shared.readiness.borrow().clone() {
        ReadinessState::Ready => (StatusCode::OK, "ok\n".to_owned()),
        ReadinessState::Stale(why) => (StatusCode::OK, format!("{why}; what was published stays\n")),
        ReadinessState::Waiting(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
