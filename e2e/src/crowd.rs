//! Clients with a session each that send requests while a test changes the configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::{Answer, Carrier, Connection, Request, poll};

/// The pause after each answer, which leaves CPU time to other tests.
const PAUSE: Duration = Duration::from_millis(20);

/// Clients that send requests until [`Crowd::leave`], without retries: one third each over a kept HTTP/1.1 connection,
/// over HTTP/2, and over a connection for every request.
#[derive(Debug)]
pub struct Crowd {
    journeys: Vec<Arc<Mutex<Journey>>>,
    leaving: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

impl Crowd {
    /// Starts `size` clients, which take the carriers and addresses in turn, and waits for an answer to each.
    ///
    /// # Errors
    /// If a client gets no answer.
    pub async fn gather(size: usize, carriers: &[Carrier], addresses: &[SocketAddr]) -> Result<Self> {
        let mut crowd = Self {
            journeys: Vec::new(),
            leaving: Arc::default(),
            clients: JoinSet::new(),
        };
        crowd.grow(size, carriers, addresses).await?;
        Ok(crowd)
    }

    /// Adds `size` clients.
    ///
    /// # Errors
    /// If a client gets no answer.
    pub async fn grow(&mut self, size: usize, carriers: &[Carrier], addresses: &[SocketAddr]) -> Result<()> {
        for number in 0..size {
            let client = Client {
                carrier: carriers[number % carriers.len()],
                mode: [
                    ConnectionMode::Http1,
                    ConnectionMode::Http2,
                    ConnectionMode::ConnectsAnew,
                ][number % 3],
                connections: BTreeMap::new(),
                token: None,
                journey: Arc::default(),
            };
            self.journeys.push(Arc::clone(&client.journey));
            // Sessions of every kind begin at every address.
            let turns = addresses.iter().copied().cycle().skip(number / 6).take(addresses.len());
            let running = client.run(turns.collect(), Arc::clone(&self.leaving));
            self.clients.spawn(running);
        }
        self.rounds(1).await
    }

    /// Waits until every client has made so many more visits.
    ///
    /// # Errors
    /// If a client does not.
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
        poll::until("every client to make its visits", async || {
            self.journeys.iter().all(been_here).then_some(())
        })
        .await
    }

    /// Waits until every client's last token matches: a worker takes a filter a moment after Envoy acknowledged it.
    ///
    /// # Errors
    /// If one does not.
    pub async fn until_tokens(&self, what: &str, matches: impl Fn(&str) -> bool) -> Result<()> {
        let has_such = |journey: &Arc<Mutex<Journey>>| {
            let journey = lock(journey);
            journey
                .tokens()
                .last()
                .and_then(|visit| visit.token.as_deref())
                .is_some_and(&matches)
        };
        poll::until(what, async || self.journeys.iter().all(has_such).then_some(())).await
    }

    /// Stops all clients, each after its present answer.
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

/// What each client of a crowd saw.
#[derive(Debug)]
pub struct Journeys(pub Vec<Journey>);

impl Journeys {
    /// Checks that a backend answered every request with 200.
    ///
    /// # Errors
    /// If a request failed.
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

    /// Checks that no backend saw a token.
    ///
    /// # Errors
    /// If one did.
    pub fn none_exposed(&self) -> Result<()> {
        let visits = || self.0.iter().flat_map(|journey| &journey.visits);
        let exposed = visits().filter(|visit| visit.exposed).count();
        ensure!(
            exposed == 0,
            "backends saw the token of {exposed} of {} requests",
            visits().count()
        );
        Ok(())
    }

    /// Checks that every session kept its backend, apart from failed requests.
    ///
    /// # Errors
    /// If one moved.
    pub fn all_stayed(&self) -> Result<()> {
        for journey in &self.0 {
            let moves = journey.moves();
            ensure!(moves.is_empty(), "a session moved: {:#?}", &moves[..1]);
        }
        Ok(())
    }

