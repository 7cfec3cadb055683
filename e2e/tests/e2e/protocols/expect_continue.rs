//! `Expect: 100-continue`: the informational answer has no token.

use anyhow::{Context, Result};
use limpet_e2e::{Answering, Carrier, Informational, Request, Upload};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Session, address, config, start};

fn waiting(request: Request) -> (Request, Upload, UnboundedReceiver<Informational>) {
    let (request, upload) = request.header("expect", "100-continue").upload();
    let (request, informational) = request.informational();
    (request, upload, informational)
}

/// Sends the body after 100 (Continue), and returns that answer.
async fn send_when_told(mut upload: Upload, mut told: UnboundedReceiver<Informational>) -> Result<Informational> {
    let word = told.recv().await.context("there was no 100 (Continue)")?;
    upload.send("the body").await?;
    Ok(word)
}

/// Envoy sends 100 (Continue) itself, or passes on the backend's.
#[tokio::test]
async fn the_answer_has_the_token_and_100_continue_does_not() -> Result<()> {
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
            assert!(!headers.contains_key("set-cookie"), "100 (Continue) has {headers:?}");
            assert_eq!(answer.seen()?.all("expect").len(), usize::from(proxied));
        }
        assert_eq!(session.continued, 4);
    }
    Ok(())
}

/// Its answer replaces 100 (Continue).
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
        assert!(told.try_recv().is_err(), "the client also got 100 (Continue)");
        drop(upload);
    }
    assert_eq!(session.continued, 4);
    Ok(())
}
