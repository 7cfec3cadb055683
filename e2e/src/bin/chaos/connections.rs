//! Connections whose Envoy is known: kube-proxy leads each to one of them, and the kernel remembers where.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::net::{TcpSocket, TcpStream};

/// The connections that the kernel translates, those that ended a moment ago too.
const TABLE: &str = "/proc/net/nf_conntrack";

const PATIENCE: Duration = Duration::from_secs(10);

/// A connection's own port, by which it is found.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    address: SocketAddr,
    port: u16,
    envoy: Arc<Mutex<Option<IpAddr>>>,
    /// When the client began to connect.
    pub(crate) opening: Duration,
}

impl Line {
    /// Where the connection leads, if that was found out.
    pub(crate) fn envoy(&self) -> Option<IpAddr> {
        *self.envoy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds out where these connections lead.
pub(crate) fn find_envoys<'a>(lines: impl Iterator<Item = &'a Line>) {
    let table = fs::read_to_string(TABLE).unwrap_or_default();
    for line in lines {
        // What was known stays, if the kernel has forgotten it.
        if let Some(envoy) = destination(&table, line.address, line.port) {
            *line.envoy.lock().unwrap_or_else(PoisonError::into_inner) = Some(envoy);
        }
    }
}

/// Connects to a Service's address. Nobody may listen where it leads.
pub(crate) async fn dial(address: SocketAddr, begun: Instant) -> Result<Result<(Line, TcpStream), String>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    let line = Line {
        address,
        port: socket.local_addr()?.port(),
        envoy: Arc::default(),
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

/// Whose answers are to come: the source of the second direction.
fn destination(table: &str, address: SocketAddr, port: u16) -> Option<IpAddr> {
    let line = table.lines().find(|line| {
        let value = |name| value(line, name, 0);
        value("dst=") == Some(&address.ip().to_string())
            && value("sport=") == Some(&port.to_string())
            && value("dport=") == Some(&address.port().to_string())
    })?;
    let source: IpAddr = value(line, "src=", 1)?.parse().ok()?;
    (source != address.ip()).then_some(source)
}

fn value<'a>(line: &'a str, name: &str, direction: usize) -> Option<&'a str> {
    let mut values = line.split(' ').filter_map(|field| field.strip_prefix(name));
    values.nth(direction)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
ipv4     2 tcp      6 117 TIME_WAIT src=10.66.255.254 dst=10.66.250.1 sport=40001 dport=80 src=10.244.0.7 dst=10.66.255.254 sport=80 dport=1717 [ASSURED] mark=0 zone=0 use=2
ipv4     2 tcp      6 431999 ESTABLISHED src=10.66.255.254 dst=10.66.250.1 sport=40002 dport=80 src=10.244.0.9 dst=10.66.255.254 sport=80 dport=1718 [ASSURED] mark=0 zone=0 use=2";

    #[test]
    fn a_connection_is_found_by_its_own_port() {
        let address = SocketAddr::from(([10, 66, 250, 1], 80));
        assert_eq!(destination(LINES, address, 40002), Some(IpAddr::from([10, 244, 0, 9])));
        assert_eq!(destination(LINES, address, 40003), None);
    }
}
