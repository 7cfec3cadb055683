//! Addresses of backends as Envoy writes them.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;

/// `ip:port` as Envoy writes it, without an allocation.
#[derive(Debug, Clone, Copy)]
pub struct AddressText {
    bytes: [u8; Self::MAX],
    len: usize,
}

/// Writes `ip:port`. IPv4 bypasses the standard library: its code is large and, used once per request, not in the CPU's
/// caches, as measurements showed.
#[must_use]
pub fn text(host: SocketAddr) -> AddressText {
    let mut text = AddressText {
        bytes: [0; AddressText::MAX],
        len: 0,
    };
    let SocketAddr::V4(host) = host else {
        // It has room for every address.
        let _ = write!(text, "{host}");
        return text;
    };
    let [a, b, c, d] = host.ip().octets();
    for (number, behind) in [(a, b'.'), (b, b'.'), (c, b'.'), (d, b':')] {
        text.push_number(number.into());
        text.push_byte(behind);
    }
    text.push_number(host.port());
    text
}

impl AddressText {
    /// Bytes of the longest address, with its zone.
    const MAX: usize = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535".len();

    fn push_byte(&mut self, byte: u8) {
        if let Some(room) = self.bytes.get_mut(self.len) {
            *room = byte;
            self.len += 1;
        }
    }

    fn push_number(&mut self, number: u16) {
        for power in [10_000, 1000, 100, 10] {
            if number >= power {
                self.push_byte(b'0' + (number / power % 10) as u8);
            }
        }
        self.push_byte(b'0' + (number % 10) as u8);
    }

    fn push(&mut self, part: &str) {
        let end = self.len + part.len();
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(part.as_bytes());
            self.len = end;
        }
    }

    /// The text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Write for AddressText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.push(part);
        Ok(())
    }
}

/// The address, unless it has an IPv6 zone, which has another meaning on every machine.
pub(crate) fn addressable(address: &[u8]) -> Option<SocketAddr> {
    let host = std::str::from_utf8(address).ok()?.parse().ok()?;
    match host {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => None,
        host => Some(host),
    }
}

pub(crate) fn of_host(address: &[u8]) -> Option<SocketAddr> {
    addressable(address).filter(|host| host.port() != 0 && !host.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_standard_library_does() {
        for host in [
            "0.0.0.0:0",
            "10.0.0.7:8080",
            "9.99.100.109:1009",
            "1.20.200.205:10000",
            "255.255.255.255:65535",
            "[::1]:80",
            "[2001:db8::7]:443",
            "[fe80::ffff:ffff:ffff:ffff%4294967295]:65535",
        ] {
            assert_eq!(text(host.parse().unwrap()).as_bytes(), host.as_bytes());
        }
    }
}
