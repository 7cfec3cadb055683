//! Searches everything that a test can read for keys and addresses, in every spelling of bytes.
//!
//! A key is cut into pieces of 8 bytes: any 15 consecutive bytes contain a whole piece.

mod spellings;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, Engine};

use spellings::spellings;

/// A log does not contain 8 bytes of a key by chance.
const PIECE: usize = 8;

/// The values to search for.
#[derive(Debug, Default)]
pub struct Leaks {
    needles: Vec<Needle>,
    /// Built on first use.
    automaton: OnceLock<AhoCorasick>,
}

#[derive(Debug)]
struct Needle {
    what: String,
    spelling: String,
    bytes: Vec<u8>,
}

impl Leaks {
    /// Adds a base64 key: its bytes, and the base64 as text.
    ///
    /// # Errors
    /// If it is not base64.
    pub fn key(mut self, name: &str, base64: &str) -> Result<Self> {
        let bytes = BASE64_STANDARD.decode(base64).context("a key that is not base64")?;
        self.pieces(name, &bytes);
        self.pieces(&format!("{name}, in base64"), base64.trim_end_matches('=').as_bytes());
        Ok(self)
    }

    /// Adds a host's address, with and without port; it must be unique, unlike 127.0.0.1.
    #[must_use]
    pub fn host(mut self, name: &str, host: SocketAddr) -> Self {
        match host.ip() {
            IpAddr::V4(ip) => {
                let octets = ip.octets();
                self.both_ways(name, &octets);
                for number in [u32::from_be_bytes(octets), u32::from_le_bytes(octets)] {
                    self.add(name, "a number", number.to_string().into_bytes());
                }
                let [a, b] = [
                    u16::from_be_bytes([octets[0], octets[1]]),
                    u16::from_be_bytes([octets[2], octets[3]]),
                ];
                self.add(name, "groups of IPv6", format!("{a:x}:{b:x}").into_bytes());
            }
            IpAddr::V6(ip) => self.pieces(name, &ip.octets()),
        }
        // Envoy's own session cookie contains `ip:port` in base64.
        self.each_spelling(&format!("{name}, as text"), host.ip().to_string().as_bytes());
        self
    }

    /// The values in the haystack, once for each spelling, with surrounding text.
    ///
    /// # Errors
    /// If the search automaton cannot be built.
    pub fn find(&self, place: &str, haystack: impl AsRef<[u8]>) -> Result<Vec<String>> {
        let haystack = haystack.as_ref();
        let automaton = if let Some(made) = self.automaton.get() {
            made
        } else {
            let made = AhoCorasick::new(self.needles.iter().map(|needle| &needle.bytes)).context("no search")?;
            self.automaton.get_or_init(|| made)
        };
        let mut known = BTreeSet::new();
        let mut found = Vec::new();
        for hit in automaton.find_overlapping_iter(haystack) {
            let Needle { what, spelling, .. } = &self.needles[hit.pattern().as_usize()];
            if known.insert((what, spelling)) {
                let around = hit.start().saturating_sub(60)..(hit.end() + 60).min(haystack.len());
                let around = haystack[around].escape_ascii();
                found.push(format!("{place} shows {what} ({spelling}): …{around}…"));
            }
        }
        Ok(found)
    }

    /// Checks that the haystack contains none of the values.
    ///
    /// # Errors
    /// If it does.
    pub fn none_in(&self, place: &str, haystack: impl AsRef<[u8]>) -> Result<()> {
        let found = self.find(place, haystack)?;
        anyhow::ensure!(found.is_empty(), "{found:#?}");
        Ok(())
    }

    fn pieces(&mut self, what: &str, bytes: &[u8]) {
        for piece in bytes.chunks_exact(PIECE) {
            self.both_ways(what, piece);
        }
    }

    fn both_ways(&mut self, what: &str, bytes: &[u8]) {
        self.each_spelling(what, bytes);
        let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
        self.each_spelling(&format!("{what}, reversed"), &reversed);
    }

    fn each_spelling(&mut self, what: &str, bytes: &[u8]) {
        for (spelling, bytes) in spellings(bytes) {
            self.add(what, &spelling, bytes);
        }
    }

    fn add(&mut self, what: &str, spelling: &str, bytes: Vec<u8>) {
        self.automaton.take();
        self.needles.push(Needle {
            what: what.to_owned(),
            spelling: spelling.to_owned(),
            bytes,
        });
    }
}

#[cfg(test)]
mod tests;
