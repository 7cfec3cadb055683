//! `Expect: 100-continue`: what comes before an answer is no answer.

use anyhow::{Context, Result};
use limpet_e2e::{Answering, Carrier, Informational, Request, Upload};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Session, address, config, start};

/// A request that waits for the word to send its body.
fn waiting(request: Request) -> (Request, Upload, UnboundedReceiver<Informational>) {
    let (request, upload) = request.header("expect", "100-continue").upload();
    let (request, informational) = request.informational();
    (request, upload, informational)
}

/// Sends the body once the word is given, and says what else came with it.
async fn send_when_told(mut upload: Upload, mut told: UnboundedReceiver<Informational>) -> Result<Informational> {
    let word = told.recv().await.context("an answer without the word to go on")?;
    upload.send("the body").await?;
    Ok(word)
}

/// Envoy gives the word itself, or passes on the backend's.
#[tokio::test]
async fn the_word_to_go_on_has_no_token_and_the_answer_has() -> Result<()> {
    for proxied in [false, true] {
        let hcm = json!({"proxy_100_continue": proxied});
        let config = config()?.connection_manager(&hcm);
        let site = start(config).await?;
        let at = address(&site, Carrier::Cookie)?;
        let mut session = Session::new(Carrier::Cookie);
        for _ in 0..5 {
            let (request, upload, told) = waiting(Request::get(at, "/"));
            let (answer, word) = tokio::join!(session.send(request), send_when_told(upload, told));
            let (answer, (status, headers)) = (answer?, word?);
            assert_eq!((answer.status, answer.seen()?.body), (200, 8));
            assert_eq!(status, 100);
            assert!(!headers.contains_key("set-cookie"), "the word to go on has {headers:?}");
            assert_eq!(answer.seen()?.all("expect").len(), usize::from(proxied));
        }
        assert_eq!(session.continued, 4);
    }
    Ok(())
}

/// The answer comes in place of the word, and the body is never sent.
#[tokio::test]
async fn a_backend_that_refuses_the_body_starts_a_session_too() -> Result<()> {
    let config = config()?.connection_manager(&json!({"proxy_100_continue": true}));
    let site = start(config).await?;
    for backend in &site.backends {
        backend.answer(Answering::status(417));
    }
    let at = address(&site, Carrier::Cookie)?;
    let mut session = Session::new(Carrier::Cookie);
    for _ in 0..5 {
        let (request, upload, mut told) = waiting(Request::get(at, "/"));
        let answer = session.send(request).await?;
        assert_eq!(answer.status, 417);
        assert!(told.try_recv().is_err(), "the client was told to go on as well");
        drop(upload);
    }
    assert_eq!(session.continued, 4);
    Ok(())
}
