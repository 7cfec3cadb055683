//! Clients with a session each, which send requests until they are told to leave.

mod http;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use limpet_e2e::chaos::{Loss, Outcome, Protocol, Visit};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::connections::{Line, dial};

/// How long a client waits after each answer.
const PAUSE: Duration = Duration::from_millis(500);
/// How long it waits before it connects again where nobody listened.
const AGAIN: Duration = Duration::from_millis(100);
/// How often it does so.
const TRIES: usize = 100;

/// All clients.
#[derive(Debug)]
pub(crate) struct Clients {
    notes: Notes,
    leaving: Arc<AtomicBool>,
    running: JoinSet<Result<()>>,
}

/// What clients saw so far.
#[derive(Debug, Clone)]
struct Notes {
    begun: Instant,
    visits: Arc<Mutex<Vec<Visit>>>,
}

/// What all clients have in common.
#[derive(Debug)]
struct Client {
    number: usize,
    protocol: Protocol,
    address: SocketAddr,
    notes: Notes,
    leaving: Arc<AtomicBool>,
    token: Option<String>,
}

impl Clients {
    /// Starts `count` clients, which speak these protocols in turn.
    pub(crate) fn start(begun: Instant, count: usize, protocols: &[Protocol], address: SocketAddr) -> Self {
        let mut clients = Self {
            notes: Notes {
                begun,
                visits: Arc::default(),
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
                token: None,
            };
            // Their requests are spread over the pause.
            let at = PAUSE * u32::try_from(number % 64).unwrap_or_default() / 64;
            clients.running.spawn(async move {
                tokio::time::sleep(at).await;
                client.run().await
            });
        }
        clients
    }

    /// Ends all clients, each after the answer that it is waiting for. Returns what they saw.
    pub(crate) async fn leave(mut self) -> Result<Vec<Visit>> {
        self.leaving.store(true, Ordering::Relaxed);
        while let Some(ended) = self.running.join_next().await {
            ended??;
        }
        Ok(self.notes.taken())
    }

    /// The number of visits so far.
    pub(crate) fn visits(&self) -> usize {
        self.notes.visits.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Notes {
    fn taken(&self) -> Vec<Visit> {
        std::mem::take(&mut self.visits.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Client {
    async fn run(self) -> Result<()> {
        match self.protocol {
            Protocol::Http1 | Protocol::Http2 => http::run(self).await,
            Protocol::WebSocket | Protocol::Grpc => bail!("not yet"),
        }
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.notes.begun.elapsed()
    }

    fn note(&self, begun: Duration, outcome: Outcome) {
        let visit = Visit {
            client: self.number,
            protocol: self.protocol,
            begun,
            ended: self.now(),
            outcome,
        };
        self.notes
            .visits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(visit);
    }

    /// Connects. Where nobody listens, this is noted, and the client connects again.
    async fn connect(&self) -> Result<(Line, TcpStream)> {
        for _ in 0..TRIES {
            let begun = self.now();
            let (line, connected) = dial(self.address).await?;
            match connected {
                Ok(stream) => return Ok((line, stream)),
                Err(loss) => self.note(begun, Outcome::Refused(loss)),
            }
            tokio::time::sleep(AGAIN).await;
        }
        bail!("client {} is refused {TRIES} times", self.number)
    }

    fn failed(&self, begun: Duration, loss: Loss) {
        self.note(begun, Outcome::Failed(loss));
    }
}
