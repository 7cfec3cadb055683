//! An API server for tests, which keeps nothing.

use std::sync::{Arc, Mutex};

use axum::http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// Method and path with query.
pub(super) type RecordedRequest = Arc<Mutex<Vec<String>>>;

pub(super) fn client(
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> (Client, RecordedRequest) {
    client_with_bodies(move |request, _| answer(request))
}

/// `answer`: by the request and its body.
pub(super) fn client_with_bodies(
    answer: impl Fn(&str, Value) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> (Client, RecordedRequest) {
    let asked = RecordedRequest::default();
    let asks = Arc::clone(&asked);
    let serve = move |request: Request<Body>| {
        let (answer, asks) = (answer.clone(), Arc::clone(&asks));
        async move {
            let path = request.uri().path_and_query().map_or("", |path| path.as_str());
            let of_request = format!("{} {path}", request.method());
            let body = request
                .into_body()
                .collect_bytes()
                .await
                .map_err(std::io::Error::other)?;
            let (code, value) = answer(&of_request, serde_json::from_slice(&body).unwrap_or_default());
            asks.lock().unwrap().push(of_request);
            let response = Response::builder().status(code).body(value.to_string().into_bytes());
            Ok::<_, std::io::Error>(response.unwrap().map(Body::from))
        }
    };
    (Client::new(tower::service_fn(serve), "default"), asked)
}

/// The requests since the last call.
pub(super) fn take(asked: &RecordedRequest) -> Vec<String> {
    std::mem::take(&mut asked.lock().unwrap())
}

pub(super) fn refusal(code: u16) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "" };
    let status = json!({"kind": "Status", "status": "Failure", "message": "refused", "reason": reason, "code": code});
    (code, status)
}

pub(super) fn list(items: &[Value]) -> (u16, Value) {
    (
        200,
        json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}),
    )
}
