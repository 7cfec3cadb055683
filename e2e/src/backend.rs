//! Backends: small HTTP servers that answer with their own name and with the request they saw.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};

/// Room for headers far beyond what Envoy lets through.
const HEADER_LIMIT: u32 = 256 * 1024;

/// How a backend answers.
#[derive(Debug, Clone)]
pub struct Answering {
    status: u16,
    headers: Vec<(String, String)>,
    delay: Duration,
    hang_up: bool,
}

impl Answering {
    /// With this status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            delay: Duration::ZERO,
            hang_up: false,
        }
    }

    /// With 200.
    #[must_use]
    pub fn ok() -> Self {
        Self::status(200)
    }

    /// Not at all: the connection is closed once the request is there.
    #[must_use]
    pub fn hanging_up() -> Self {
        Self {
            hang_up: true,
            ..Self::ok()
        }
    }

    /// With one header more.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// After a while.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// A request as a backend saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// The request's path.
    pub path: String,
    /// Names and values; values are bytes, read as Latin-1. Fields of one name are in their order.
    pub headers: Vec<(String, String)>,
}

impl Seen {
    /// All values of one header.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The request's cookies: its Cookie fields, joined as RFC 6265 has them.
    #[must_use]
    pub fn cookies(&self) -> Option<String> {
        let fields = self.all("cookie");
        (!fields.is_empty()).then(|| fields.join("; "))
    }

    /// The header names that begin with `x-limpet`.
    #[must_use]
    pub fn internal_headers(&self) -> Vec<&str> {
        self.headers
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| name.starts_with("x-limpet"))
            .collect()
    }

    /// From what a backend answered with.
    pub(crate) fn from_json(body: &[u8]) -> Result<Self> {
        let body: Value = serde_json::from_slice(body).context("this is not the answer of a backend")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let headers = body["headers"]
            .as_array()
            .context("a backend's answer without headers")?;
        Ok(Self {
            version: text(&body["version"]),
            path: text(&body["path"]),
            headers: headers.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        })
    }
}

/// A running backend. It speaks HTTP/1.1 and HTTP/2 on the same port, answers `/healthz` by its health, and anything else with its
/// name in `x-backend` and the request as JSON. It ends with its value.
#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    behaviour: Mutex<Behaviour>,
}

impl Shared {
    fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Behaviour {
    usual: Answering,
    /// Answered with first, once each.
    next: VecDeque<Answering>,
    healthy: bool,
    requests: usize,
}

impl Backend {
    /// A backend on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn start(name: &str) -> Result<Self> {
        Self::start_at(name, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    /// A backend at this address; port 0 is a free one.
    ///
    /// # Errors
    /// When the address can not be had.
    pub fn start_at(name: &str, address: SocketAddr) -> Result<Self> {
        let mut backend = Self {
            address,
            shared: Arc::new(Shared {
                name: name.to_owned(),
                behaviour: Mutex::new(Behaviour {
                    usual: Answering::ok(),
                    next: VecDeque::new(),
                    healthy: true,
                    requests: 0,
                }),
            }),
            server: None,
        };
        backend.listen()?;
        Ok(backend)
    }

    /// Backends a, b and c.
    ///
    /// # Errors
    /// When no ports can be had.
    pub fn three() -> Result<[Self; 3]> {
        Ok([Self::start("a")?, Self::start("b")?, Self::start("c")?])
    }

    /// The backend's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Where the backend listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on.
    pub fn answer(&self, answering: Answering) {
        self.shared.behaviour().usual = answering;
    }

    /// The next request only; several calls queue up.
    pub fn answer_next(&self, answering: Answering) {
        self.shared.behaviour().next.push_back(answering);
    }

    /// What the health check is told.
    pub fn set_healthy(&self, healthy: bool) {
        self.shared.behaviour().healthy = healthy;
    }

    /// How many requests have come in, health checks apart.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.shared.behaviour().requests
    }

    /// Whether it listens.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Closes all connections and refuses new ones.
    pub async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            // Cancelled is what it is meant to be.
            let _ = server.await;
        }
    }

    /// Listens again, at the same address.
    ///
    /// # Errors
    /// When another process took the address meanwhile.
    pub fn restart(&mut self) -> Result<()> {
        if self.server.is_some() {
            bail!("backend {} runs already", self.name());
        }
        self.listen()
    }

    fn listen(&mut self) -> Result<()> {
        let socket = if self.address.is_ipv6() {
            TcpSocket::new_v6()
        } else {
            TcpSocket::new_v4()
        }?;
        socket.set_reuseaddr(true)?;
        socket
            .bind(self.address)
            .with_context(|| format!("backend {} can not listen at {}", self.name(), self.address))?;
        let listener = socket.listen(1024)?;
        self.address = listener.local_addr()?;
        self.server = Some(tokio::spawn(serve(listener, Arc::clone(&self.shared))));
        Ok(())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

/// Accepts until it is aborted; its connections end with it.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let mut server = auto::Builder::new(TokioExecutor::new());
            server.http2().max_header_list_size(HEADER_LIMIT);
            let service = service_fn(|request| respond(request, Arc::clone(&shared)));
            // A client that goes away is no concern of ours.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Full<Bytes>>> {
    let answering = {
        let mut behaviour = shared.behaviour();
        if request.uri().path() == "/healthz" {
            Answering::status(if behaviour.healthy { 200 } else { 503 })
        } else {
            behaviour.requests += 1;
            behaviour.next.pop_front().unwrap_or_else(|| behaviour.usual.clone())
        }
    };
    tokio::time::sleep(answering.delay).await;
    if answering.hang_up {
        bail!("hanging up");
    }
    let body = json!({
        "backend": shared.name,
        "version": format!("{:?}", request.version()),
        "path": request.uri().path(),
        "headers": headers_as_text(request.headers()),
    });
    let mut response = Response::builder()
        .status(answering.status)
        .header("x-backend", &shared.name);
    for (name, value) in &answering.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::from(format!("{body}\n")))?)
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
