//! TLS handshakes up to the server's first answer, byte for byte: libraries do not speak 1.1.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use limpet_e2e::poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) const V1_1: u16 = 0x0302;
pub(super) const V1_2: u16 = 0x0303;
pub(super) const V1_3: u16 = 0x0304;

/// The first message of a client that speaks only this version.
#[derive(Debug)]
pub(super) struct Hello<'a> {
    pub(super) version: u16,
    pub(super) name: Option<&'a str>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It continues in this version.
    Speaks(u16),
    /// It does not speak the version (`protocol_version`).
    NotThisVersion,
    /// Another alert.
    Alert(u8),
    /// It closes the connection.
    Nothing,
}

const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const PROTOCOL_VERSION: u8 = 70;

impl Hello<'_> {
    pub(super) async fn say(&self, to: SocketAddr) -> Result<Said> {
        let mut stream = TcpStream::connect(to).await?;
        stream.write_all(&self.record()).await?;
        let mut answer = Vec::new();
        poll::patiently("the answer to a TLS hello", async {
            loop {
                let Some(length) = record_length(&answer) else {
                    match stream.read_buf(&mut answer).await {
                        Ok(1..) => continue,
                        // Nothing, or a reset.
                        Ok(0) | Err(_) => return Ok(()),
                    }
                };
                if answer.len() >= length || stream.read_buf(&mut answer).await? == 0 {
                    return Ok(());
                }
            }
        })
        .await?;
        match answer.as_slice() {
            [] => Ok(Said::Nothing),
            [ALERT, _, _, _, _, _, PROTOCOL_VERSION, ..] => Ok(Said::NotThisVersion),
            [ALERT, _, _, _, _, _, alert, ..] => Ok(Said::Alert(*alert)),
            [HANDSHAKE, _, _, _, _, hello @ ..] => Ok(Said::Speaks(version(hello)?)),
            _ => bail!("not an answer of TLS: {answer:?}"),
        }
    }

    fn record(&self) -> Vec<u8> {
        let mut extensions = vec![
            // Groups: x25519, secp256r1.
            extension(10, &counted(&[0, 29, 0, 23])),
            extension(11, &[1, 0]),
            // Signatures: ECDSA and RSA with SHA-256, RSA-PSS with SHA-256, and those of 1.1.
            extension(13, &counted(&[4, 3, 4, 1, 8, 4, 2, 3, 2, 1])),
        ];
        if let Some(name) = self.name {
            extensions.push(extension(
                0,
                &counted(&[&[0], counted(name.as_bytes()).as_slice()].concat()),
            ));
        }
        if self.version == V1_3 {
            extensions.push(extension(43, &[2, 3, 4]));
            // No key yet: the server asks for one.
            extensions.push(extension(51, &[0, 0]));
        }
        let suites: &[u8] = if self.version == V1_3 {
            &[0x13, 1, 0x13, 2, 0x13, 3]
        } else {
            // ECDHE with AES-GCM; for 1.1 with AES-CBC, then only AES-CBC.
            &[
                0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x09, 0xc0, 0x13, 0xc0, 0x0a, 0xc0, 0x14, 0, 0x2f, 0, 0x35,
            ]
        };
        let body = [
            self.version.min(V1_2).to_be_bytes().as_slice(),
            &[7; 32],
            &[0],
            &counted(suites),
            &[1, 0],
            &counted(&extensions.concat()),
        ]
        .concat();
        let message = [&[1, 0], counted(&body).as_slice()].concat();
        [&[HANDSHAKE, 3, 1], counted(&message).as_slice()].concat()
    }
}

/// The length of the first complete record with its head.
fn record_length(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [_, _, _, high, low, ..] => Some(5 + usize::from(u16::from_be_bytes([*high, *low]))),
        _ => None,
    }
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [length.to_be_bytes().as_slice(), bytes].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().as_slice(), &counted(content)].concat()
}

/// The version that a server hello chooses, since 1.3 in an extension.
fn version(hello: &[u8]) -> Result<u16> {
    let [2, _, _, _, high, low, rest @ ..] = hello else {
        bail!("not a server hello: {hello:?}");
    };
    // The random bytes, the session's id, the suite and the compression.
    let id = usize::from(rest.get(32).copied().unwrap_or_default());
    let mut extensions = rest.get(32 + 1 + id + 3 + 2..).unwrap_or_default();
    while let [kind_high, kind_low, length_high, length_low, after @ ..] = extensions {
        let length = usize::from(u16::from_be_bytes([*length_high, *length_low]));
        if let ([0, 43], [high, low, ..]) = ([*kind_high, *kind_low], after) {
            return Ok(u16::from_be_bytes([*high, *low]));
        }
        extensions = after.get(length..).unwrap_or_default();
    }
    Ok(u16::from_be_bytes([*high, *low]))
}
