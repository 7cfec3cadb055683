//! Backends: small HTTP servers, whose answers contain their name and the request.

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

/// More header bytes than Envoy lets through.
const HEADER_LIMIT: u32 = 256 * 1024;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Asks its clients to connect elsewhere.
    Leaving,
    /// Finishes its requests and takes no new ones.
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
    /// Answers for the next requests, before `usual`.
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

    /// As [`Backend::start_at`], with these further protocols.
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

    /// As [`Backend::three`], with these further protocols.
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

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets how the backend answers from now on.
    pub fn answer(&self, answering: Answering) {
        self.shared.behaviour().usual = answering;
    }

    /// Sets how the backend answers the next request only; several calls queue up.
    pub fn answer_next(&self, answering: Answering) {
        self.shared.behaviour().next.push_back(answering);
    }

    /// Sets the health that `/healthz` reports.
    pub fn set_healthy(&self, healthy: bool) {
        self.shared.behaviour().healthy = healthy;
    }

    /// The number of requests, without health checks.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.shared.behaviour().requests
    }

    /// The last request answered as JSON, also a mirrored copy, whose answer no client gets.
    ///
    /// # Errors
    /// If there was none.
    pub fn last(&self) -> Result<Seen> {
        let last = self.shared.behaviour().last.clone();
        Seen::from_value(&last.with_context(|| format!("backend {} got no request", self.name()))?)
    }

    /// The number of unfinished answers and tasks, such as tunnels.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.shared.under_way.get()
    }

    /// Whether the backend listens.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Closes all connections, refuses new ones, and waits some seconds for clients to close theirs: a proxy would
    /// otherwise send into an ended connection and answer 503.
    pub async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
            let closed = async || (!sockets::have_clients(self.address)).then_some(());
            let _ = poll::until_within(NOTICED, "clients to close their connections", closed).await;
        }
    }

    /// Becomes unhealthy and closes HTTP/1.1 connections with its answers.
    pub fn leave(&self) {
        self.set_healthy(false);
        self.shared.phase.send_replace(Phase::Leaving);
    }

    /// Refuses new connections, finishes its requests, and breaks off what is left after `patience`.
    pub async fn finish(&mut self, patience: Duration) {
        self.shared.phase.send_replace(Phase::Finishing);
        if let Some(server) = &mut self.server {
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

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        // Clients that have connected are served, also at the end.
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
            // The connection ends before its streams' tasks, which notice by its end that their client has gone.
            {
                let mut connection = pin!(server.serve_connection_with_upgrades(TokioIo::new(stream), service));
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
    // It cannot fail: the sender exists.
    let _ = shared.phase.subscribe().wait_for(|is| *is == Phase::Finishing).await;
}
