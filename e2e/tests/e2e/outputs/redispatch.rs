//! As with HAProxy's `option redispatch`, another backend gets a session's request if no backend can have acted on it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use limpet_e2e::{Answer, Answering, Backend, Config, Envoy, Request};
use limpet_model::Graph;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::graph::{Cluster, ClusterName, Protocol};
use limpet_outputs::envoy::{load_assignment, static_bootstrap};
use limpet_outputs::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::graphs::{graph, to, with_session};

fn sessions(protocol: Protocol) -> Graph {
    let mut graph = graph(vec![
        with_session("/strict", "strict", vec![to("v1", 1)]),
        with_session("", "web", vec![to("v1", 1)]),
    ]);
    let speaking = |(name, cluster): (_, Arc<Cluster>)| {
        let cluster = Cluster::clone(&cluster);
        (name, Arc::new(Cluster { protocol, ..cluster }))
    };
    graph.clusters = graph.clusters.into_iter().map(speaking).collect();
    graph
}

async fn start(protocol: Protocol, addresses: [SocketAddr; 2]) -> Result<Envoy> {
    let mut all = super::all(&sessions(protocol), &[])?;
    let endpoints = addresses.map(|address| Endpoint {
        address,
        state: EndpointState::Ready,
        owner: None,
        pod: None,
    });
    all.push(load_assignment(&ClusterName("v1".into()), &endpoints));
    let config = Config::made(json::typed(&static_bootstrap(&all, 0)?)?);
    Envoy::serve(config).await
}

fn post(envoy: &Envoy, path: &str) -> Result<Request> {
    let request = Request::get(envoy.listener("http-80")?, path);
    Ok(request.method(Method::POST).body("a body"))
}

fn cookie(answer: &Answer) -> Result<String> {
    let cookie = answer.set_cookies().into_iter().next().context("no token")?;
    Ok(format!("{}={}", cookie.name, cookie.value))
}

#[tokio::test]
async fn a_session_whose_backend_refuses_goes_on_in_the_same_request() -> Result<()> {
    for protocol in [Protocol::Http1, Protocol::H2c] {
        let [mut gone, left] = [Backend::start("gone")?, Backend::start("left")?];
        let envoy = start(protocol, [gone.address(), left.address()]).await?;
        let begin = async |path| loop {
            let first = post(&envoy, path)?.send().await?;
            if first.backend() == Some("gone") {
                return cookie(&first);
            }
        };
        let (token, strict) = (begin("/").await?, begin("/strict").await?);
        gone.stop().await;
        for method in [Method::POST, Method::GET, Method::PUT] {
            let again = post(&envoy, "/")?.method(method.clone()).cookie(&token).send().await?;
            ensure!(
                again.status == 200 && again.backend() == Some("left"),
                "{method}: {again:?}"
            );
            ensure!(cookie(&again)? != token, "{method}: no new token");
        }
        let grpc = post(&envoy, "/")?
            .http2()
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let grpc = grpc.cookie(&token).send().await?;
        ensure!(grpc.status == 200 && grpc.backend() == Some("left"), "{grpc:?}");
        let before = left.requests();
        let strict = post(&envoy, "/strict")?.cookie(&strict).send().await?;
        ensure!(
            strict.status == 503 && left.requests() == before,
            "{protocol:?}: {strict:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_request_that_a_backend_has_read_is_not_sent_again() -> Result<()> {
    for protocol in [Protocol::Http1, Protocol::H2c] {
        let backends = [Backend::start("a")?, Backend::start("b")?];
        let envoy = start(protocol, [backends[0].address(), backends[1].address()]).await?;
        let first = post(&envoy, "/")?.send().await?;
        let token = cookie(&first)?;
        for backend in &backends {
            backend.answer(Answering::hanging_up());
        }
        let before: usize = backends.iter().map(Backend::requests).sum();
        for method in [Method::POST, Method::GET] {
            let answer = post(&envoy, "/")?.method(method).cookie(&token).send().await?;
            ensure!(answer.status == 503, "{protocol:?}: {answer:?}");
        }
        let requests: usize = backends.iter().map(Backend::requests).sum();
        ensure!(requests == before + 2, "{protocol:?}: {} tries", requests - before);
    }
    Ok(())
}

/// An HTTP/2 server that answers 200 without a body, or resets the stream.
#[derive(Debug, Default)]
struct Streams {
    /// The error code of resets; 0 for an answer.
    code: AtomicU32,
    requests: AtomicUsize,
}

const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap_or(u8::MAX);
    [&[0, 0, length, kind, flags], stream.as_slice(), payload].concat()
}

impl Streams {
    async fn start() -> Result<(Arc<Self>, SocketAddr)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::<Self>::default();
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        Ok((shared, address))
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) -> Result<()> {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await?;
        stream.write_all(&frame(SETTINGS, 0, [0; 4], &[])).await?;
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await?;
            let [_, high, low, kind, flags, id @ ..] = head;
            let mut payload = vec![0; usize::from(u16::from_be_bytes([high, low]))];
            stream.read_exact(&mut payload).await?;
            let answer = match (kind, self.code.load(Ordering::Relaxed)) {
                (SETTINGS, _) if flags == 0 => frame(SETTINGS, 1, [0; 4], &[]),
                (HEADERS, code) => {
                    self.requests.fetch_add(1, Ordering::Relaxed);
                    if code == 0 {
                        // The end of the stream and of the headers; `:status: 200` in HPACK.
                        frame(HEADERS, 5, id, &[0x88])
                    } else {
                        frame(RST_STREAM, 0, id, &code.to_be_bytes())
                    }
                }
                _ => continue,
            };
            stream.write_all(&answer).await?;
        }
    }
}

#[tokio::test]
async fn a_refused_stream_goes_to_another_backend_and_no_other_reset() -> Result<()> {
    let (streams, address) = Streams::start().await?;
    let left = Backend::start("left")?;
    let envoy = start(Protocol::H2c, [address, left.address()]).await?;
    let token = loop {
        let first = post(&envoy, "/")?.send().await?;
        if first.status == 200 && first.backend().is_none() {
            break cookie(&first)?;
        }
    };
    streams.code.store(REFUSED_STREAM, Ordering::Relaxed);
    for _ in 0..5 {
        let again = post(&envoy, "/")?.cookie(&token).send().await?;
        ensure!(again.status == 200 && again.backend() == Some("left"), "{again:?}");
        ensure!(cookie(&again)? != token, "no new token: {again:?}");
    }
    streams.code.store(INTERNAL_ERROR, Ordering::Relaxed);
    let (before, read) = (left.requests(), streams.requests.load(Ordering::Relaxed));
    let reset = post(&envoy, "/")?.cookie(&token).send().await?;
    ensure!(reset.status == 503 && left.requests() == before, "{reset:?}");
    assert_eq!(streams.requests.load(Ordering::Relaxed), read + 1);
    Ok(())
}
