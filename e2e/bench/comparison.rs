//! Proxies with and without sessions side by side: same requests, one worker each, same backends.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::haproxy::Haproxy;
use limpet_e2e::{Answer, Envoy, Request, SteadyLoad};

use crate::h2load;
use crate::load::Get;
use crate::measure::{Effort, Run};
use crate::results::{Figures, Latency, Results};
use crate::variants::{self, Choice, NO_FILTER};

/// Latencies need longer slices, so they are measured in every nth round.
const ROUNDS_OF_A_LATENCY: usize = 4;

pub(crate) enum Proxy {
    Envoy(Box<Envoy>),
    Haproxy(Haproxy),
}

impl Proxy {
    fn pid(&self) -> u32 {
        match self {
            Self::Envoy(envoy) => envoy.pid(),
            Self::Haproxy(haproxy) => haproxy.pid(),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Envoy(envoy) => envoy.address(),
            Self::Haproxy(haproxy) => haproxy.address(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A valid token.
    Steady,
    First,
    /// A token that the proxy refuses.
    Refused,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Steady, Self::First, Self::Refused];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady state",
            Self::First => "first request",
            Self::Refused => "refused token",
        }
    }
}

pub(crate) async fn run(backends: &Envoy, effort: Effort, choice: Choice) -> Result<()> {
    let started = variants::start(backends, choice).await?;
    let mut runs = Vec::new();
    for (variant, proxy) in &started {
        for kind in Kind::ALL.into_iter().filter(|kind| variant.has(*kind)) {
            let request = request(proxy.address(), kind, variant.has_session()).await;
            let request = request.with_context(|| variant.name.to_owned())?;
            let load = h2load::Load::new(proxy.address(), &request);
            runs.push((
                Run::new(variant.name, proxy.pid(), load),
                kind,
                proxy.address(),
                request,
            ));
        }
    }
    let mut spending: Vec<_> = runs.iter_mut().map(|(run, ..)| run).collect();
    effort.measure(&mut spending).await?;

    let baseline = runs
        .iter()
        .find(|(run, ..)| run.name == NO_FILTER)
        .context("no baseline")?;
    // Half of what an Envoy without filters can do.
    let rate = 0.5e6 / baseline.0.median();
    let mut latencies = vec![Vec::new(); runs.len()];
    let rounds = effort.rounds.div_ceil(ROUNDS_OF_A_LATENCY);
    for round in 0..rounds {
        for turn in 0..runs.len() {
            let at = (round + turn) % runs.len();
            let Some((.., address, request)) = runs.get(at) else {
                continue;
            };
            if let Some(of_run) = latencies.get_mut(at) {
                of_run.push(latency(*address, request, rate)?);
            }
        }
        eprint!("\rlatencies, round {} of {rounds} ", round + 1);
    }
    eprintln!();
    let figures = runs.iter().zip(latencies);
    let figures = figures.map(|((run, kind, ..), latencies)| Figures::new(run, *kind, &baseline.0, &latencies));
    let results = Results::new(figures.collect(), effort, rate)?;
    print!("{}", results.text());
    results.write()
}

fn latency(address: SocketAddr, request: &Get, rate: f64) -> Result<Latency> {
    let load = SteadyLoad {
        address,
        request: request.bytes(),
        rate,
        connections: 16,
    };
    let latencies = load.send(Duration::from_millis(500))?;
    let at = |of_hundred: usize| latencies.get(latencies.len() * of_hundred / 100);
    let (middle, high) = at(50).zip(at(99)).context("no request")?;
    Ok([middle, high].map(|latency| latency.as_secs_f64() * 1e6))
}

/// A request of about the same size for all proxies.
async fn request(address: SocketAddr, kind: Kind, has_session: bool) -> Result<Get> {
    let request = match kind {
        Kind::First => Get::plain("bench.example", "/", ""),
        Kind::Steady => next(&Request::get(address, "/").send().await?, "/", false),
        Kind::Refused => next(&Request::get(address, "/").send().await?, "/", true),
    };
    let mut sent = Request::get(address, &request.path);
    if !request.cookie.is_empty() {
        sent = sent.header("cookie", &request.cookie);
    }
    let answer = sent.send().await?;
    let begins = session(&answer).is_some();
    ensure!(
        begins == (has_session && kind != Kind::Steady),
        "{kind:?}: a session begins: {begins}: {answer:?}"
    );
    Ok(request)
}

pub(crate) fn next(answer: &Answer, path: &str, forged: bool) -> Get {
    let told = |value: String| if forged { forge(&value) } else { value };
    match session(answer) {
        Some(Session::Query(token)) => Get::plain("bench.example", &format!("{path}?session={}", told(token)), "a=1"),
        Some(Session::Cookie(pair)) => Get::plain("bench.example", path, &told(pair)),
        None => Get::plain("bench.example", path, &format!("limpet-session={}", "x".repeat(60))),
    }
}

enum Session {
    Cookie(String),
    Query(String),
}

fn session(answer: &Answer) -> Option<Session> {
    let told = answer.header("x-session").map(|token| Session::Query(token.to_owned()));
    told.or_else(|| {
        answer
            .set_cookie("limpet-session")
            .map(|cookie| Session::Cookie(cookie.pair()))
    })
}

/// Changes a letter near the end, where in base64 without padding all bits of a letter count.
fn forge(token: &str) -> String {
    let mut bytes = token.as_bytes().to_vec();
    let at = token.trim_end_matches(['=', '"']).len().saturating_sub(3);
    if let Some(byte) = bytes.get_mut(at) {
        *byte = if *byte == b'A' { b'B' } else { b'A' };
    }
    String::from_utf8(bytes).unwrap_or_default()
}
