//! Reports of sessions to the controller, as protocol buffers (`filter/core/proto`).
//!
//! A report has the changes since the last one; an empty one asks whether the controller knows the rest. An unanswered
//! one is repeated unchanged, though the controller may have taken it: sketches merge, times only grow, and `requests`,
//! `left`, `rebalanced` and `restarts` count once for each [`Report::number`].

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use prost::Message;

use super::Backend;
use super::sketch::Sketch;
use crate::token::DestinationId;

/// The gRPC service.
pub const SERVICE: &str = "limpet.sessions.v1.Sessions";
/// Its method.
pub const METHOD: &str = "Report";
/// The method's path.
pub const PATH: &str = "/limpet.sessions.v1.Sessions/Report";
/// How long the controller may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How often an unanswered report is sent. Then others include it, and it may count twice: the controller may refuse
/// this one for ever.
pub const TRIES: u32 = 4;
/// Intervals without a change until an empty report.
pub const SILENCE: u32 = 5;

/// Changes since the last report.
#[derive(Clone, PartialEq, Message)]
pub struct Report {
    /// Backends whose sessions have changed.
    #[prost(message, repeated, tag = "1")]
    pub backends: Vec<BackendReport>,
    /// Sessions restarted although their client had one.
    #[prost(message, repeated, tag = "2")]
    pub restarts: Vec<RestartReport>,
    /// The Envoy's `node.cluster`: its Gateway.
    #[prost(string, tag = "3")]
    pub node_cluster: String,
    /// The reporting process: a random number.
    #[prost(fixed64, tag = "4")]
    pub reporter: u64,
    /// Whether the next reports have more changes.
    #[prost(bool, tag = "5")]
    pub more: bool,
    /// The report's number, from 1. A repeated one keeps it.
    #[prost(uint64, tag = "6")]
    pub number: u64,
}

/// The sessions of one backend.
#[derive(Clone, PartialEq, Message)]
pub struct BackendReport {
    /// The hash of the cluster's name, big-endian.
    #[prost(fixed32, tag = "1")]
    pub destination: u32,
    /// The IP address: 4 or 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub address: Vec<u8>,
    /// The port. With 0 and an unspecified address: all backends not counted separately.
    #[prost(uint32, tag = "3")]
    pub port: u32,
    /// Seconds from a session's last request until it is over.
    #[prost(uint32, tag = "4")]
    pub live_for: u32,
    /// Unix time in milliseconds.
    #[prost(uint64, tag = "5")]
    pub last_use: u64,
    /// Requests since the last report.
    #[prost(uint64, tag = "6")]
    pub requests: u64,
    /// Sessions since the last report that another backend answered.
    #[prost(uint64, tag = "7")]
    pub departed: u64,
    /// Changed sub-windows.
    #[prost(message, repeated, tag = "8")]
    pub windows: Vec<WindowReport>,
    /// Sessions restarted since the last report, by [`ReportResponse::sheds`].
    #[prost(message, repeated, tag = "9")]
    pub rebalanced: Vec<RebalancedReport>,
}

/// Sessions restarted elsewhere. The sketches still have them.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct RebalancedReport {
    /// The sub-window when last seen.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// How many.
    #[prost(uint64, tag = "2")]
    pub sessions: u64,
}

/// The sessions of a backend in a sub-window.
#[derive(Clone, PartialEq, Message)]
pub struct WindowReport {
    /// Unix time divided by the sub-window's length.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// When the oldest session began on the backend: Unix time in milliseconds.
    #[prost(uint64, tag = "2")]
    pub oldest: u64,
    /// All sessions: a [`Sketch`] as postcard writes it.
    #[prost(bytes = "vec", tag = "3")]
    pub sketch: Vec<u8>,
}

/// Sessions that restarted for one reason.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RestartReport {
    /// `moved`, or the refusal's word in the filter's metrics.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// How many since the last report.
    #[prost(uint64, tag = "2")]
    pub sessions: u64,
}

/// The answer to a report.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ReportResponse {
    /// The controller's memory. Another one gets everything again.
    #[prost(fixed64, tag = "1")]
    pub memory: u64,
    /// Sessions that may restart, in place of the former ones, until the next report or for
    /// [`BUDGET_LIFE`](super::BUDGET_LIFE).
    #[prost(message, repeated, tag = "2")]
    pub sheds: Vec<ShedBudget>,
    /// The controller's process. Another one gets recent reports again.
    #[prost(fixed64, tag = "3")]
    pub process: u64,
}

