//! Backends: small HTTP servers. Each answer contains the backend's name and the request that the backend saw.

mod answering;
mod protocol;
mod respond;
mod seen;
mod sockets;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub use answering::Answering;
use protocol::Count;
pub use protocol::{Protocol, Reply, Tasks};
pub use seen::Seen;

use crate::poll;

/// Far more header bytes than Envoy lets through.
const HEADER_LIMIT: u32 = 256 * 1024;

/// How long a stopped backend waits for its clients.
const NOTICED: Duration = Duration::from_secs(3);

const FREE_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A running backend. It speaks HTTP/1.1 and HTTP/2 on the same port, and writes its name into `x-backend` of every
/// answer. It stops when the value is dropped. What it answers:
///
/// - `/healthz`: its health;
/// - `/echo`: the request's body, piece by piece, and its trailers;
/// - `/events`: an endless stream of server-sent events;
/// - anything else: the request as JSON.
///
/// If a request has `x-answer: NAME: VALUE`, the answer has that field. If it has `x-cut-after: N`, the answer is cut
/// off after N pieces.
#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    protocols: Vec<Arc<dyn Protocol>>,
    under_way: Count,
    behaviour: Mutex<Behaviour>,
    phase: watch::Sender<Phase>,
}

/// How far a backend is with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// It asks its clients to connect elsewhere.
    Leaving,
    /// It finishes what it has, and takes nothing new.
    Finishing,
}

impl Shared {
    fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Behaviour {
    usual: Answering,
    /// Answers for the next requests, used once each, before `usual`.
    next: VecDeque<Answering>,
    healthy: bool,
    requests: usize,
    last: Option<Value>,
}

impl Backend {
    /// Starts a backend on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(name: &str) -> Result<Self> {
        Self::start_at(name, FREE_PORT)
    }

    /// Starts a backend at this address; port 0 picks a free port.
    ///
    /// # Errors
    /// If the address is taken.
    pub fn start_at(name: &str, address: SocketAddr) -> Result<Self> {
        Self::start_speaking(name, address, &[])
    }

    /// Starts a backend at this address that also speaks these protocols.
    ///
    /// # Errors
    /// If the address is taken.
    pub fn start_speaking(name: &str, address: SocketAddr, protocols: &[Arc<dyn Protocol>]) -> Result<Self> {
        let mut backend = Self {
            address,
            shared: Arc::new(Shared {
                name: name.to_owned(),
                protocols: protocols.to_vec(),
                under_way: Count::default(),
                behaviour: Mutex::new(Behaviour {
                    usual: Answering::ok(),
                    next: VecDeque::new(),
                    healthy: true,
                    requests: 0,
                    last: None,
                }),
                phase: watch::Sender::new(Phase::Serving),
            }),
            server: None,
        };
        backend.listen()?;
        Ok(backend)
    }

    /// Starts backends a, b and c.
    ///
    /// # Errors
    /// If no ports are free.
    pub fn three() -> Result<[Self; 3]> {
        Self::three_speaking(&[])
    }

    /// Starts backends a, b and c, which also speak these protocols.
    ///
    /// # Errors
    /// If no ports are free.
    pub fn three_speaking(protocols: &[Arc<dyn Protocol>]) -> Result<[Self; 3]> {
        let start = |name| Self::start_speaking(name, FREE_PORT, protocols);
        Ok([start("a")?, start("b")?, start("c")?])
    }

    /// The backend's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The address that the backend listens at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes how the backend answers from now on.
    pub fn answer(&self, answering: Answering) {
        self.shared.behaviour().usual = answering;
    }

    /// Changes how the backend answers the next request only. Several calls queue up.
    pub fn answer_next(&self, answering: Answering) {
        self.shared.behaviour().next.push_back(answering);
    }

    /// Sets what the health check is told.
    pub fn set_healthy(&self, healthy: bool) {
        self.shared.behaviour().healthy = healthy;
    }

    /// The number of requests so far, without health checks.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.shared.behaviour().requests
    }

    /// The last request that was answered as JSON. Of a copy, nobody gets the answer.
    ///
    /// # Errors
    /// If there was none.
    pub fn last(&self) -> Result<Seen> {
        let last = self.shared.behaviour().last.clone();
        Seen::from_value(&last.with_context(|| format!("backend {} got no request", self.name()))?)
    }

    /// The number of unfinished answers and tasks (tunnels, for example).
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.shared.under_way.get()
    }

    /// Whether the backend listens.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Closes all connections, refuses new ones, and waits until clients have closed theirs, for some seconds at most:
    /// a proxy would otherwise send its next request into a connection that has ended, and answer 503.
    pub async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            // The task was aborted above: an error is expected.
            let _ = server.await;
            let closed = async || (!sockets::have_clients(self.address)).then_some(());
            // A client that never closes its connection is not waited for any longer.
            let _ = poll::until_within(NOTICED, "clients to close their connections", closed).await;
        }
    }

    /// Is not healthy any more, and asks its clients to use other connections: its answers over HTTP/1.1 say that
    /// theirs ends.
    pub fn leave(&self) {
        self.set_healthy(false);
        self.shared.phase.send_replace(Phase::Leaving);
    }

    /// Refuses new connections, and finishes the requests that it has. What is left after this time is broken off.
    pub async fn finish(&mut self, patience: Duration) {
        self.shared.phase.send_replace(Phase::Finishing);
        if let Some(server) = &mut self.server {
            // Whatever it is that has not ended is ended below.
            let _ = tokio::time::timeout(patience, server).await;
        }
        self.stop().await;
    }

    /// Listens again at the same address.
    ///
    /// # Errors
    /// If another process has taken the address.
    pub fn restart(&mut self) -> Result<()> {
        if self.server.is_some() {
            bail!("backend {} is already running", self.name());
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
            .with_context(|| format!("backend {} cannot listen at {}", self.name(), self.address))?;
        let listener = socket.listen(1024)?;
        self.address = listener.local_addr()?;
        self.shared.phase.send_replace(Phase::Serving);
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

/// Accepts connections until the task is aborted, or the backend finishes. The connections end with it.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        // Whoever has connected already is served, also at the end.
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = finishing(&shared) => break,
        };
        let Ok((stream, _)) = accepted else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let tasks = Tasks::new(&shared.under_way);
            let mut server = auto::Builder::new(TokioExecutor::new());
            server.http2().max_header_list_size(HEADER_LIMIT);
            let service = service_fn(|request| respond::respond(request, tasks.clone(), Arc::clone(&shared)));
            // The connection ends before the tasks of its streams, which see by its end that their client has gone.
            {
                let mut connection = pin!(server.serve_connection_with_upgrades(TokioIo::new(stream), service));
                // A client that disconnects is not an error.
                tokio::select! {
                    _ = connection.as_mut() => {}
                    () = finishing(&shared) => {
                        connection.as_mut().graceful_shutdown();
                        let _ = connection.await;
                    }
                }
            }
            tasks.finish().await;
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn finishing(shared: &Shared) {
    // It cannot fail: the sender is there.
    let _ = shared.phase.subscribe().wait_for(|is| *is == Phase::Finishing).await;
}
