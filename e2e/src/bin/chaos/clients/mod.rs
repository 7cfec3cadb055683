//! Clients with a session each, which send requests until the end.

mod grpc;
mod http;
mod websocket;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use limpet_e2e::chaos::{Loss, Outcome, Protocol, Visit};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::connections::{Connections, Line, dial};

/// A client's wait after each answer.
const PAUSE: Duration = Duration::from_millis(500);
/// The wait before another connection where nothing listened.
const AGAIN: Duration = Duration::from_millis(100);
const TRIES: usize = 100;

#[derive(Debug)]
pub(crate) struct Clients {
    connections: Connections,
    notes: Notes,
    leaving: Arc<AtomicBool>,
    running: JoinSet<Result<()>>,
}

#[derive(Debug, Clone)]
struct Notes {
    begun: Instant,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    visits: Vec<Visit>,
    /// Visits with a loss, and their connections.
    losses: Vec<(usize, Line)>,
}

#[derive(Debug, Clone)]
struct Client {
    number: usize,
    protocol: Protocol,
    address: SocketAddr,
    notes: Notes,
    leaving: Arc<AtomicBool>,
}

impl Clients {
    pub(crate) async fn start(
        begun: Instant,
        count: usize,
        protocols: &[Protocol],
        address: SocketAddr,
    ) -> Result<Self> {
        let mut clients = Self {
            connections: Connections::watch(begun, address).await?,
            notes: Notes {
                begun,
                kept: Arc::default(),
            },
            leaving: Arc::default(),
            running: JoinSet::new(),
        };
        for (number, protocol) in (0..count).zip(protocols.iter().cycle()) {
            let client = Client {
                number,
                protocol: *protocol,
                address,
                notes: clients.notes.clone(),
                leaving: Arc::clone(&clients.leaving),
            };
            // Spreads requests over the pause.
            let at = PAUSE * u32::try_from(number % 64).unwrap_or_default() / 64;
            clients.running.spawn(async move {
                tokio::time::sleep(at).await;
                client.run().await
            });
        }
        Ok(clients)
    }

    /// Ends all clients, each after its present answer.
    pub(crate) async fn leave(mut self) -> Result<Vec<Visit>> {
        self.leaving.store(true, Ordering::Relaxed);
        while let Some(ended) = self.running.join_next().await {
            ended??;
        }
        self.notes.taken(&mut self.connections)
    }
}

impl Notes {
    fn taken(&self, connections: &mut Connections) -> Result<Vec<Visit>> {
        let kept = std::mem::take(&mut *self.lock());
        let mut visits = kept.visits;
        let (lost, lines): (Vec<usize>, Vec<Line>) = kept.losses.into_iter().unzip();
        for (index, envoy) in lost.into_iter().zip(connections.envoys(lines.into_iter())?) {
            let outcome = visits.get_mut(index).map(|visit| &mut visit.outcome);
            if let Some(Outcome::Failed(loss) | Outcome::Ended(loss)) = outcome {
                loss.envoy = envoy;
            }
        }
        Ok(visits)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    async fn run(self) -> Result<()> {
        match self.protocol {
            Protocol::Http1 | Protocol::Http2 => http::run(self).await,
            Protocol::WebSocket => websocket::run(self).await,
            Protocol::Grpc => grpc::run(self).await,
        }
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.notes.begun.elapsed()
    }

    fn note(&self, begun: Duration, line: Option<&Line>, outcome: Outcome) {
        let visit = Visit {
            client: self.number,
            protocol: self.protocol,
            begun,
            ended: self.now(),
            outcome,
        };
        let mut kept = self.notes.lock();
        let index = kept.visits.len();
        kept.visits.push(visit);
        if let Some(line) = line {
            kept.losses.push((index, line.clone()));
        }
    }

    async fn connect(&self) -> Result<(Line, TcpStream)> {
        for _ in 0..TRIES {
            let begun = self.now();
            match dial(self.address, self.notes.begun).await? {
                Ok(connected) => return Ok(connected),
                Err(reason) => self.note(begun, None, Outcome::Refused(lost(None, reason))),
            }
            tokio::time::sleep(AGAIN).await;
        }
        bail!("client {} is refused {TRIES} times", self.number)
    }

    /// Whether it is in its protocol's second half: clients take the protocols in turn.
    fn is_second(&self) -> bool {
        !(self.number / Protocol::ALL.len()).is_multiple_of(2)
    }

    fn answered(&self, begun: Duration, backend: &str, has_token: bool) {
        let backend = backend.to_owned();
        self.note(begun, None, Outcome::Answered { backend, has_token });
    }

    fn failed<'a>(&self, begun: Duration, line: impl Into<Option<&'a Line>>, reason: impl fmt::Display) {
        let line = line.into();
        self.note(begun, line, Outcome::Failed(lost(line, reason)));
    }

    fn ended<'a>(&self, begun: Duration, line: impl Into<Option<&'a Line>>, reason: impl fmt::Display) {
        let line = line.into();
        self.note(begun, line, Outcome::Ended(lost(line, reason)));
    }
}

fn lost(line: Option<&Line>, reason: impl fmt::Display) -> Loss {
    Loss {
        reason: reason.to_string(),
        opening: line.map(|line| line.opening).unwrap_or_default(),
        envoy: None,
    }
}
