//! Answers to requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, ready};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TRAILER};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};
use serde_json::json;

use super::protocol::UnderWay;
use super::{Answering, Phase, Shared, Tasks};
use crate::body::{self, Body, BoxError};

const EVENT_INTERVAL: Duration = Duration::from_millis(10);

pub(super) async fn respond(request: Request<Incoming>, tasks: Tasks, shared: Arc<Shared>) -> Result<Response<Body>> {
    let answering = {
        let mut behaviour = shared.behaviour();
        if request.uri().path() == "/healthz" {
            Answering::status(if behaviour.healthy { 200 } else { 503 })
        } else {
            behaviour.requests += 1;
            behaviour.next.pop_front().unwrap_or_else(|| behaviour.usual.clone())
        }
    };
    let under_way = shared.under_way.begin();
    tokio::time::sleep(answering.delay).await;
    if answering.hang_up {
        bail!("hanging up");
    }
    let may_close = request.version() <= Version::HTTP_11;
    let cut_after = request.headers().get("x-cut-after").cloned();
    let asked_for = asked_for(request.headers())?;
    let protocol = shared.protocols.iter().find(|protocol| protocol.speaks(&request));
    let mut response = match (protocol, request.uri().path()) {
        (Some(protocol), _) => protocol.answer(&shared.name, request, &tasks).await?,
        (None, "/echo") => echo(request),
        (None, "/events") => events(&request, &tasks, &shared.name),
        (None, _) => what_was_seen(request, &answering, &shared).await?,
    };
    for (name, value) in &answering.headers {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        response.headers_mut().append(name, value.parse()?);
    }
    for (name, value) in asked_for {
        response.headers_mut().append(name, value);
    }
    response.headers_mut().insert("x-backend", shared.name.parse()?);
    if may_close && *shared.phase.borrow() == Phase::Leaving && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let pieces_left = match cut_after {
        Some(count) => Some(count.to_str()?.parse()?),
        None => None,
    };
    Ok(response.map(|body| {
        let watched = Watched {
            body,
            pieces_left,
            _under_way: under_way,
        };
        watched.boxed_unsync()
    }))
}

/// The fields of `x-answer: NAME: VALUE`.
fn asked_for(headers: &HeaderMap) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let field = |field: &HeaderValue| {
        let colon = field.as_bytes().iter().position(|byte| *byte == b':');
        let (name, value) = field.as_bytes().split_at(colon.context("an x-answer without a name")?);
        let value = value.get(1..).unwrap_or_default().trim_ascii_start();
        Ok((HeaderName::from_bytes(name)?, HeaderValue::from_bytes(value)?))
    };
    headers.get_all("x-answer").iter().map(field).collect()
}

/// The request as JSON. An error is answered before the body is read.
async fn what_was_seen(request: Request<Incoming>, answering: &Answering, shared: &Shared) -> Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let length = match answering.status {
        ..400 => body.collect().await?.to_bytes().len(),
        _ => 0,
    };
    let seen = json!({
        "backend": shared.name,
        "version": format!("{:?}", head.version),
        "method": head.method.as_str(),
        "path": head.uri.path(),
        "query": head.uri.query(),
        "headers": headers_as_text(&head.headers),
        "body": length,
    });
    let text = format!("{seen}\n");
    shared.behaviour().last = Some(seen);
    let mut response = Response::builder().status(answering.status);
    let has_body = answering.status != 204;
    if has_body {
        response = response.header(CONTENT_LENGTH, text.len());
    }
    // hyper sends a body in an answer to HEAD over HTTP/2 unless it is empty.
    let text = if has_body && head.method != Method::HEAD {
        text
    } else {
        String::new()
    };
    Ok(response.body(body::whole(text))?)
}

fn echo(request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let mut response = Response::new(body.map_err(BoxError::from).boxed_unsync());
    // HTTP/1.1 sends only announced trailers.
    if let Some(names) = head.headers.get(TRAILER) {
        response.headers_mut().insert(TRAILER, names.clone());
    }
    response
}

/// Endless server-sent events with the backend's name, numbered from `last-event-id` on.
fn events(request: &Request<Incoming>, tasks: &Tasks, backend: &str) -> Response<Body> {
    let last = request.headers().get("last-event-id");
    let last: u64 = last.and_then(|id| id.to_str().ok()?.parse().ok()).unwrap_or_default();
    let (mut upload, body) = body::piecewise();
    let backend = backend.to_owned();
    tasks.spawn(async move {
        let mut id = last + 1;
        while upload.send(format!("id: {id}\ndata: {backend}\n\n")).await.is_ok() {
            id += 1;
            tokio::time::sleep(EVENT_INTERVAL).await;
        }
    });
    let mut response = Response::new(body);
    let event_stream = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, event_stream);
    response
}

fn headers_as_text(headers: &HeaderMap) -> Vec<(&str, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            (
                name.as_str(),
                value.as_bytes().iter().copied().map(char::from).collect(),
            )
        })
        .collect()
}

/// Counts as unfinished until its end, and may be cut off.
struct Watched {
    body: Body,
    pieces_left: Option<usize>,
    _under_way: UnderWay,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &mut self.pieces_left {
            // Cut when the next piece is due, after the client has those before.
            Some(0) if frame.is_some() => return Poll::Ready(Some(Err("cut off".into()))),
            Some(left) => *left = left.saturating_sub(1),
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.pieces_left.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
