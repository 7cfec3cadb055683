//! Addresses.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result, bail, ensure};

/// The next network's number. Free networks follow in turn, so none is reused soon.
static NEXT: AtomicU8 = AtomicU8::new(1);

/// The addresses 10.66.N.1 to 10.66.N.254, reserved with all ports until it is dropped.
#[derive(Debug)]
pub struct Network {
    number: u8,
    /// A listener at 10.66.N.255 that marks the network as taken.
    _taken: TcpListener,
    next: AtomicU8,
}

impl Network {
    /// Reserves the next free network.
    ///
    /// # Errors
    /// If such addresses are not local, or all 254 networks are taken.
    pub fn claim() -> Result<Self> {
        for _ in 0..=u8::MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            // Tests have clients' addresses in the last one.
            if !(1..255).contains(&number) {
                continue;
            }
            match TcpListener::bind(SocketAddr::new(address(number, 255), 1)) {
                Ok(taken) => {
                    return Ok(Self {
                        number,
                        _taken: taken,
                        next: AtomicU8::new(1),
                    });
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!(
                            "10.66.{number}.255 is not an address of this machine: `make e2e-kube` runs the tests in \
                             a network namespace (e2e/tools/in-netns.sh COMMAND...)"
                        )
                    });
                }
            }
        }
        bail!("all networks are taken")
    }

    /// An unused address.
    ///
    /// # Errors
    /// If all 254 are used.
    pub fn next(&self) -> Result<IpAddr> {
        let host = self.next.fetch_add(1, Ordering::Relaxed);
        ensure!(
            (1..255).contains(&host),
            "no address is left in 10.66.{}.0/24",
            self.number
        );
        Ok(address(self.number, host))
    }
}

fn address(number: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 66, number, host))
}
