//! A crowd: clients with a session each who come by again and again, while a test changes something under their feet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::{Answer, Carrier, Connection, Request, poll};

/// How long a client waits after each answer. Load, but such as leaves something of two cores to the tests beside this one.
const PAUSE: Duration = Duration::from_millis(20);

/// Clients who come by until they are told to leave. A third of them each keep a connection over HTTP/1.1, keep one over HTTP/2, and connect
/// anew for every request. Nobody asks a second time where a request fails.
#[derive(Debug)]
pub struct Crowd {
    journeys: Vec<Arc<Mutex<Journey>>>,
    leaving: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

impl Crowd {
    /// This many clients, as many with each of these carriers, who come by these addresses in turn. Each has been answered once, whatever the
    /// answer was.
    ///
    /// # Errors
    /// When there is no answer for somebody.
    pub async fn gather(size: usize, carriers: &[Carrier], addresses: &[SocketAddr]) -> Result<Self> {
        let mut crowd = Self {
            journeys: Vec::new(),
            leaving: Arc::default(),
            clients: JoinSet::new(),
        };
        crowd.grow(size, carriers, addresses).await?;
        Ok(crowd)
    }

    /// This many clients more.
    ///
    /// # Errors
    /// When there is no answer for somebody.
    pub async fn grow(&mut self, size: usize, carriers: &[Carrier], addresses: &[SocketAddr]) -> Result<()> {
        for number in 0..size {
            let client = Client {
                carrier: carriers[number % carriers.len()],
                manner: [Manner::Http1, Manner::Http2, Manner::ConnectsAnew][number % 3],
                connections: BTreeMap::new(),
                token: None,
                journey: Arc::default(),
            };
            self.journeys.push(Arc::clone(&client.journey));
            // Sessions of every kind begin at every address.
            let turns = addresses.iter().copied().cycle().skip(number / 6).take(addresses.len());
            let wandering = client.wander(turns.collect(), Arc::clone(&self.leaving));
            self.clients.spawn(wandering);
        }
        self.rounds(1).await
    }

    /// Waits until everybody has come by this many times from now on.
    ///
    /// # Errors
    /// When somebody does not.
    pub async fn rounds(&self, count: usize) -> Result<()> {
        let now = Instant::now();
        let been_here = |journey: &Arc<Mutex<Journey>>| {
            let journey = lock(journey);
            journey
                .visits
                .iter()
                .rev()
                .take_while(|visit| visit.begun >= now)
                .count()
                >= count
        };
        poll::until("everybody to come by", async || {
            self.journeys.iter().all(been_here).then_some(())
        })
        .await
    }

    /// Everybody goes, once the answer that they wait for is there.
    pub async fn leave(mut self) -> Journeys {
        self.leaving.store(true, Ordering::Relaxed);
        while self.clients.join_next().await.is_some() {}
        Journeys(
            self.journeys
                .iter()
                .map(|journey| std::mem::take(&mut *lock(journey)))
                .collect(),
        )
    }
}

/// What a crowd has seen, client by client.
#[derive(Debug)]
pub struct Journeys(pub Vec<Journey>);

impl Journeys {
    /// Every request was answered 200 by a backend.
    ///
    /// # Errors
    /// When one was not; the message says how many and what they got.
    pub fn none_failed(&self) -> Result<()> {
        let visits = || self.0.iter().flat_map(|journey| &journey.visits);
        let failures: Vec<_> = visits().filter_map(Visit::failure).collect();
        ensure!(
            failures.is_empty(),
            "{} of {} requests failed: {:#?}",
            failures.len(),
            visits().count(),
            failures.iter().take(5).collect::<Vec<_>>()
        );
        Ok(())
    }

