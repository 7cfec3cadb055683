//! What is left of keys in the memory of a process that uses them: nothing of the keys, of what HKDF makes of them, or
//! of HMAC's padded copies. Once other keys replaced them, HMAC's states are gone too.
//!
//! A child process uses keys by the filter's functions. This one searches its memory, like an attacker with a core
//! dump, and computes the secrets itself, so it cannot search its own. Linux only.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "two processes that talk, where the core does no I/O"
)]

mod child;
mod search;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::keyring::wrapped::wrap;
use limpet_core::keyring::{KeyEntry, KeyId, KeyState, Secret};
use search::{Needles, key};

const TOKEN_LABELS: [&str; 2] = ["limpet token v1 mac", "limpet token v1 encipher"];
const KEYRING_LABELS: [&str; 2] = ["limpet keyring v1 mac", "limpet keyring v1 encipher"];

/// The child's keys: one in its environment, and two in keyrings.
const ENVIRONMENT: u8 = 29;
const KEYRING: [u8; 2] = [43, 71];
const NEXT: u8 = 89;

fn main() {
    if std::env::var_os(child::VARIABLE).is_some() {
        return child::main();
    }
    let document = std::env::temp_dir().join(format!("limpet-memory-{}.json", std::process::id()));
    std::fs::write(&document, keyring_document()).expect("a file");
    let remains = child::WAYS.map(|way| remains(way, &document));
    std::fs::remove_file(&document).expect("the file");
    let remains: Vec<_> = remains.into_iter().flatten().collect();
    assert!(remains.is_empty(), "in memory: {remains:#?}");
}

fn remains(way: &str, document: &Path) -> Vec<String> {
    let mut process = Process::start(way, document);
    let mut remains = Vec::new();
    for stage in [child::IN_USE, child::REPLACED] {
        process.until(stage);
        let found = needles(stage).search(process.child.id()).expect("the child's memory");
        remains.extend(
            found
                .into_iter()
                .map(|what| format!("keys from {way}, {stage}: {what}")),
        );
        process.go_on();
    }
    println!("keys from {way}: searched");
    remains
}

fn needles(stage: &str) -> Needles {
    let mut needles = Needles::default();
    let labels = TOKEN_LABELS.into_iter().chain(KEYRING_LABELS).collect::<Vec<_>>();
    for number in KEYRING.into_iter().chain([ENVIRONMENT]) {
        let name = format!("key {number}");
        needles.key(&name, &key(number), &labels);
        if stage == child::REPLACED {
            needles.states(&name, &key(number), &labels);
        }
        // The environment of a process stays what it is.
        if stage == child::REPLACED && number != ENVIRONMENT {
            needles.text(&format!("{name} in base64"), &STANDARD.encode(key(number)));
        }
    }
    needles
}

fn keyring_document() -> String {
    let [signing, verifying] = KEYRING.map(|number| STANDARD.encode(key(number)));
    format!(
        r#"{{"keys": [{{"id": 1, "state": "signing", "secret": "{signing}"}},
            {{"id": 2, "state": "verifying", "secret": "{verifying}"}}]}}"#
    )
}

fn wrapped_keyring() -> String {
    let states = [KeyState::Signing, KeyState::Verifying];
    let entries = (1..).zip(KEYRING).zip(states).map(|((id, number), state)| KeyEntry {
        id: KeyId(id),
        state,
        secret: Some(Secret::new(key(number))),
    });
    wrap(&entries.collect::<Vec<_>>(), KeyId(1), &Secret::new(key(ENVIRONMENT))).expect("a keyring")
}

struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    fn start(way: &str, document: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .env(child::VARIABLE, way)
            .env(child::KEY, STANDARD.encode(key(ENVIRONMENT)))
            .env(child::NEXT, STANDARD.encode(key(NEXT)))
            .env(child::WRAPPED, wrapped_keyring())
            .env(child::DOCUMENT, document)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, stdin, stdout }
    }

    fn until(&mut self, stage: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line of the child");
        assert_eq!(line.trim_end(), stage);
    }

    fn go_on(&mut self) {
        writeln!(self.stdin).expect("the child reads");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
