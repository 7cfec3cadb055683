//! gRPC. Every second client makes single calls, the others keep a stream. Each returned note counts as a request.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use hyper::Uri;
use hyper_util::rt::TokioIo;
use limpet_e2e::Carrier;
use limpet_e2e::protocols::{EchoClient, Note};
use tokio::sync::mpsc;
use tonic::metadata::MetadataMap;
use tonic::transport::Endpoint;
use tonic::{Request, Streaming};
use tower::service_fn;

use super::{Client, PAUSE};
use crate::connections::Line;
use crate::site::GRPC_HOST;

const CARRIER: Carrier = Carrier::Header;

/// The channel's connection, which may be a later one when asked after a failure.
type Present = Arc<Mutex<Option<Line>>>;

pub(super) async fn run(client: Client) -> Result<()> {
    let (mut calls, present) = connect(&client)?;
    let mut token: Option<String> = None;
    while !client.is_leaving() {
        if client.is_second() {
            say(&client, &mut calls, &present, &mut token).await?;
            tokio::time::sleep(PAUSE).await;
        } else {
            converse(&client, &mut calls, &present, &mut token).await?;
        }
    }
    Ok(())
}

fn connect(client: &Client) -> Result<(EchoClient, Present)> {
    let present = Present::default();
    let (client, line) = (client.clone(), Arc::clone(&present));
    let connector = service_fn(move |_: Uri| {
        let (client, present) = (client.clone(), Arc::clone(&line));
        async move {
            let (line, stream) = client.connect().await.map_err(std::io::Error::other)?;
            *present.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    let endpoint = Endpoint::from_shared(format!("http://{GRPC_HOST}"))?;
    Ok((
        EchoClient::over(endpoint.connect_with_connector_lazy(connector)),
        present,
    ))
}

fn call<T>(message: T, token: Option<&str>) -> Result<Request<T>> {
    let mut call = Request::new(message);
    if let Some(token) = token {
        let (name, value) = CARRIER.field(token);
        call.metadata_mut().insert(name, value.parse()?);
    }
    Ok(call)
}

fn read(metadata: &MetadataMap) -> Result<(String, Option<String>)> {
    let backend = metadata.get("x-backend").context("no backend answered")?;
    Ok((backend.to_str()?.to_owned(), CARRIER.token_in(metadata.as_ref())))
}

fn now(present: &Present) -> Option<Line> {
    present.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn say(client: &Client, calls: &mut EchoClient, present: &Present, token: &mut Option<String>) -> Result<()> {
    let begun = client.now();
    let line = now(present);
    let call = call(Note::new("hello"), token.as_deref())?;
    let answer = calls.say(call).await.map_err(anyhow::Error::from);
    match answer.and_then(|answer| read(answer.metadata())) {
        Ok((backend, new)) => {
            client.answered(begun, &backend, new.is_some());
            *token = new.or(token.take());
        }
        Err(error) => client.failed(begun, line.as_ref().or(now(present).as_ref()), format!("{error:#}")),
    }
    Ok(())
}

async fn converse(
    client: &Client,
    calls: &mut EchoClient,
    present: &Present,
    token: &mut Option<String>,
) -> Result<()> {
    let begun = client.now();
    let line = now(present);
    let (sender, receiver) = mpsc::channel(1);
    let notes = futures_util::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Note>| {
        Some((receiver.recv().await?, receiver))
    });
    let answer = calls
        .converse(call(notes, token.as_deref())?)
        .await
        .map_err(anyhow::Error::from);
    let opened = answer.and_then(|answer| Ok((read(answer.metadata())?, answer.into_inner())));
    let ((backend, new), mut notes) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            client.failed(begun, line.as_ref().or(now(present).as_ref()), format!("{error:#}"));
            tokio::time::sleep(PAUSE).await;
            return Ok(());
        }
    };
    let line = now(present);
    client.answered(begun, &backend, new.is_some());
    *token = new.or(token.take());
    let mut worked = client.now();
    while !client.is_leaving() {
        tokio::time::sleep(PAUSE).await;
        let begun = client.now();
        match exchange(&sender, &mut notes).await {
            Ok(()) => {
                client.answered(begun, &backend, false);
                worked = client.now();
            }
            Err(error) => {
                client.ended(worked, line.as_ref(), format!("{error:#}"));
                break;
            }
        }
    }
    Ok(())
}

async fn exchange(sender: &mpsc::Sender<Note>, notes: &mut Streaming<Note>) -> Result<()> {
    let sent = sender.send(Note::new("hello")).await;
    // The stream's other direction has the error.
    let answer = limpet_e2e::poll::patiently("a note", async { Ok(notes.message().await?) }).await?;
    sent.context("the stream takes no more")?;
    answer.context("the stream has ended").map(drop)
}
