//! Metrics and health.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::debug::{self, Debug};
use super::metrics::Exposition;
use crate::cluster::sessions::{After, Book};

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
    book: Option<Book>,
}

/// Serves `/metrics`, `/healthz`, `/readyz`, `/sessions` if there is a book, and the debug page if there is one, until
/// `shutdown`.
pub(crate) async fn serve(
    listener: TcpListener,
    exposition: Exposition,
    readiness: watch::Receiver<Readiness>,
    book: Option<Book>,
    debug: Option<Debug>,
    mut shutdown: watch::Receiver<bool>,
) {
    let shared = Shared {
        exposition,
        readiness,
        book,
    };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/sessions", get(sessions))
        .route("/sessions/replica", get(replica))
        .route("/sessions/self", get(own_sessions))
        .with_state(Arc::new(shared));
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

/// What lives where, as [`crate::cluster::sessions::Sessions`] in JSON.
async fn sessions(State(shared): State<Arc<Shared>>) -> Result<impl IntoResponse, StatusCode> {
    let book = shared.book.as_ref().ok_or(StatusCode::NOT_FOUND)?;
    // All keys are strings, so it serializes.
    let text = serde_json::to_string(&book.sessions()).unwrap_or_default();
    Ok(([(header::CONTENT_TYPE, "application/json")], text))
}

/// What this replica knows of sessions, for the others.
async fn replica(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, StatusCode> {
    let book = shared.book.as_ref().ok_or(StatusCode::NOT_FOUND)?;
    let after = After::of_query(&query.unwrap_or_default());
    let body = book.replica(after).encode_to_vec();
    Ok(([(header::CONTENT_TYPE, "application/x-protobuf")], body))
}

/// What lives at the pod that asks, by its address, for `limpet drained`.
async fn own_sessions(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
) -> Result<impl IntoResponse, StatusCode> {
    let book = shared.book.as_ref().ok_or(StatusCode::NOT_FOUND)?;
    let ip = client.ip().to_canonical();
    let all = book.sessions().pods;
    let own: Vec<_> = all.iter().filter(|pod| pod.address.ip() == ip).collect();
    let text = serde_json::json!({
        "known": !own.is_empty(),
        "sessions": own.iter().map(|pod| pod.sessions).sum::<usize>(),
        "streams": own.iter().map(|pod| pod.streams).sum::<u64>(),
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], text.to_string()))
}
