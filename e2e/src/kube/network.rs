//! Addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result, ensure};

/// The third number of the next network's addresses.
static NEXT: AtomicU8 = AtomicU8::new(1);

/// Addresses 10.66.N.1 to 10.66.N.254, for one user alone: every port is free there.
#[derive(Debug)]
pub struct Network {
    number: u8,
    next: AtomicU8,
}

impl Network {
    /// The next free one.
    ///
    /// # Errors
    /// When such addresses are not this machine's: the message says how to get there. Or when all 255 are taken.
    pub fn claim() -> Result<Self> {
        let number = NEXT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| number.checked_add(1))
            .ok()
            .context("all networks are taken")?;
        let network = Self {
            number,
            next: AtomicU8::new(1),
        };
        TcpListener::bind(SocketAddr::new(network.address(1), 0)).with_context(|| {
            format!(
                "10.66.{number}.1 is no address of this machine: `make e2e-kube` runs the tests in a network namespace of their own \
                 (e2e/tools/in-netns.sh COMMAND...)"
            )
        })?;
        Ok(network)
    }

    /// An address that nobody was given yet.
    ///
    /// # Errors
    /// When all 254 are taken.
    pub fn next(&self) -> Result<IpAddr> {
        let host = self.next.fetch_add(1, Ordering::Relaxed);
        ensure!(
            (1..255).contains(&host),
            "no address is left in 10.66.{}.0/24",
            self.number
        );
        Ok(self.address(host))
    }

    fn address(&self, host: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 66, self.number, host))
    }
}