    /// Checks that every session kept its backend and its first token, apart from failed requests.
    ///
    /// # Errors
    /// If one did not.
    pub fn none_moved(&self) -> Result<()> {
        self.all_stayed()?;
        for journey in &self.0 {
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

/// The visits of one client.
#[derive(Debug, Default)]
pub struct Journey {
    /// In order.
    pub visits: Vec<Visit>,
}

impl Journey {
    /// The visits on another backend than the visit before, with that one's name.
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

    /// The visits that got a token.
    #[must_use]
    pub fn tokens(&self) -> Vec<&Visit> {
        self.visits.iter().filter(|visit| visit.token.is_some()).collect()
    }
}

/// A request and its result.
#[derive(Debug)]
pub struct Visit {
    /// The address of the request.
    pub address: SocketAddr,
    /// The time of the request.
    pub begun: Instant,
    /// The time of the answer.
    pub ended: Instant,
    /// The status, and the backend's name if a backend answered; or the error.
    pub answer: Result<(u16, Option<String>), String>,
    /// Envoy's words if no backend answered.
    pub reason: Option<String>,
    /// The token in the answer.
    pub token: Option<String>,
    /// Whether the backend saw the token of the request.
    pub exposed: bool,
}

impl Visit {
    /// The backend that answered.
    #[must_use]
    pub fn backend(&self) -> Option<&str> {
        self.answer.as_ref().ok()?.1.as_deref()
    }

    fn failure(&self) -> Option<String> {
        match &self.answer {
            Ok((200, Some(_))) => None,
            Ok((status, _)) => {
                let reason = self.reason.as_deref().unwrap_or("no reason");
                Some(format!("{status} from {}: {reason}", self.asked()))
            }
            Err(problem) => Some(format!("{}: {problem}", self.asked())),
        }
    }

    fn asked(&self) -> String {
        format!("{} after {:?}", self.address, self.ended.duration_since(self.begun))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionMode {
    Http1,
    Http2,
    ConnectsAnew,
}

#[derive(Debug)]
struct Client {
    carrier: Carrier,
    mode: ConnectionMode,
    connections: BTreeMap<SocketAddr, Connection>,
    token: Option<String>,
    journey: Arc<Mutex<Journey>>,
}

impl Client {
    async fn run(mut self, addresses: Vec<SocketAddr>, leaving: Arc<AtomicBool>) {
        for address in addresses.into_iter().cycle() {
            if leaving.load(Ordering::Relaxed) {
                return;
            }
            let begun = Instant::now();
            let brought = self.token.clone();
            let answer = self.visit(address).await;
            // A backend's answer contains the request's fields.
            let exposed = match (&brought, &answer) {
                (Some(token), Ok(answer)) => String::from_utf8_lossy(&answer.body).contains(token.as_str()),
                _ => false,
            };
            let token = answer.as_ref().ok().and_then(|answer| self.carrier.token(answer));
            if token.is_some() {
                self.token.clone_from(&token);
            }
            let reason = answer.as_ref().ok().filter(|answer| answer.backend().is_none());
            let reason = reason.map(|answer| String::from_utf8_lossy(&answer.body).into_owned());
            let answer = answer.map(|answer| (answer.status, answer.backend().map(str::to_owned)));
            lock(&self.journey).visits.push(Visit {
                address,
                begun,
                ended: Instant::now(),
                answer: answer.map_err(|error| format!("{:?}: {error:#}", self.mode)),
                reason,
                token,
                exposed,
            });
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn visit(&mut self, address: SocketAddr) -> Result<Answer> {
        let mut request = Request::get(address, &self.carrier.path());
        if self.mode == ConnectionMode::Http2 {
            request = request.http2();
        }
        if let Some(token) = &self.token {
            request = self.carrier.bring(token, request);
        }
        if self.mode == ConnectionMode::ConnectsAnew {
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
            None => Connection::open(address, self.mode == ConnectionMode::Http2).await?,
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
