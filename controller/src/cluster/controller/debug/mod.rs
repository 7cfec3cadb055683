//! `/debug`: the published state as a picture, and `/debug/graph.json`, which has the same. Both are read-only. See
//! `design/status.md`.
//!
//! A request gets the event loop's present state, limited to what a browser can draw (`graph`); `search` finds the
//! rest.
//!
//! - `view`: what is shown. `graph` makes it; `index`, `judged`, `rules` and `pods` are its parts.
//! - `page.html`, `page.css`, `page.js`: the page, which is part of the binary.

mod graph;
mod index;
mod judged;
mod pods;
mod rules;
mod search;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use judged::{CURRENT_STATUS, ConditionSubject, ObjectVerdicts};
pub(crate) use view::ObjectVerdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use tokio::sync::mpsc;

use super::port::{AnswerTurns, PortClient};
use super::present::{SnapshotQuestion, SnapshotRequester};
use crate::cluster::config::HttpConfig;
use crate::cluster::sessions::SessionRegistry;

/// Only content of this server is shown and run, no page may put it into a frame, and text cannot become markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

#[derive(Debug)]
pub(crate) struct DebugPage {
    asker: SnapshotRequester,
    snapshots: limpet_xds::Snapshots,
    session_registry: SessionRegistry,
    turns: AnswerTurns,
}

impl DebugPage {
    /// `None` if it is switched off.
    pub(crate) fn new(
        config: &HttpConfig,
        snapshots: &limpet_xds::Snapshots,
        session_registry: &SessionRegistry,
    ) -> (Option<Self>, mpsc::Receiver<SnapshotQuestion>) {
        let (asker, questions) = SnapshotRequester::new();
        let debug = config.debug_page.then(|| Self {
            asker,
            snapshots: snapshots.clone(),
            session_registry: session_registry.clone(),
            turns: AnswerTurns::default(),
        });
        (debug, questions)
    }
}

pub(crate) fn router(debug: DebugPage) -> Router {
    Router::new()
        // Behind the proxy of an API server, an absolute path would lead elsewhere.
        .route(
            "/debug/",
            get(async || (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "../debug")])),
        )
        .route("/debug", get(async || part("text/html", include_str!("page.html"))))
        .route(
            "/debug/page.css",
            get(async || part("text/css", include_str!("page.css"))),
        )
        .route(
            "/debug/page.js",
            get(async || part("text/javascript", include_str!("page.js"))),
        )
        .route("/debug/graph.json", get(graph_json))
        .with_state(Arc::new(debug))
}

fn part(kind: &'static str, content: impl IntoResponse) -> Response {
    let mut response = content.into_response();
    let of_kind = match kind {
        "text/html" => HeaderValue::from_static("text/html; charset=utf-8"),
        "text/css" => HeaderValue::from_static("text/css; charset=utf-8"),
        "text/javascript" => HeaderValue::from_static("text/javascript; charset=utf-8"),
        _ => HeaderValue::from_static("application/json"),
    };
    let headers: [(HeaderName, HeaderValue); 6] = [
        (header::CONTENT_TYPE, of_kind),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("same-origin"),
        ),
    ];
    response.headers_mut().extend(headers);
    response
}

async fn graph_json(
    State(debug): State<Arc<DebugPage>>,
    Extension(client): Extension<PortClient>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = query.unwrap_or_default();
    let searched = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "q");
    let searched = searched.map(|(_, value)| value.into_owned()).unwrap_or_default();
    let turn = debug.turns.acquire(client).await?;
    let silent = || (StatusCode::SERVICE_UNAVAILABLE, "the controller does not answer\n").into_response();
    let present = debug.asker.request().await.ok_or_else(silent)?;
    let groups = debug.snapshots.status().groups();
    let envoys: BTreeMap<String, usize> = groups.into_iter().map(|(name, of)| (name.to_string(), of)).collect();
    let sessions = debug.session_registry.recent();
    let written = tokio::task::spawn_blocking(move || {
        // It takes as long although the client has gone.
        let _turn = turn;
        let view = graph::view(&present, &sessions.pods, &envoys, &searched);
        serde_json::to_vec(&view)
    });
    match written.await {
        Ok(Ok(json)) => Ok(part("application/json", json)),
        _ => Err(StatusCode::INTERNAL_SERVER_ERROR.into_response()),
    }
}