    /// Every session stayed where it began, under its first token. Requests that failed do not count.
    ///
    /// # Errors
    /// When one did not.
    pub fn none_moved(&self) -> Result<()> {
        for journey in &self.0 {
            let moves = journey.moves();
            ensure!(moves.is_empty(), "a session moved: {:#?}", &moves[..1]);
            let tokens = journey.tokens();
            ensure!(
                tokens.len() == 1,
                "a session had {} tokens: {:#?}",
                tokens.len(),
                tokens.last()
            );
        }
        Ok(())
    }
}

/// What a client has seen.
#[derive(Debug, Default)]
pub struct Journey {
    /// In their order.
    pub visits: Vec<Visit>,
}

impl Journey {
    /// The visits whose answer was another backend's than that of the answer before, with the former backend's name.
    #[must_use]
    pub fn moves(&self) -> Vec<(&str, &Visit)> {
        let answered: Vec<_> = self
            .visits
            .iter()
            .filter_map(|visit| Some((visit.backend()?, visit)))
            .collect();
        let pairs = answered.iter().zip(answered.iter().skip(1));
        pairs
            .filter(|(before, after)| before.0 != after.0)
            .map(|(before, after)| (before.0, after.1))
            .collect()
    }

    /// The visits that brought a token.
    #[must_use]
    pub fn tokens(&self) -> Vec<&Visit> {
        self.visits.iter().filter(|visit| visit.token.is_some()).collect()
    }
}

/// A request of a client, and what became of it.
#[derive(Debug)]
pub struct Visit {
    /// Where it was sent.
    pub address: SocketAddr,
    /// When it was sent.
    pub begun: Instant,
    /// When its answer was there.
    pub ended: Instant,
    /// The status, and the backend's name if it was a backend's; or why there was no answer.
    pub answer: Result<(u16, Option<String>), String>,
    /// The token that came with the answer.
    pub token: Option<String>,
}

impl Visit {
    /// The backend that answered.
    #[must_use]
    pub fn backend(&self) -> Option<&str> {
        self.answer.as_ref().ok()?.1.as_deref()
    }

    /// Why the request failed, if it did.
    fn failure(&self) -> Option<String> {
        match &self.answer {
            Ok((200, Some(_))) => None,
            Ok((status, _)) => Some(format!("{status} from {}", self.address)),
            Err(problem) => Some(format!("{}: {problem}", self.address)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Http1,
    Http2,
    ConnectsAnew,
}

#[derive(Debug)]
struct Client {
    carrier: Carrier,
    manner: Manner,
    connections: BTreeMap<SocketAddr, Connection>,
    token: Option<String>,
    journey: Arc<Mutex<Journey>>,
}

impl Client {
    async fn wander(mut self, addresses: Vec<SocketAddr>, leaving: Arc<AtomicBool>) {
        for address in addresses.into_iter().cycle() {
            if leaving.load(Ordering::Relaxed) {
                return;
            }
            let begun = Instant::now();
            let answer = self.visit(address).await;
            let token = answer.as_ref().ok().and_then(|answer| self.carrier.token(answer));
            if token.is_some() {
                self.token.clone_from(&token);
            }
            let answer = answer.map(|answer| (answer.status, answer.backend().map(str::to_owned)));
            lock(&self.journey).visits.push(Visit {
                address,
                begun,
                ended: Instant::now(),
                answer: answer.map_err(|error| format!("{:?}: {error:#}", self.manner)),
                token,
            });
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn visit(&mut self, address: SocketAddr) -> Result<Answer> {
        let mut request = Request::get(address, &self.carrier.path());
        if self.manner == Manner::Http2 {
            request = request.http2();
        }
        if let Some(token) = &self.token {
            request = self.carrier.bring(token, request);
        }
        if self.manner == Manner::ConnectsAnew {
            return request.send().await;
        }
        let mut kept = self.connections.remove(&address);
        if let Some(connection) = &mut kept
            && !connection.is_open().await
        {
            kept = None;
        }
        let mut connection = match kept {
            Some(connection) => connection,
            None => Connection::open(address, self.manner == Manner::Http2).await?,
        };
        let answer = connection.send(request).await;
        if answer.is_ok() {
            self.connections.insert(address, connection);
        }
        answer
    }
}

fn lock(journey: &Mutex<Journey>) -> MutexGuard<'_, Journey> {
    journey.lock().unwrap_or_else(PoisonError::into_inner)
}