/// How many sessions of a Service may restart.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ShedBudget {
    /// The hash of the cluster's name, big-endian.
    #[prost(fixed32, tag = "1")]
    pub destination: u32,
    /// How many, of all backends together.
    #[prost(uint32, tag = "2")]
    pub sessions: u32,
    /// Backends with more than their share.
    #[prost(message, repeated, tag = "3")]
    pub hosts: Vec<ShedHost>,
    /// Backends that lack sessions. If none has room, a session stays.
    #[prost(message, repeated, tag = "4")]
    pub targets: Vec<ShedHost>,
}

/// How many sessions may leave a backend, or go to it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ShedHost {
    /// The IP address: 4 or 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub address: Vec<u8>,
    /// The port.
    #[prost(uint32, tag = "2")]
    pub port: u32,
    /// The most sessions, within [`ShedBudget::sessions`].
    #[prost(uint32, tag = "3")]
    pub sessions: u32,
}

impl ShedBudget {
    /// Takes one session. Returns its new host, one that `is_there`; `None` if it stays.
    pub fn consume(sheds: &mut [Self], backend: &Backend, is_there: impl Fn(SocketAddr) -> bool) -> Option<SocketAddr> {
        let destination = u32::from_be_bytes(backend.destination.0);
        let mut sheds = sheds.iter_mut();
        let shed = sheds.find(|shed| shed.destination == destination && shed.sessions > 0)?;
        let mut hosts = shed.hosts.iter_mut();
        let host = hosts.find(|host| host.sessions > 0 && host.host() == Some(backend.host))?;
        let targets = shed.targets.iter_mut().filter(|target| target.sessions > 0);
        let targets = targets.filter_map(|target| Some((target.host()?, target)));
        let others = targets.filter(|(to, _)| *to != backend.host && is_there(*to));
        // So that all fill alike.
        let (to, target) = others.max_by_key(|(_, target)| target.sessions)?;
        for sessions in [&mut shed.sessions, &mut host.sessions, &mut target.sessions] {
            *sessions -= 1;
        }
        Some(to)
    }
}

impl ShedHost {
    /// So many sessions of a host.
    #[must_use]
    pub fn new(host: SocketAddr, sessions: u32) -> Self {
        Self {
            address: address(host.ip()),
            port: u32::from(host.port()),
            sessions,
        }
    }

    /// The backend's address, if valid.
    #[must_use]
    pub fn host(&self) -> Option<SocketAddr> {
        host(&self.address, self.port)
    }
}

fn address(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn host(address: &[u8], port: u32) -> Option<SocketAddr> {
    let ip = match *address {
        [a, b, c, d] => IpAddr::from([a, b, c, d]),
        ref bytes => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
    };
    Some(SocketAddr::new(ip, u16::try_from(port).ok()?))
}

impl ReportResponse {
    /// Reads a unary gRPC response.
    #[must_use]
    pub fn of_grpc_body(body: &[u8]) -> Option<Self> {
        let ([0, length @ ..], message) = body.split_first_chunk::<5>()? else {
            return None;
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        Self::decode(message.get(..length)?).ok()
    }
}

impl Report {
    /// Removes what was counted before.
    pub fn without_counts(&mut self) {
        self.restarts.clear();
        for backend in &mut self.backends {
            (backend.requests, backend.departed) = (0, 0);
            backend.rebalanced.clear();
        }
    }

    /// A unary gRPC request: one uncompressed message.
    #[must_use]
    pub fn grpc_body(&self) -> Vec<u8> {
        let message = self.encode_to_vec();
        let mut body = Vec::with_capacity(message.len() + 5);
        body.push(0);
        body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
        body.extend_from_slice(&message);
        body
    }
}

impl BackendReport {
    /// An empty report of a backend.
    #[must_use]
    pub fn new(backend: Backend) -> Self {
        Self {
            destination: u32::from_be_bytes(backend.destination.0),
            address: address(backend.host.ip()),
            port: u32::from(backend.host.port()),
            live_for: backend.live_for,
            ..Self::default()
        }
    }

    /// The backend, if valid.
    #[must_use]
    pub fn backend(&self) -> Option<Backend> {
        Some(Backend {
            destination: DestinationId(self.destination.to_be_bytes()),
            host: host(&self.address, self.port)?,
            live_for: self.live_for,
        })
    }

    /// Approximate bytes.
    pub(super) fn len(&self) -> usize {
        48 + self
            .windows
            .iter()
            .map(|window| window.sketch.len() + 20)
            .sum::<usize>()
    }
}

impl WindowReport {
    /// A sub-window with these sessions.
    #[must_use]
    pub fn new(number: u64, oldest: u64, sketch: &Sketch) -> Self {
        Self {
            number,
            oldest,
            sketch: sketch.to_bytes(),
        }
    }

    /// The sessions, if the bytes are a sketch.
    #[must_use]
    pub fn sketch(&self) -> Option<Sketch> {
        Sketch::from_bytes(&self.sketch)
    }
}
