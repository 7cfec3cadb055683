//! The payload of a token.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::DestinationId;
use crate::time::Timestamp;

/// The content of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claims {
    /// The session's backend.
    pub host: SocketAddr,
    /// The cluster of the backend.
    pub destination: DestinationId,
    /// When the session on this backend started.
    pub issued_at: Timestamp,
    /// When the session was last noted as used. Before `issued_at` only while [moving](Claims::is_moving).
    pub last_seen: Timestamp,
}

impl Claims {
    /// The claims of a session that the application moves now.
    #[must_use]
    pub fn moving(host: SocketAddr, destination: DestinationId, now: Timestamp) -> Self {
        Self {
            host,
            destination,
            issued_at: now,
            last_seen: now.before(),
        }
    }

    /// The same, used now. After a clock was set back, `issued_at` is now, too, or the session would be moving.
    #[must_use]
    pub fn used_at(self, now: Timestamp) -> Self {
        Self {
            issued_at: self.issued_at.min(now),
            last_seen: now,
            ..self
        }
    }

    /// What says which of several tokens counts.
    #[must_use]
    pub fn age(&self) -> TokenAge {
        TokenAge(self.issued_at, self.last_seen)
    }

    /// Whether the application named the backend, which has not answered yet: last used before it was issued.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.last_seen < self.issued_at
    }
}

/// The age of a token. The greatest counts: the session issued last, and in it the token renewed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenAge(Timestamp, Timestamp);

/// The kind of the address.
const IPV4: u8 = 0;
const IPV6: u8 = 1;

/// Bytes without the address: kind, port, destination, two times, nonce.
const FIXED_LEN: usize = 1 + 2 + 4 + 6 + 6 + 4;
const IPV4_LEN: usize = FIXED_LEN + 4;
pub(super) const MAX_LEN: usize = FIXED_LEN + 16;

pub(super) fn is_length(len: usize) -> bool {
    len == IPV4_LEN || len == MAX_LEN
}

impl Claims {
    /// The payload: kind of address, address, port, destination, issued at, last seen, nonce. Integers are big-endian,
    /// times are in milliseconds.
    pub(super) fn encode(&self, nonce: [u8; 4]) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_LEN);
        match self.host.ip() {
            IpAddr::V4(ip) => {
                out.push(IPV4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(IPV6);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&self.host.port().to_be_bytes());
        out.extend_from_slice(&self.destination.0);
        for time in [self.issued_at, self.last_seen] {
            // `Timestamp::MAX` ensures that the two high bytes are zero.
            out.extend(time.unix_millis().to_be_bytes().into_iter().skip(2));
        }
        out.extend_from_slice(&nonce);
        out
    }

    /// The inverse of [`Claims::encode`], with the nonce.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, [u8; 4])> {
        let mut reader = PayloadReader(bytes);
        let ip = match reader.take()? {
            [IPV4] => IpAddr::V4(Ipv4Addr::from(reader.take::<4>()?)),
            [IPV6] => IpAddr::V6(Ipv6Addr::from(reader.take::<16>()?)),
            _ => return None,
        };
        let port = u16::from_be_bytes(reader.take()?);
        let destination = DestinationId(reader.take()?);
        let issued_at = reader.time()?;
        let last_seen = reader.time()?;
        let nonce = reader.take()?;
        let claims = Self {
            host: SocketAddr::new(ip, port),
            destination,
            issued_at,
            last_seen,
        };
        reader.0.is_empty().then_some((claims, nonce))
    }
}

struct PayloadReader<'a>(&'a [u8]);

impl PayloadReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn time(&mut self) -> Option<Timestamp> {
        let bytes: [u8; 6] = self.take()?;
        let millis = bytes
            .into_iter()
            .fold(0, |millis, byte| (millis << 8) | u64::from(byte));
        Some(Timestamp::from_unix_millis(millis))
    }
}
