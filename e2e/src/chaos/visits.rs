//! What clients saw.

use std::net::IpAddr;
use std::time::Duration;

/// What a client speaks.
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

/// One request of a client, or the end of a stream that it had open. Times count from the begin of the run.
#[derive(Debug, Clone)]
pub struct Visit {
    /// The client. It has one session.
    pub client: usize,
    /// What it speaks.
    pub protocol: Protocol,
    /// When the request was begun; of the end of a stream: when the stream was last seen to work.
    pub begun: Duration,
    /// When its result was known.
    pub ended: Duration,
    /// The result.
    pub outcome: Outcome,
}

/// What became of a request or a stream.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// A backend answered as it should.
    Answered {
        /// The pod that answered.
        backend: String,
        /// Whether the answer brought a token.
        has_token: bool,
    },
    /// There is no good answer to a request that may have been sent.
    Failed(Loss),
    /// Nobody listened: nothing was sent, and the client tries again.
    Refused(Loss),
    /// A stream ended that was open, and on which nothing was asked.
    Ended(Loss),
}

/// Something that went wrong.
#[derive(Debug, Clone)]
pub struct Loss {
    /// What the client was told.
    pub reason: String,
    /// When the client began to connect. It may learn late that it is connected.
    pub opening: Duration,
    /// The address of the Envoy that the connection led to. Nobody knows where one would have led that was refused.
    pub envoy: Option<IpAddr>,
}
