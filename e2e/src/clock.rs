//! Processes with a wrong clock.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::tools;

/// The environment of a process whose wall clock is off by `seconds`, with a right monotonic clock. A time namespace
/// would move only the monotonic clock, and libfaketime both.
///
/// # Errors
/// If there is no C compiler.
pub fn clock_off_by(seconds: i64) -> Result<[(&'static str, String); 2]> {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let library = if let Some((_, library)) = LIBRARY.get() {
        library
    } else {
        let made = compile()?;
        &LIBRARY.get_or_init(|| made).1
    };
    let library = library.to_str().context("a path that is no text")?;
    Ok([
        ("LD_PRELOAD", library.to_owned()),
        ("LIMPET_E2E_CLOCK", seconds.to_string()),
    ])
}

fn compile() -> Result<(TempDir, PathBuf)> {
    let directory = TempDir::with_prefix("limpet-e2e-")?;
    let library = directory.path().join("clock.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .arg(&library)
        .arg(tools::checkout().join("e2e/src/clock.c"))
        .output()
        .context("cannot run cc, the C compiler")?;
    let errors = String::from_utf8_lossy(&compiled.stderr);
    ensure!(compiled.status.success(), "cannot compile e2e/src/clock.c: {errors}");
    Ok((directory, library))
}
