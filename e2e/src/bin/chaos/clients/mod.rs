//! Clients with a session each, which send requests until they are told to leave.

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

use crate::connections::{Line, dial, find_envoys};

/// How long a client waits after each answer.
const PAUSE: Duration = Duration::from_millis(500);
/// How long it waits before it connects again where nobody listened.
const AGAIN: Duration = Duration::from_millis(100);
/// How often it does so.
const TRIES: usize = 100;

/// How often the kernel is asked where connections lead.
const SEARCH: Duration = Duration::from_millis(300);
/// How often a connection is looked for in vain.
const SEARCHES: usize = 10;

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
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    visits: Vec<Visit>,
    /// The visits that something was lost in, and their connections.
    losses: Vec<(usize, Line)>,
    /// Connections of which it is not known yet where they lead, and how often they were looked for in vain: whoever
    /// reads the kernel's table while it changes may miss lines.
    unknown: Vec<(Line, usize)>,
}

/// What all clients have in common.
#[derive(Debug, Clone)]
struct Client {
    number: usize,
    protocol: Protocol,
    address: SocketAddr,
    notes: Notes,
    leaving: Arc<AtomicBool>,
}

impl Clients {
    /// Starts `count` clients, which speak these protocols in turn.
    pub(crate) fn start(begun: Instant, count: usize, protocols: &[Protocol], address: SocketAddr) -> Self {
        let mut clients = Self {
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
            // Their requests are spread over the pause.
            let at = PAUSE * u32::try_from(number % 64).unwrap_or_default() / 64;
            clients.running.spawn(async move {
                tokio::time::sleep(at).await;
                client.run().await
            });
        }
        tokio::spawn(clients.notes.clone().find_envoys());
        clients
    }

    /// Ends all clients, each after the answer that it is waiting for. Returns what they saw.
    pub(crate) async fn leave(mut self) -> Result<Vec<Visit>> {
        self.leaving.store(true, Ordering::Relaxed);
        while let Some(ended) = self.running.join_next().await {
            ended??;
        }
        // The last connections.
        tokio::time::sleep(SEARCH * 4).await;
        Ok(self.notes.taken())
    }
}

impl Notes {
    /// Finds out where connections lead, before they end: the kernel forgets those of a pod with it.
    async fn find_envoys(self) {
        loop {
            tokio::time::sleep(SEARCH).await;
            let unknown = std::mem::take(&mut self.lock().unknown);
            if unknown.is_empty() {
                continue;
            }
            let searched = tokio::task::spawn_blocking(move || {
                find_envoys(unknown.iter().map(|(line, _)| line));
                unknown
            });
            let searched = searched.await.unwrap_or_default().into_iter();
            let again = searched.filter(|(line, searches)| line.envoy().is_none() && *searches < SEARCHES);
            self.lock()
                .unknown
                .extend(again.map(|(line, searches)| (line, searches + 1)));
        }
    }

    /// All visits, with what is known of their connections.
    fn taken(&self) -> Vec<Visit> {
        let kept = std::mem::take(&mut *self.lock());
        let mut visits = kept.visits;
        for (index, line) in kept.losses {
            let outcome = visits.get_mut(index).map(|visit| &mut visit.outcome);
            if let Some(Outcome::Failed(loss) | Outcome::Ended(loss)) = outcome {
                loss.envoy = line.envoy();
            }
        }
        visits
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
            // What the kernel says at the end counts more than what it said at the begin.
            kept.unknown.push((line.clone(), 0));
            kept.losses.push((index, line.clone()));
        }
    }

    /// Connects. Where nobody listens, this is noted, and the client connects again.
    async fn connect(&self) -> Result<(Line, TcpStream)> {
        for _ in 0..TRIES {
            let begun = self.now();
            match dial(self.address, self.notes.begun).await? {
                Ok((line, stream)) => {
                    self.notes.lock().unknown.push((line.clone(), 0));
                    return Ok((line, stream));
                }
                Err(reason) => self.note(begun, None, Outcome::Refused(lost(None, reason))),
            }
            tokio::time::sleep(AGAIN).await;
        }
        bail!("client {} is refused {TRIES} times", self.number)
    }

    /// Whether it is one of the half of its protocol that differs from the other: clients take the protocols in turn.
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
