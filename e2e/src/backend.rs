//! Backends: small HTTP servers that answer with their own name and with the request they saw.

mod answering;
mod protocol;
mod respond;
mod seen;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};

pub use answering::Answering;
use protocol::Count;
pub use protocol::{Protocol, Reply, Tasks};
pub use seen::Seen;

/// Room for headers far beyond what Envoy lets through.
const HEADER_LIMIT: u32 = 256 * 1024;

const FREE_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A running backend. It speaks HTTP/1.1 and HTTP/2 on the same port and names itself in the `x-backend` of every answer. It ends with its
/// value. What it answers:
///
/// - `/healthz` by its health;
/// - `/echo` with the request's body, piece by piece, and its trailers;
/// - `/events` with server-sent events without end;
/// - anything else with the request as JSON.
///
/// A request with `x-answer: NAME: VALUE` has that field in its answer. One with `x-cut-after: N` has its answer cut off in place of the
/// piece that follows so many.
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
        Self::start_at(name, FREE_PORT)
    }

    /// A backend at this address; port 0 is a free one.
    ///
    /// # Errors
    /// When the address can not be had.
    pub fn start_at(name: &str, address: SocketAddr) -> Result<Self> {
        Self::start_speaking(name, address, &[])
    }

    /// A backend at this address that speaks these protocols too.
    ///
    /// # Errors
    /// When the address can not be had.
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
        Self::three_speaking(&[])
    }

    /// Backends a, b and c, which speak these protocols too.
    ///
    /// # Errors
    /// When no ports can be had.
    pub fn three_speaking(protocols: &[Arc<dyn Protocol>]) -> Result<[Self; 3]> {
        let start = |name| Self::start_speaking(name, FREE_PORT, protocols);
        Ok([start("a")?, start("b")?, start("c")?])
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

    /// How much it is doing at the moment: answers that have not ended, tunnels and the like.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.shared.under_way.get()
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
            let tasks = Tasks::new(&shared.under_way);
            let mut server = auto::Builder::new(TokioExecutor::new());
            server.http2().max_header_list_size(HEADER_LIMIT);
            let service = service_fn(|request| respond::respond(request, tasks.clone(), Arc::clone(&shared)));
            // A client that goes away is no concern of ours.
            let _ = server
                .serve_connection_with_upgrades(TokioIo::new(stream), service)
                .await;
            tasks.finish().await;
        });
    }
}
