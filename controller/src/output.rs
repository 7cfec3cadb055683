//! The two forms of output: text for people, JSON for programs. Both go to stdout, complaints to stderr.

use std::io::{self, ErrorKind, Write};

use clap::ValueEnum;
use serde_json::Value;

use crate::exit::Failure;

/// The form of a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Writes to stdout. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure(format!("can not write the output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes to stderr.
pub(crate) fn complain(text: &str) {
    // Nothing is left to do where even that fails.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes JSON to stdout.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// Rows of a label and what it says, the second column aligned.
#[derive(Debug, Default)]
pub(crate) struct Rows(Vec<(&'static str, String)>);

impl Rows {
    pub(crate) fn add(&mut self, label: &'static str, text: impl Into<String>) {
        self.0.push((label, text.into()));
    }

    pub(crate) fn text(&self) -> String {
        let width = self.0.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        let line = |(label, text): &(&str, String)| format!("{label:width$}  {text}\n");
        self.0.iter().map(line).collect()
    }
}
