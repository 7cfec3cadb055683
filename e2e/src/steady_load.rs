//! Load at a steady rate, for latencies. `h2load --rps` sends bursts and wrk waits for answers, so both would measure
//! their own queue.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

/// A request at a steady rate.
///
/// Connections have a thread each and send at different moments. A latency begins when the request was due, or, if the
/// thread slept until then, when it woke, so that this machine's clock does not count.
#[derive(Debug, Clone)]
pub struct SteadyLoad {
    /// The server's address.
    pub address: SocketAddr,
    /// The whole HTTP/1.1 request, without a body.
    pub request: Vec<u8>,
    /// Requests per second over all connections.
    pub rate: f64,
    /// The number of connections, with one request at a time.
    pub connections: u32,
}

impl SteadyLoad {
    /// Sends requests for this time, all answered with 200. Returns all latencies, sorted.
    ///
    /// # Errors
    /// If a request is answered otherwise, or a connection is closed.
    pub fn send(&self, length: Duration) -> Result<Vec<Duration>> {
        let interval = Duration::from_secs_f64(f64::from(self.connections) / self.rate);
        let mut latencies = thread::scope(|scope| {
            let connections: Vec<_> = (0..self.connections)
                .map(|number| {
                    let offset = interval / self.connections * number;
                    scope.spawn(move || self.requests(interval, offset, length))
                })
                .collect();
            let mut all = Vec::new();
            for connection in connections {
                all.extend(connection.join().map_err(|_| anyhow!("a thread failed"))??);
            }
            anyhow::Ok(all)
        })?;
        latencies.sort();
        Ok(latencies)
    }

    fn requests(&self, interval: Duration, offset: Duration, length: Duration) -> Result<Vec<Duration>> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let mut latencies = Vec::new();
        let (mut answer, mut block) = (Vec::with_capacity(4096), [0; 4096]);
        let start = Instant::now() + offset;
        let mut due = start;
        while due - start < length {
            let wait = due.saturating_duration_since(Instant::now());
            let from = if wait.is_zero() {
                due
            } else {
                thread::sleep(wait);
                Instant::now()
            };
            stream.write_all(&self.request)?;
            answer.clear();
            while !is_whole(&answer)? {
                let count = stream.read(&mut block)?;
                ensure!(count > 0, "the connection was closed");
                answer.extend_from_slice(block.get(..count).unwrap_or_default());
            }
            latencies.push(from.elapsed());
            due += interval;
        }
        Ok(latencies)
    }
}

/// The worst of sorted latencies, as text.
///
/// # Errors
/// If there are none.
pub fn worst(latencies: &[Duration]) -> Result<String> {
    let at = |of_thousand: usize| latencies.get(latencies.len() * of_thousand / 1000).copied();
    let (middle, high) = at(500).zip(at(999)).context("no requests")?;
    let longest = latencies.last().copied().context("no requests")?;
    let late = latencies
        .iter()
        .filter(|latency| **latency > Duration::from_millis(20))
        .count();
    Ok(format!(
        "p50 {}, p99.9 {}, longest {}, {late} of {} over 20 ms",
        milliseconds(middle),
        milliseconds(high),
        milliseconds(longest),
        latencies.len()
    ))
}

/// A time with its unit, in milliseconds.
#[must_use]
pub fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// Whether this is a complete answer with its body.
///
/// # Errors
/// If the status is not 200, or there is no length.
pub fn is_whole(answer: &[u8]) -> Result<bool> {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(false);
    };
    let head = std::str::from_utf8(answer.get(..end).unwrap_or_default())?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "expected status 200, found: {head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.context("the answer has no length")?.parse()?;
    Ok(answer.len() >= end + 4 + length)
}
