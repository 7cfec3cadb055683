//! `/sessions` for people and commands, `/sessions/self` for a pod, `/sessions/replica` for other replicas. Every pod
//! of the cluster may read them at any rate. So expensive content is made once in a second, one at a time, and shared.

mod copies;

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};

use super::port::{AnswerTurns, PortClient, busy};
use crate::cluster::sessions::SessionRegistry;
use copies::PageCopies;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

#[derive(Debug)]
struct SessionPages {
    session_registry: SessionRegistry,
    turns: AnswerTurns,
    sessions: PageCopies,
}

pub(super) fn router(session_registry: SessionRegistry) -> Router {
    let pages = SessionPages {
        session_registry,
        turns: AnswerTurns::default(),
        sessions: PageCopies::default(),
    };
    Router::new()
        .route("/sessions", get(sessions))
        .route("/sessions/replica", get(replica))
        .route("/sessions/self", get(own_sessions))
        .with_state(Arc::new(pages))
}

fn page(kind: &'static str, content: Bytes) -> Response {
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}

/// [`crate::cluster::sessions::SessionCounts`] in JSON.
async fn sessions(
    State(pages): State<Arc<SessionPages>>,
    Extension(client): Extension<PortClient>,
) -> Result<Response, Response> {
    let _turn = pages.turns.acquire(client).await?;
    // All keys are strings, so it serializes.
    let text = || serde_json::to_vec(&pages.session_registry.sessions()).unwrap_or_default();
    Ok(page(JSON, pages.sessions.fresh(Instant::now(), text)))
}

/// The sessions that this replica knows, for the others.
async fn replica(
    State(pages): State<Arc<SessionPages>>,
    Extension(client): Extension<PortClient>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let _turn = pages.turns.acquire(client).await?;
    // Each answer is sealed for its question.
    let news = pages
        .session_registry
        .answer(&query.unwrap_or_default())
        .ok_or_else(busy)?;
    Ok(page(PROTOBUF, news.into()))
}

/// What lives at the pod that asks, by its address and by its namespace, if it says so, for `limpet wait-drained`.
async fn own_sessions(
    State(pages): State<Arc<SessionPages>>,
    Extension(client): Extension<PortClient>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let _turn = pages.turns.acquire(client).await?;
    // A client may name any namespace: only it uses the answer.
    let namespace = query.as_deref().and_then(|query| query.strip_prefix("namespace="));
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    let own = pages.session_registry.at(client.address.ip().to_canonical(), namespace);
    // All keys are strings, so it serializes.
    Ok(page(JSON, serde_json::to_vec(&own).unwrap_or_default().into()))
}
