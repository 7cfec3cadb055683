//! A DNS server that knows a few names.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

/// Answers for other names that they have no addresses. Stops when dropped.
#[derive(Debug)]
pub(super) struct Dns {
    address: SocketAddr,
    task: AbortHandle,
}

impl Dns {
    /// Listens on a free port of 127.0.0.1.
    pub(super) async fn start(names: &[(&str, &[Ipv4Addr])]) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let names = names
            .iter()
            .map(|(name, addresses)| ((*name).to_owned(), addresses.to_vec()));
        let names: BTreeMap<String, Vec<Ipv4Addr>> = names.collect();
        let address = socket.local_addr()?;
        let task = tokio::spawn(async move {
            let mut query = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut query).await {
                if let Some(answer) = query.get(..length).and_then(|query| answer(query, &names)) {
                    // A client without the answer asks again.
                    let _ = socket.send_to(&answer, from).await;
                }
            }
        });
        Ok(Self {
            address,
            task: task.abort_handle(),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The answer to a query of one question, without what follows the question.
fn answer(query: &[u8], names: &BTreeMap<String, Vec<Ipv4Addr>>) -> Option<Vec<u8>> {
    const HEAD: usize = 12;
    let mut labels = Vec::new();
    let mut at = HEAD;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let question = query.get(HEAD..at + 4)?;
    let asks_for_ipv4 = question.ends_with(&[0, 1, 0, 1]);
    let found = names.get(&labels.join(".")).filter(|_| asks_for_ipv4);
    let found = found.map(Vec::as_slice).unwrap_or_default();
    let mut answer = query.get(..2)?.to_vec();
    // A response with recursion, one question, and an answer for each address.
    answer.extend([0x81, 0x80, 0, 1]);
    answer.extend(u16::try_from(found.len()).ok()?.to_be_bytes());
    answer.extend([0; 4]);
    answer.extend(question);
    for address in found {
        // The name of the question, type A, class IN, a minute, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}
