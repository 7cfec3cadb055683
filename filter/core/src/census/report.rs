//! What an Envoy tells the controller of the sessions that it has seen, as protocol buffers:
//! `filter/core/proto` has the same in their language.
//!
//! A report tells what has changed since the one before; one without a change asks whether the controller still knows
//! the rest. Without an answer it is sent again as it was, and the controller may have taken it before: sketches merge
//! and times only grow, and `requests`, `left`, `rebalanced` and `restarts`, which are numbers since the last report,
//! count once for each [`Report::number`] that a process of the controller takes.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use prost::Message;

use super::Backend;
use super::sketch::Sketch;
use crate::token::Destination;

/// The gRPC service that takes reports.
pub const SERVICE: &str = "limpet.sessions.v1.Sessions";
/// Its method, which takes a [`Report`] and answers with [`Answer`].
pub const METHOD: &str = "Report";
/// The path of the method.
pub const PATH: &str = "/limpet.sessions.v1.Sessions/Report";
/// How long the controller may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// So often a report is sent that gets no answer. Then others tell of it, and it may count twice: the controller may
/// refuse this one for ever.
pub const TRIES: u32 = 4;
/// After so many intervals without a change, an Envoy sends an empty report: it counts, and there is nothing new.
pub const SILENCE: u32 = 5;

/// Changes since the last report.
#[derive(Clone, PartialEq, Message)]
pub struct Report {
    /// Backends whose sessions have changed.
    #[prost(message, repeated, tag = "1")]
    pub backends: Vec<BackendReport>,
    /// Sessions that restarted although their client had one.
    #[prost(message, repeated, tag = "2")]
    pub restarts: Vec<Restart>,
    /// `node.cluster` of the Envoy: the Gateway that it serves.
    #[prost(string, tag = "3")]
    pub node_cluster: String,
    /// The reporter: a random number of the process, or of the part of it that reports for all.
    #[prost(fixed64, tag = "4")]
    pub reporter: u64,
    /// Whether more has changed than one report may tell. The next ones tell the rest.
    #[prost(bool, tag = "5")]
    pub more: bool,
    /// The reports of one reporter are numbered from 1. One that is sent again has the number that it had.
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
    /// The port. With 0 and an unspecified address, this is about all backends that are not counted separately.
    #[prost(uint32, tag = "3")]
    pub port: u32,
    /// Seconds after its last request until a session is over.
    #[prost(uint32, tag = "4")]
    pub live_for: u32,
    /// Unix time in milliseconds.
    #[prost(uint64, tag = "5")]
    pub last_use: u64,
    /// Requests of sessions since the last report.
    #[prost(uint64, tag = "6")]
    pub requests: u64,
    /// Sessions that did not go on here since the last report: another backend answered.
    #[prost(uint64, tag = "7")]
    pub left: u64,
    /// Sub-windows that have changed.
    #[prost(message, repeated, tag = "8")]
    pub windows: Vec<WindowReport>,
    /// Sessions that restarted on another backend since the last report, on a budget of [`Answer::sheds`].
    #[prost(message, repeated, tag = "9")]
    pub rebalanced: Vec<RebalancedReport>,
}

/// Sessions that restarted on another backend. Its sketches still have them.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct RebalancedReport {
    /// The sub-window that they were last seen in: Unix time divided by its length.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// How many.
    #[prost(uint64, tag = "2")]
    pub sessions: u64,
}

/// The sessions of one backend in one sub-window.
#[derive(Clone, PartialEq, Message)]
pub struct WindowReport {
    /// Unix time divided by the length of a sub-window.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// When the oldest of these sessions began on the backend: Unix time in milliseconds.
    #[prost(uint64, tag = "2")]
    pub oldest: u64,
    /// All sessions of the sub-window: a [`Sketch`] as postcard writes it.
    #[prost(bytes = "vec", tag = "3")]
    pub sketch: Vec<u8>,
}

/// Sessions that restarted for one reason.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Restart {
    /// `moved`, or why the client's token was refused: a word of the filter's metrics.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// How many since the last report.
    #[prost(uint64, tag = "2")]
    pub sessions: u64,
}

/// The answer to a report.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Answer {
    /// Which memory the report went to. An Envoy that meets another one than before tells everything again.
    #[prost(fixed64, tag = "1")]
    pub memory: u64,
    /// Which sessions may restart from now on, and how many. It takes the place of what was said before, and counts
    /// until the next report, for [`BUDGET_LIFE`](super::BUDGET_LIFE) at most.
    #[prost(message, repeated, tag = "2")]
    pub sheds: Vec<Shed>,
    /// Which process answered. Reports to another one shortly before may be lost with it, so they are sent again.
    #[prost(fixed64, tag = "3")]
    pub process: u64,
}

/// How many sessions of a Service may restart.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Shed {
    /// The hash of the cluster's name, big-endian.
    #[prost(fixed32, tag = "1")]
    pub destination: u32,
    /// How many of all its backends together.
    #[prost(uint32, tag = "2")]
    pub sessions: u32,
    /// The backends that have more than their share.
    #[prost(message, repeated, tag = "3")]
    pub hosts: Vec<ShedHost>,
    /// The backends that lack sessions. A session that moves goes to one of these, and stays if none has room.
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
    /// At most so many, and of all backends not more than [`Shed::sessions`].
    #[prost(uint32, tag = "3")]
    pub sessions: u32,
}

impl Shed {
    /// Takes one session of a backend out of these budgets. Returns the host that it moves to, one that `is_there`;
    /// `None` if it stays.
    pub fn take(sheds: &mut [Self], backend: &Backend, is_there: impl Fn(SocketAddr) -> bool) -> Option<SocketAddr> {
        let destination = u32::from_be_bytes(backend.destination.0);
        let mut sheds = sheds.iter_mut();
        let shed = sheds.find(|shed| shed.destination == destination && shed.sessions > 0)?;
        let mut hosts = shed.hosts.iter_mut();
        let host = hosts.find(|host| host.sessions > 0 && host.host() == Some(backend.host))?;
        let targets = shed.targets.iter_mut().filter(|target| target.sessions > 0);
        let targets = targets.filter_map(|target| Some((target.host()?, target)));
        let others = targets.filter(|(to, _)| *to != backend.host && is_there(*to));
        // Where most room is left, so that all of them fill alike.
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

    /// Whom this is about; `None` if it says no such thing.
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

impl Answer {
    /// Reads the response body of a unary gRPC call; `None` if it is none.
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
    /// Takes out what was counted before.
    pub fn without_counts(&mut self) {
        self.restarts.clear();
        for backend in &mut self.backends {
            (backend.requests, backend.left) = (0, 0);
            backend.rebalanced.clear();
        }
    }

    /// The request body of a unary gRPC call: one uncompressed message.
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
    /// A report of a backend that says nothing of it.
    #[must_use]
    pub fn of(backend: Backend) -> Self {
        Self {
            destination: u32::from_be_bytes(backend.destination.0),
            address: address(backend.host.ip()),
            port: u32::from(backend.host.port()),
            live_for: backend.live_for,
            ..Self::default()
        }
    }

    /// Whom this is about; `None` if it says no such thing.
    #[must_use]
    pub fn backend(&self) -> Option<Backend> {
        Some(Backend {
            destination: Destination(self.destination.to_be_bytes()),
            host: host(&self.address, self.port)?,
            live_for: self.live_for,
        })
    }

    /// About how many bytes it takes.
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

    /// The sessions; `None` if the bytes are no sketch.
    #[must_use]
    pub fn sketch(&self) -> Option<Sketch> {
        Sketch::from_bytes(&self.sketch)
    }
}
