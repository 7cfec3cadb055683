//! The pages of sessions: `/sessions` for people and commands, `/sessions/self` for a pod, `/sessions/replica` for
//! other replicas. Anybody in the cluster may read them, as often and as slowly as they like. So what takes long is
//! made once in a second, one at a time, and what all of them get is one copy.

mod copies;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::cluster::sessions::Book;
use copies::Copies;

/// How long somebody waits while others are answered: as on the debug page.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many copies of `/sessions` slow readers may keep. They have about 250 bytes for each pod.
const PAGES: usize = 16;
/// How many large answers slow readers may keep of what a replica knows. Each has few megabytes: the rest is told to
/// who asks again.
const NEWS: usize = 8;
/// From so many bytes on, an answer is large.
const LARGE: usize = 256 << 10;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

#[derive(Debug)]
struct Pages {
    book: Book,
    turn: Semaphore,
    sessions: Copies,
    news: Arc<Semaphore>,
}

/// The pages of this book.
pub(super) fn router(book: Book) -> Router {
    let pages = Pages {
        book,
        turn: Semaphore::new(1),
        sessions: Copies::new(PAGES),
        news: Arc::new(Semaphore::new(NEWS)),
    };
    Router::new()
        .route("/sessions", get(sessions))
        .route("/sessions/replica", get(replica))
        .route("/sessions/self", get(own_sessions))
        .with_state(Arc::new(pages))
}

impl Pages {
    async fn turn(&self) -> Result<SemaphorePermit<'_>, Response> {
        match tokio::time::timeout(PATIENCE, self.turn.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(busy()),
        }
    }
}

fn busy() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "others are asking: try again\n").into_response()
}

fn page(kind: &'static str, content: Bytes) -> Response {
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}

/// What lives where, as [`crate::cluster::sessions::Sessions`] in JSON.
async fn sessions(State(pages): State<Arc<Pages>>) -> Result<Response, Response> {
    let _turn = pages.turn().await?;
    // All keys are strings, so it serializes.
    let text = || serde_json::to_vec(&pages.book.sessions()).unwrap_or_default();
    // Who gets what is old would take it for what is.
    let page_of_all = pages.sessions.fresh(Instant::now(), text).ok_or_else(busy)?;
    Ok(page(JSON, page_of_all))
}

/// What this replica knows of sessions, for the others.
async fn replica(State(pages): State<Arc<Pages>>, RawQuery(query): RawQuery) -> Result<Response, Response> {
    let _turn = pages.turn().await?;
    // Each answer is sealed for who asks.
    let news = pages.book.answer(&query.unwrap_or_default()).ok_or_else(busy)?;
    if news.len() < LARGE {
        return Ok(page(PROTOBUF, news.into()));
    }
    let place = Arc::clone(&pages.news).try_acquire_owned().map_err(|_| busy())?;
    Ok(page(PROTOBUF, Bytes::from_owner(Kept { news, _place: place })))
}

/// A large answer, and its place among them until it is read.
struct Kept {
    news: Vec<u8>,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.news
    }
}

/// What lives at the pod that asks, by its address and by its namespace, if it says so, for `limpet drained`.
async fn own_sessions(
    State(pages): State<Arc<Pages>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
) -> Response {
    // Who names another namespace is answered for that one: it is an answer for who asks.
    let namespace = query.as_deref().and_then(|query| query.strip_prefix("namespace="));
    let own = pages.book.at(client.ip().to_canonical(), namespace);
    // All keys are strings, so it serializes.
    page(JSON, serde_json::to_vec(&own).unwrap_or_default().into())
}
