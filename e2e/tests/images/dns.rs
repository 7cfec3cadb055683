use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result};
use tokio::net::UdpSocket;

const HEADER: usize = 12;

/// The type of a question for an IPv4 address.
const A: [u8; 2] = [0, 1];

/// The end of a query's name, behind its last label.
fn end_of_name(query: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    while *query.get(at)? != 0 {
        at += 1 + usize::from(query[at]);
    }
    Some(at + 1)
}

/// Each label behind its length.
fn encoded(name: &str) -> Vec<u8> {
    let labels = name.split('.').map(str::as_bytes);
    let lengths = labels.flat_map(|label| [&[u8::try_from(label.len()).unwrap_or_default()], label].concat());
    lengths.chain([0]).collect()
}

/// The address, or that there is nothing.
fn answer(query: &[u8], name: &str, address: Ipv4Addr) -> Option<Vec<u8>> {
    let end = end_of_name(query)?;
    let question = query.get(HEADER..end + 4)?;
    let is_known = query[HEADER..end] == encoded(name);
    let has_address = is_known && question[end - HEADER..][..2] == A;
    // An answer without error, or that there is no such name.
    let mut response = [&query[..2], &[0x81, if is_known { 0x80 } else { 0x83 }, 0, 1]].concat();
    response.extend([0, u8::from(has_address), 0, 0, 0, 0]);
    response.extend(question);
    if has_address {
        // The question's name, A, IN, one minute, four bytes.
        response.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        response.extend(address.octets());
    }
    Some(response)
}

/// Serves a name in this namespace until the test ends.
pub(crate) async fn serve(at: Ipv4Addr, name: &'static str, address: Ipv4Addr) -> Result<()> {
    let socket = UdpSocket::bind(SocketAddrV4::new(at, 53)).await.context("DNS server")?;
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            if let Some(response) = answer(&buffer[..length], name, address) {
                // The client is gone.
                drop(socket.send_to(&response, client).await);
            }
        }
    });
    Ok(())
}
