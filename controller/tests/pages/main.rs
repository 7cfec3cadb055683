//! Each block of YAML of a page is checked, each command is parsed by its program, and each transcript that says so is
//! run.
#![cfg(feature = "controller")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod chart;
mod commands;
mod excerpts;
mod features;
mod objects;
mod selectors;
mod shell;
mod transcripts;
mod yaml;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use limpet_repo_tests::{Block, Page};
use tempfile::TempDir;

pub(crate) const LIMPET: &str = env!("CARGO_BIN_EXE_limpet");
/// The key of the tests. It is public.
const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn checkout() -> PathBuf {
    limpet_repo_tests::checkout()
}

/// Pages with tested blocks, by paths relative to the checkout.
fn pages() -> Vec<(String, Page)> {
    let pages = limpet_repo_tests::with_tested_blocks().unwrap();
    let parsed = pages.iter().map(|path| {
        let text = fs::read_to_string(checkout().join(path)).unwrap();
        (path.display().to_string(), Page::parse(&text))
    });
    parsed.collect()
}

/// The blocks in one of these languages, by page and line.
fn blocks(languages: &[&str]) -> Vec<(String, Block)> {
    let mut found = Vec::new();
    for (path, page) in pages() {
        for block in page.blocks {
            if languages.contains(&block.language.as_str()) {
                found.push((format!("{path}:{}", block.line), block));
            }
        }
    }
    assert!(!found.is_empty(), "no block in {languages:?}");
    found
}

/// Reports all problems at once.
#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

fn copy_of_the_checkout() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for part in ["envoy-configs", "controller/deploy", "controller/tests/golden/cases"] {
        copy(&checkout().join(part), &folder.path().join(part));
    }
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Exit code and output for a file with this text, with every variable of keys that pages name.
fn limpet_on(text: &str, args: &[&str]) -> (Option<i32>, String) {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    let mut command = Command::new(LIMPET);
    for name in [
        "LIMPET_KEY",
        "LIMPET_KEY_1",
        "LIMPET_KEY_2",
        "LIMPET_KEK_1",
        "LIMPET_KEK_2",
    ] {
        command.env(name, KEY);
    }
    let output = command.args(args).arg(file.path()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}
