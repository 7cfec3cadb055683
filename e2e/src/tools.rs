//! What the tests need from outside: Envoy, the filter, the `limpet` binary, func-e. `make e2e` builds or fetches them and names them
//! in the environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// The checkout.
#[must_use]
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
        .to_path_buf()
}

/// The Envoy under test (`ENVOY_BIN`).
///
/// # Errors
/// As [`from_environment`].
pub fn envoy() -> Result<PathBuf> {
    from_environment("ENVOY_BIN")
}

/// The filter under test (`LIMPET_WASM`).
///
/// # Errors
/// As [`from_environment`].
pub fn wasm() -> Result<PathBuf> {
    from_environment("LIMPET_WASM")
}

/// The `limpet` binary (`LIMPET_BIN`).
///
/// # Errors
/// As [`from_environment`].
pub fn limpet() -> Result<PathBuf> {
    from_environment("LIMPET_BIN")
}

/// func-e (`FUNC_E`).
///
/// # Errors
/// As [`from_environment`].
pub fn func_e() -> Result<PathBuf> {
    from_environment("FUNC_E")
}

/// The HAProxy to compare with (`HAPROXY`).
///
/// # Errors
/// As [`from_environment`].
pub fn haproxy() -> Result<PathBuf> {
    from_environment("HAPROXY")
}

/// Runs `limpet` in the checkout with these arguments, and with `env` in its environment.
///
/// # Errors
/// When there is no such binary, or it can not be started.
pub fn run_limpet(arguments: &[&str], env: &[(&str, &str)]) -> Result<Output> {
    let limpet = limpet()?;
    Command::new(&limpet)
        .args(arguments)
        .envs(env.iter().copied())
        .current_dir(checkout())
        .output()
        .with_context(|| format!("can not run {}", limpet.display()))
}

/// The file that an environment variable names.
///
/// # Errors
/// When the variable is not set or names no file; the message says what to do.
fn from_environment(variable: &str) -> Result<PathBuf> {
    let Some(value) = std::env::var_os(variable) else {
        bail!("{variable} is not set. `make e2e` builds and fetches what the tests need, and runs them.");
    };
    let path = checkout().join(value);
    if !path.is_file() {
        bail!(
            "{variable} names {}, which is not there. `make e2e` makes it.",
            path.display()
        );
    }
    Ok(path)
}
