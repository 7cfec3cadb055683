//! Sockets of the kernel.

use std::net::{IpAddr, SocketAddr};

/// `ESTABLISHED`, `FIN_WAIT1` and `FIN_WAIT2` in /proc/net/tcp: the client has not closed its side.
const LEFT: [&str; 3] = ["01", "04", "05"];

/// Whether a client has not closed a connection to this address, even if the server has. `false` if unknown.
pub(super) fn have_clients(address: SocketAddr) -> bool {
    let (table, written) = match address.ip() {
        IpAddr::V4(ip) => ("/proc/net/tcp", hexadecimal(&ip.octets())),
        IpAddr::V6(ip) => ("/proc/net/tcp6", hexadecimal(&ip.octets())),
    };
    let local = format!("{written}:{:04X}", address.port());
    let sockets = std::fs::read_to_string(table).unwrap_or_default();
    sockets.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1).is_some_and(|state| LEFT.contains(&state))
    })
}

/// Words of four bytes in the machine's order.
fn hexadecimal(octets: &[u8]) -> String {
    let words = octets.chunks_exact(4).filter_map(|word| word.try_into().ok());
    let words: Vec<_> = words.map(|word| format!("{:08X}", u32::from_ne_bytes(word))).collect();
    words.concat()
}
