//! A gRPC service and its client, written as tonic's generator would write them.
//!
//! ```proto
//! service Echo {
//!   rpc Say(Note) returns (Note);
//!   rpc Repeat(Note) returns (stream Note);
//!   rpc Gather(stream Note) returns (Note);
//!   rpc Converse(stream Note) returns (stream Note);
//! }
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::http::uri::PathAndQuery;
use tonic::client::Grpc as Calls;
use tonic::metadata::MetadataMap;
use tonic::server::Grpc as Handlers;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::{BoxError, Protocol, Reply, Tasks};

const SAY: &str = "/limpet.test.Echo/Say";
const REPEAT: &str = "/limpet.test.Echo/Repeat";
const GATHER: &str = "/limpet.test.Echo/Gather";
const CONVERSE: &str = "/limpet.test.Echo/Converse";

const INTERVAL: Duration = Duration::from_millis(10);

/// The message of all calls.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Note {
    /// The text.
    #[prost(string, tag = "1")]
    pub text: String,
    /// An answer's backend.
    #[prost(string, tag = "2")]
    pub backend: String,
    /// An answer's number of notes.
    #[prost(uint32, tag = "3")]
    pub count: u32,
}

impl Note {
    /// A client's note.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

/// The service. A note `fail` makes a call fail. Metadata `x-note` and `x-note-bin` return; `x-seen` lists the rest.
#[derive(Debug)]
pub struct Echo;

impl Protocol for Echo {
    fn speaks(&self, request: &hyper::Request<Incoming>) -> bool {
        let content_type = request.headers().get("content-type");
        content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
    }

    fn answer(&self, backend: &str, request: hyper::Request<Incoming>, _: &Tasks) -> Reply {
        let backend = backend.to_owned();
        Box::pin(async move {
            let mut grpc = Handlers::new(ProstCodec::<Note, Note>::default());
            let response = match request.uri().path() {
                SAY => grpc.unary(service_fn(|call| say(&backend, call)), request).await,
                REPEAT => {
                    grpc.server_streaming(service_fn(|call| repeat(&backend, call)), request)
                        .await
                }
                GATHER => {
                    grpc.client_streaming(service_fn(|call| gather(&backend, call)), request)
                        .await
                }
                CONVERSE => {
                    grpc.streaming(service_fn(|call| converse(&backend, call)), request)
                        .await
                }
                _ => Status::unimplemented("no such call").into_http(),
            };
            Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        })
    }
}

#[allow(clippy::unused_async, reason = "gRPC handlers are")]
async fn say(backend: &str, call: Request<Note>) -> Result<Response<Note>, Status> {
    let metadata = answered(call.metadata());
    let note = answer(backend, call.into_inner())?;
    Ok(Response::from_parts(metadata, note, tonic::Extensions::default()))
}

type Notes = BoxStream<'static, Result<Note, Status>>;

#[allow(clippy::unused_async, reason = "gRPC handlers are")]
async fn repeat(backend: &str, call: Request<Note>) -> Result<Response<Notes>, Status> {
    let metadata = answered(call.metadata());
    let note = answer(backend, call.into_inner())?;
    let notes = stream::iter(0..note.count).then(move |number| {
        let note = Note {
            count: number,
            ..note.clone()
        };
        async move {
            tokio::time::sleep(INTERVAL).await;
            Ok(note)
        }
    });
    Ok(Response::from_parts(
        metadata,
        notes.boxed(),
        tonic::Extensions::default(),
    ))
}

async fn gather(backend: &str, call: Request<Streaming<Note>>) -> Result<Response<Note>, Status> {
    let metadata = answered(call.metadata());
    let mut notes = call.into_inner();
    let mut gathered = answer(backend, Note::default())?;
    while let Some(note) = notes.message().await? {
        gathered.text += &answer(backend, note)?.text;
        gathered.count += 1;
    }
    Ok(Response::from_parts(metadata, gathered, tonic::Extensions::default()))
}

#[allow(clippy::unused_async, reason = "gRPC handlers are")]
async fn converse(backend: &str, call: Request<Streaming<Note>>) -> Result<Response<Notes>, Status> {
    let metadata = answered(call.metadata());
    let backend = backend.to_owned();
    let notes = call.into_inner().and_then(move |note| {
        let answer = answer(&backend, note);
        async move { answer }
    });
    Ok(Response::from_parts(
        metadata,
        notes.boxed(),
        tonic::Extensions::default(),
    ))
}

#[allow(clippy::result_large_err, reason = "tonic's own type")]
fn answer(backend: &str, note: Note) -> Result<Note, Status> {
    if note.text == "fail" {
        let mut trailing = MetadataMap::new();
        trailing.insert("x-trailing", tonic::metadata::MetadataValue::from_static("last"));
        return Err(Status::with_metadata(Code::FailedPrecondition, "as asked", trailing));
    }
    Ok(Note {
        backend: backend.to_owned(),
        ..note
    })
}

fn answered(asked: &MetadataMap) -> MetadataMap {
    let mut answer = MetadataMap::new();
    if let Some(note) = asked.get("x-note") {
        answer.insert("x-note", note.clone());
    }
    if let Some(note) = asked.get_bin("x-note-bin") {
        answer.insert_bin("x-note-bin", note.clone());
    }
    let secrets = ["cookie", "x-session"];
    let seen: Vec<_> = secrets.into_iter().filter(|name| asked.contains_key(*name)).collect();
    if let Ok(seen) = seen.join(" ").parse() {
        answer.insert("x-seen", seen);
    }
    answer
}

/// A client with its own connection.
#[derive(Debug, Clone)]
pub struct EchoClient(Calls<Channel>);

type Called<T> = Result<Response<T>, Status>;

impl EchoClient {
    /// Connects.
    ///
    /// # Errors
    /// If nothing listens there.
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
        Ok(Self(Calls::new(channel)))
    }

    /// A client with this channel.
    #[must_use]
    pub fn over(channel: Channel) -> Self {
        Self(Calls::new(channel))
    }

    /// Sends a note, for a note.
    ///
    /// # Errors
    /// The status, if the call fails.
    pub async fn say(&mut self, call: Request<Note>) -> Called<Note> {
        self.ready().await?;
        let codec = ProstCodec::<Note, Note>::default();
        self.0.unary(call, PathAndQuery::from_static(SAY), codec).await
    }

    /// Sends a note, for a stream.
    ///
    /// # Errors
    /// The status, if the call fails.
    pub async fn repeat(&mut self, call: Request<Note>) -> Called<Streaming<Note>> {
        self.ready().await?;
        let codec = ProstCodec::<Note, Note>::default();
        self.0
            .server_streaming(call, PathAndQuery::from_static(REPEAT), codec)
            .await
    }

    /// Sends a stream, for a note.
    ///
    /// # Errors
    /// The status, if the call fails.
    pub async fn gather<S>(&mut self, call: Request<S>) -> Called<Note>
    where
        S: Stream<Item = Note> + Send + 'static,
    {
        self.ready().await?;
        let codec = ProstCodec::<Note, Note>::default();
        self.0
            .client_streaming(call, PathAndQuery::from_static(GATHER), codec)
            .await
    }

    /// Sends a stream, for a stream.
    ///
    /// # Errors
    /// The status, if the call fails.
    pub async fn converse<S>(&mut self, call: Request<S>) -> Called<Streaming<Note>>
    where
        S: Stream<Item = Note> + Send + 'static,
    {
        self.ready().await?;
        let codec = ProstCodec::<Note, Note>::default();
        self.0.streaming(call, PathAndQuery::from_static(CONVERSE), codec).await
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.0
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))
    }
}
