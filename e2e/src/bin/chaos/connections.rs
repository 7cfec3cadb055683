//! Connections to a Service, with the Envoy that kube-proxy chose for each, as the kernel reports.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use limpet_e2e::chaos::destination;
use tokio::net::{TcpSocket, TcpStream};

const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time until the kernel reports a connection.
const DELIVERY: Duration = Duration::from_millis(100);
const TRIES: usize = 50;
/// The clients' ports, in turn. The kernel would reuse a port after a minute, but leads it for two minutes to its
/// former destination, even an Envoy that ends. Clients with their own addresses lack this problem.
const PORTS: std::ops::Range<u16> = 20_000..60_000;
static NEXT_PORT: AtomicUsize = AtomicUsize::new(0);
/// Bytes for unread events, which the kernel drops without room.
const ROOM: &str = "8388608";

#[derive(Debug, Clone)]
pub(crate) struct Line {
    port: u16,
    pub(crate) opening: Duration,
}

/// The begin and destination of connections, by client port.
type Begins = BTreeMap<u16, Vec<(Duration, IpAddr)>>;

#[derive(Debug)]
pub(crate) struct Connections {
    program: Child,
    begins: Arc<Mutex<Begins>>,
}

impl Connections {
    /// Listens to the kernel from now on, with times from `begun`.
    pub(crate) async fn watch(begun: Instant, address: SocketAddr) -> Result<Self> {
        let mut program = Command::new("conntrack")
            .args(["-E", "-e", "NEW", "-p", "tcp", "-b", ROOM])
            .args(["--orig-dst", &address.ip().to_string()])
            .args(["--orig-port-dst", &address.port().to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .context("conntrack")?;
        let events = program.stdout.take().context("conntrack has no output")?;
        let begins: Arc<Mutex<Begins>> = Arc::default();
        let into = Arc::clone(&begins);
        std::thread::spawn(move || {
            for event in BufReader::new(events).lines().map_while(Result::ok) {
                if let Some((port, envoy)) = destination(&event) {
                    let mut begins = into.lock().unwrap_or_else(PoisonError::into_inner);
                    begins.entry(port).or_default().push((begun.elapsed(), envoy));
                }
            }
        });
        let mut connections = Self { program, begins };
        for _ in 0..TRIES {
            if let Ok((line, _stream)) = dial(address, begun).await? {
                tokio::time::sleep(DELIVERY).await;
                if let [Some(_)] = connections.envoys(std::iter::once(line))?[..] {
                    return Ok(connections);
                }
            }
        }
        bail!("conntrack tells nothing of connections to {address}")
    }

    pub(crate) fn envoys(&mut self, lines: impl Iterator<Item = Line>) -> Result<Vec<Option<IpAddr>>> {
        let ended = self.program.try_wait()?;
        ensure!(ended.is_none(), "conntrack ended: {ended:?}");
        let begins = self.begins.lock().unwrap_or_else(PoisonError::into_inner);
        // The port may have had others before and after it.
        let envoy = |line: Line| {
            let of_port = begins.get(&line.port)?;
            let first = of_port.iter().find(|(at, _)| *at >= line.opening)?;
            Some(first.1)
        };
        Ok(lines.map(envoy).collect())
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// An inner error means that nothing listens where the Service leads.
pub(crate) async fn dial(address: SocketAddr, begun: Instant) -> Result<Result<(Line, TcpStream), String>> {
    let socket = bound()?;
    let line = Line {
        port: socket.local_addr()?.port(),
        opening: begun.elapsed(),
    };
    let stream = match tokio::time::timeout(PATIENCE, socket.connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Ok(Err(error.to_string())),
        Err(_) => return Ok(Err("no connection in 10 s".to_owned())),
    };
    stream.set_nodelay(true).context("TCP_NODELAY")?;
    Ok(Ok((line, stream)))
}

fn bound() -> Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    for _ in PORTS {
        let next = NEXT_PORT.fetch_add(1, Ordering::Relaxed) % PORTS.len();
        let port = PORTS.clone().nth(next).unwrap_or(PORTS.start);
        if socket.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).is_ok() {
            return Ok(socket);
        }
    }
    bail!("no port of {PORTS:?} is free")
}
