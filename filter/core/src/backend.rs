use std::net::SocketAddr;
use std::time::Duration;

use crate::token::DestinationId;

/// A backend and an idle bound. Its sessions with other bounds are counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Backend {
    /// The cluster.
    pub destination: DestinationId,
    /// The host of the cluster.
    pub host: SocketAddr,
    /// Whole seconds after the last request until a session is over.
    pub live_for: u32,
}

impl Backend {
    /// All backends that are not counted separately.
    pub const OTHERS: Self = Self {
        destination: DestinationId([0; 4]),
        host: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
        live_for: 0,
    };

    /// A backend with this idle bound, rounded up to seconds.
    #[must_use]
    pub fn new(destination: DestinationId, host: SocketAddr, live_for: Duration) -> Self {
        Self {
            destination,
            host,
            live_for: whole_seconds(live_for),
        }
    }

    /// Whether it stands for [`Self::OTHERS`].
    #[must_use]
    pub fn is_others(&self) -> bool {
        self.host == Self::OTHERS.host
    }
}

/// Whole seconds, rounded up, at least one.
pub(crate) fn whole_seconds(live_for: Duration) -> u32 {
    let seconds = live_for.as_millis().div_ceil(1000).max(1);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}
