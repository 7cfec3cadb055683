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

use crate::connections::{Line, dial, envoys};

/// How long a client waits after each answer.
const PAUSE: Duration = Duration::from_millis(500);
/// How long it waits before it connects again where nobody listened.
const AGAIN: Duration = Duration::from_millis(100);
/// How often it does so.
const TRIES: usize = 100;

/// How often a connection is looked for in vain.
const SEARCHES: usize = 50;

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
    /// The visits whose Envoy is not known yet, and their connections.
    unknown: Vec<Unknown>,
}

#[derive(Debug)]
struct Unknown {
    visit: usize,
    line: Line,
    /// How often it was looked for in vain: whoever reads the kernel's table while it changes may miss lines.
    searches: usize,
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
        // The last losses.
        tokio::time::sleep(AGAIN * 10).await;
        Ok(std::mem::take(&mut self.notes.lock().visits))
    }
}

impl Notes {
    /// Finds out where the connections of losses led, before the kernel forgets it.
    async fn find_envoys(self) {
        loop {
            tokio::time::sleep(AGAIN).await;
            let unknown = std::mem::take(&mut self.lock().unknown);
            if unknown.is_empty() {
                continue;
            }
            let lines: Vec<_> = unknown.iter().map(|unknown| unknown.line).collect();
            let found = tokio::task::spawn_blocking(move || envoys(&lines)).await;
            let mut kept = self.lock();
            for (unknown, envoy) in unknown.into_iter().zip(found.unwrap_or_default()) {
                let visit = kept.visits.get_mut(unknown.visit).map(|visit| &mut visit.outcome);
                if let (Some(Outcome::Failed(loss) | Outcome::Ended(loss)), Some(_)) = (visit, envoy) {
                    loss.envoy = envoy;
                } else if unknown.searches < SEARCHES {
                    let searches = unknown.searches + 1;
                    kept.unknown.push(Unknown { searches, ..unknown });
                }
            }
        }
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

    fn note(&self, begun: Duration, line: Option<Line>, outcome: Outcome) {
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
        kept.unknown.extend(line.map(|line| Unknown {
            visit: index,
            line,
            searches: 0,
        }));
    }

    /// Connects. Where nobody listens, this is noted, and the client connects again.
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

    /// Whether it is one of the half of its protocol that differs from the other: clients take the protocols in turn.
    fn is_second(&self) -> bool {
        !(self.number / Protocol::ALL.len()).is_multiple_of(2)
    }

    fn answered(&self, begun: Duration, backend: &str, has_token: bool) {
        let backend = backend.to_owned();
        self.note(begun, None, Outcome::Answered { backend, has_token });
    }

    fn failed(&self, begun: Duration, line: impl Into<Option<Line>>, reason: impl fmt::Display) {
        let line = line.into();
        self.note(begun, line, Outcome::Failed(lost(line, reason)));
    }

    fn ended(&self, begun: Duration, line: impl Into<Option<Line>>, reason: impl fmt::Display) {
        let line = line.into();
        self.note(begun, line, Outcome::Ended(lost(line, reason)));
    }
}

fn lost(line: Option<Line>, reason: impl fmt::Display) -> Loss {
    Loss {
        reason: reason.to_string(),
        opening: line.map(|line| line.opening).unwrap_or_default(),
        envoy: None,
    }
}
