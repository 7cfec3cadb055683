//! Searches another process's memory for secrets, in the forms that computing with them leaves behind.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use hkdf::Hkdf;
use memchr::memmem::Finder;
use sha2::Sha256;

/// Bytes of a form that are compared at once: one vector register.
const LEN: usize = 16;
const PAGE: usize = 4096;
const ZEROS: [u8; PAGE + LEN - 1] = [0; PAGE + LEN - 1];
const IPAD: u8 = 0x36;
const OPAD: u8 = 0x5c;

/// Secrets, with the name of what was found.
#[derive(Default)]
pub(crate) struct Needles(HashMap<[u8; LEN], String>);

impl Needles {
    /// A secret key, what HKDF makes of it, and the keys with these labels.
    pub(crate) fn key(&mut self, name: &str, key: &[u8; 32], labels: &[&str]) {
        self.block(name, key);
        let (prk, hkdf) = Hkdf::<Sha256>::extract(None, key);
        self.block(&format!("{name}, extracted"), &prk.into());
        for label in labels {
            self.block(&format!("{name}, {label}"), &derived(&hkdf, label));
        }
    }

    /// The states of HMAC with these labels' keys, which are as good as the keys.
    pub(crate) fn states(&mut self, name: &str, key: &[u8; 32], labels: &[&str]) {
        let (_, hkdf) = Hkdf::<Sha256>::extract(None, key);
        for label in labels {
            for (pad, of) in [(IPAD, "inner"), (OPAD, "outer")] {
                let mut block = [pad; 64];
                for (byte, key) in block.iter_mut().zip(derived(&hkdf, label)) {
                    *byte ^= key;
                }
                let mut state = IV;
                sha2::block_api::compress256(&mut state, &[block]);
                let bytes: Vec<u8> = state.iter().flat_map(|word| word.to_ne_bytes()).collect();
                self.halves(&format!("{name}, {label}, {of} state"), &bytes);
            }
        }
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.halves(name, text.as_bytes());
    }

    /// Bytes that HMAC or SHA-256 reads, as they are, padded, and as words.
    fn block(&mut self, name: &str, bytes: &[u8; 32]) {
        for (form, pad) in [("", 0), (" with the inner pad", IPAD), (" with the outer pad", OPAD)] {
            let padded = bytes.map(|byte| byte ^ pad);
            self.halves(&format!("{name}{form}"), &padded);
            let words: Vec<u8> = padded.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
            self.halves(&format!("{name}{form}, as words"), &words);
        }
    }

    fn halves(&mut self, name: &str, bytes: &[u8]) {
        for half in bytes.chunks_exact(LEN) {
            self.0.insert(half.try_into().expect("16 bytes"), name.to_owned());
        }
    }

    /// The names of the needles in a process's writable memory, each with its region.
    pub(crate) fn search(&self, process: u32) -> io::Result<BTreeSet<String>> {
        let finders: Vec<_> = self
            .0
            .iter()
            .map(|(needle, name)| (Finder::new(needle), name))
            .collect();
        let mut found = BTreeSet::new();
        let mut memory = File::open(format!("/proc/{process}/mem"))?;
        for (region, start, len) in regions(process)? {
            let mut bytes = vec![0; len];
            memory.seek(SeekFrom::Start(start))?;
            // A region may be unmapped meanwhile.
            if memory.read_exact(&mut bytes).is_err() {
                continue;
            }
            for page in (0..len).step_by(PAGE) {
                // Also what begins in this page and ends in the next one.
                let page = &bytes[page..len.min(page + PAGE + LEN - 1)];
                // Most of what a virtual machine reserves was never used.
                if page == &ZEROS[..page.len()] {
                    continue;
                }
                let here = finders.iter().filter(|(finder, _)| finder.find(page).is_some());
                found.extend(here.map(|(_, name)| format!("{name} ({region})")));
            }
        }
        Ok(found)
    }
}

/// Keys that occur nowhere by chance.
pub(crate) fn key(number: u8) -> [u8; 32] {
    std::array::from_fn(|i| {
        u8::try_from(i)
            .unwrap_or_default()
            .wrapping_mul(number)
            .wrapping_add(0x5a)
    })
}

/// The initial state of SHA-256 (FIPS 180-4, 5.3.3).
const IV: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

fn derived(hkdf: &Hkdf<Sha256>, label: &str) -> [u8; 32] {
    let mut key = [0; 32];
    hkdf.expand(label.as_bytes(), &mut key).expect("32 bytes are few");
    key
}

/// More than any machine has: a sanitizer's map of usable addresses.
const RESERVED: usize = 1 << 40;

fn regions(process: u32) -> io::Result<Vec<(String, u64, usize)>> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    let region = |line: &str| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        let writable = words.next()?.starts_with("rw");
        let name = words.nth(3).unwrap_or("anonymous");
        writable.then(|| Some((name.to_owned(), start, usize::try_from(end - start).ok()?)))?
    };
    Ok(maps
        .lines()
        .filter_map(region)
        .filter(|(_, _, len)| *len < RESERVED)
        .collect())
}
