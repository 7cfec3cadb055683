//! Visits of clients.

use std::net::IpAddr;
use std::time::Duration;

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 in plain text.
    Http2,
    /// WebSockets over HTTP/1.1.
    WebSocket,
    /// gRPC: calls and streams.
    Grpc,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Http1, Self::Http2, Self::WebSocket, Self::Grpc];

    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::WebSocket => "WebSocket",
            Self::Grpc => "gRPC",
        }
    }
}

/// A client's request, or the end of its open stream. Times count from the run's begin.
#[derive(Debug, Clone)]
pub struct Visit {
    /// The client, with one session.
    pub client: usize,
    /// Its protocol.
    pub protocol: Protocol,
    /// The begin of a request, or when a stream last worked.
    pub begun: Duration,
    /// When its result was known.
    pub ended: Duration,
    /// The result.
    pub outcome: Outcome,
}

/// The result of a request or stream.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// A backend answered properly.
    Answered {
        /// The pod that answered.
        backend: String,
        /// Whether the answer brought a token.
        has_token: bool,
    },
    /// A request that may have been sent had no good answer.
    Failed(Loss),
    /// Nothing listened, so nothing was sent, and the client tries again.
    Refused(Loss),
    /// An open stream ended without a request on it.
    Ended(Loss),
}

/// A failure.
#[derive(Debug, Clone)]
pub struct Loss {
    /// The client's error.
    pub reason: String,
    /// When the client began to connect. It may learn late that it is connected.
    pub opening: Duration,
    /// The connection's Envoy; unknown for a refused one.
    pub envoy: Option<IpAddr>,
}
