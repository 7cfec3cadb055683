//! What a command writes: text for people or JSON for programs on stdout, complaints on stderr, and files.

use std::fs::Permissions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use clap::ValueEnum;
use serde_json::Value;

use crate::exit::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Writes to stdout. A reader that closes the pipe early (`| head`) causes no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_to(io::stdout(), text)
}

/// Writes text with colours to stdout. They are left out where stdout is no terminal, or `NO_COLOR` is set.
pub(crate) fn print_styled(text: &str) -> Result<(), Failure> {
    print_to(anstream::stdout(), text)
}

fn print_to(mut stdout: impl Write, text: &str) -> Result<(), Failure> {
    match stdout.write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure(format!("cannot write the output: {error}")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn complain(text: &str) {
    // If even that fails, nothing is left to do.
    let _ = io::stderr().write_all(text.as_bytes());
}

pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// Writes a file and the directories around it. The file appears in one step, since an Envoy may be watching it; a
/// `secret` one is for its owner only.
///
/// # Errors
/// If the file or a directory cannot be written.
pub(crate) fn write_file(file: &Path, text: &str, secret: bool) -> Result<(), Failure> {
    let written = || {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let permissions = Permissions::from_mode(if secret { 0o600 } else { 0o644 });
        let mut new = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
        new.write_all(text.as_bytes())?;
        new.persist(file).map_err(|error| error.error).map(drop)
    };
    written().map_err(|error: io::Error| Failure(format!("{}: cannot be written: {error}", file.display())))
}

/// Rows of a label and a text, in two aligned columns.
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
