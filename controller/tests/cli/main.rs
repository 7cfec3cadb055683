//! The `limpet` command as a person or a program runs it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a test may panic, and has long tables"
)]

mod addresses;
mod chain;
mod check;
mod clusters;
#[cfg(feature = "controller")]
mod controller;
mod destinations;
mod docs;
mod docs_tables;
mod drain;
mod dynamic_module;
mod envoy_gateway;
#[cfg(feature = "controller")]
mod explain;
#[cfg(feature = "controller")]
mod explain_inputs;
mod filter_configs;
mod install;
mod keys;
#[cfg(feature = "controller")]
mod migrate;
mod minimal;
mod modes;
#[cfg(feature = "controller")]
mod overview;
mod per_route;
#[cfg(feature = "controller")]
mod render;
mod routes;
mod sds_keys;
mod shell;
mod specifiers;
mod splits;
mod token;
mod tools_only;
mod wait_drained;
mod wrapped_keys;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};

/// The key of the tests. It is public.
const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const OTHER_KEY: &str = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

struct Limpet(Command);

#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn limpet(args: &[&str]) -> Limpet {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limpet"));
    command.args(args).current_dir(checkout());
    for name in [
        "LIMPET_KEY",
        "LIMPET_KEY_1",
        "LIMPET_KEY_2",
        "LIMPET_KEK_1",
        "LIMPET_KEK_2",
    ] {
        command.env_remove(name);
    }
    Limpet(command)
}

impl Limpet {
    fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    fn within(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    fn run(self) -> Ran {
        self.run_with("")
    }

    fn run_with(mut self, stdin: &str) -> Ran {
        let piped = self
            .0
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        // A command that refuses its arguments reads nothing.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        let ran = Ran {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        for key in [KEY, OTHER_KEY] {
            assert!(
                !ran.stdout.contains(key) && !ran.stderr.contains(key),
                "a key is in the output: {ran:?}"
            );
        }
        ran
    }
}

impl Ran {
    #[track_caller]
    fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    fn complains(self, of: &str) -> Self {
        assert!(self.stderr.contains(of), "{of:?} is not in {self:?}");
        self
    }

    #[track_caller]
    fn says(self, what: &str) -> Self {
        assert!(self.stdout.contains(what), "{what:?} is not in {self:?}");
        self
    }
}

fn file(ending: &str, text: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(ending).tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

fn folder() -> TempDir {
    TempDir::new().unwrap()
}

fn example(name: &str) -> Value {
    let text = std::fs::read_to_string(checkout().join("envoy-configs").join(name)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn findings(document: &Value) -> (i32, Vec<String>) {
    let file = file(".json", &document.to_string());
    let ran = limpet(&["check", path(&file), "-o", "json"])
        .env("LIMPET_KEY", KEY)
        .run();
    let json = ran.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = json["files"][0]["findings"].as_array().unwrap().iter().map(|finding| {
        let parts = ["severity", "path", "field", "message"].map(|part| text(&finding[part]));
        parts.join(" | ")
    });
    let found: Vec<String> = found.collect();
    let has = |severity: &str| found.iter().any(|finding| finding.starts_with(severity));
    let expected = match (has("error"), has("warning")) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    };
    assert_eq!(ran.code, expected, "{found:#?}");
    (ran.code, found)
}

/// Asserts that a document has one finding: severity, end of its place, and part of its message.
#[track_caller]
fn assert_one(document: &Value, severity: &str, place: &str, message: &str) {
    let (code, found) = findings(document);
    assert_eq!(found.len(), 1, "{found:#?}");
    let parts: Vec<&str> = found[0].splitn(3, " | ").collect();
    assert_eq!(parts[0], severity, "{found:#?}");
    assert!(parts[1].ends_with(place), "{found:#?}");
    assert!(parts[2].contains(message), "{found:#?}");
    let by_severity = ["note", "warning", "error"].iter().position(|one| *one == severity);
    assert_eq!(usize::try_from(code).ok(), by_severity, "{found:#?}");
}
