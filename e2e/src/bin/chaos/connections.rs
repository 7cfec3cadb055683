//! Connections whose Envoy is known: kube-proxy leads each to one of them, and the kernel tells where when it begins.

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
/// How long the kernel may take to tell of a connection.
const DELIVERY: Duration = Duration::from_millis(100);
/// How often a connection is tried until the kernel tells of it.
const TRIES: usize = 50;
/// The ports that clients connect from, one after the other. The kernel would choose a port again after a minute, but
/// it remembers for two where a connection led, and leads the next one from the same port there, even to an Envoy that
/// ends. Clients with addresses of their own do not have this.
const PORTS: std::ops::Range<u16> = 20_000..60_000;
static NEXT_PORT: AtomicUsize = AtomicUsize::new(0);
/// The room for events that nobody has read yet, in bytes. Without room, the kernel would drop them.
const ROOM: &str = "8388608";

/// A connection, found by its own port.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    port: u16,
    /// When the client began to connect.
    pub(crate) opening: Duration,
}

/// When connections began, and where they lead, by the client's port.
type Begins = BTreeMap<u16, Vec<(Duration, IpAddr)>>;

/// All connections to one address.
#[derive(Debug)]
pub(crate) struct Connections {
    program: Child,
    begins: Arc<Mutex<Begins>>,
}

impl Connections {
    /// Listens to the kernel from now on. Times are counted from `begun`.
    ///
    /// # Errors
    /// If the kernel does not tell of connections.
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

    /// Where each of these connections led, if it came to be.
    ///
    /// # Errors
    /// If not all connections were seen.
    pub(crate) fn envoys(&mut self, lines: impl Iterator<Item = Line>) -> Result<Vec<Option<IpAddr>>> {
        let ended = self.program.try_wait()?;
        ensure!(ended.is_none(), "conntrack ended: {ended:?}");
        let begins = self.begins.lock().unwrap_or_else(PoisonError::into_inner);
        // Others had the port before and after it.
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
        // It may have ended.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Connects to a Service's address. Nobody may listen where it leads.
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

/// A socket at a port that no connection had for minutes.
fn bound() -> Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    for _ in PORTS {
        let next = NEXT_PORT.fetch_add(1, Ordering::Relaxed) % PORTS.len();
        let port = PORTS.clone().nth(next).unwrap_or(PORTS.start);
        // Somebody may listen there.
        if socket.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).is_ok() {
            return Ok(socket);
        }
    }
    bail!("no port of {PORTS:?} is free")
}
