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

/// Major and minor version of the Envoy under test.
///
/// # Errors
/// When it can not be run, or says no version.
pub fn envoy_version() -> Result<(u32, u32)> {
    let output = Command::new(envoy()?).arg("--version").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // `… version: <commit>/<version>/Clean/RELEASE/BoringSSL`
    let version = said.split('/').find_map(|word| {
        let mut numbers = word.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    });
    version.with_context(|| format!("no version in: {said}"))
}

/// An Envoy that is too old for the dynamic module (`ENVOY_TOO_OLD`).
///
/// # Errors
/// As [`from_environment`].
pub fn old_envoy() -> Result<PathBuf> {
    from_environment("ENVOY_TOO_OLD")
}

/// The filter as a wasm file (`LIMPET_WASM`).
///
/// # Errors
/// As [`from_environment`].
pub fn wasm() -> Result<PathBuf> {
    from_environment("LIMPET_WASM")
}

/// The filter as a dynamic module (`LIMPET_MODULE`): a file `liblimpet.so`, in whatever directory.
///
/// # Errors
/// As [`from_environment`].
pub fn module() -> Result<PathBuf> {
    from_environment("LIMPET_MODULE")
}

/// The dynamic module with panics on demand (`LIMPET_PANICKING_MODULE`): a file `liblimpet.so`, in whatever directory.
///
/// # Errors
/// As [`from_environment`].
pub fn panicking_module() -> Result<PathBuf> {
    from_environment("LIMPET_PANICKING_MODULE")
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

/// A program of a Kubernetes control plane (`KUBE_BIN`, a directory): `etcd`, `kube-apiserver` or `kube-controllers`.
///
/// # Errors
/// When the variable is not set or the program is not there; the message says what to do.
#[cfg(feature = "kube")]
pub fn kube(program: &str) -> Result<PathBuf> {
    let file = directory("KUBE_BIN")?.join(program);
    if !file.is_file() {
        bail!("KUBE_BIN has no {program}. `make e2e-kube` makes it.");
    }
    Ok(file)
}

/// The definitions of the Gateway API's kinds (`GATEWAY_API_CRDS`): a directory with one for each release, as `v1.7.0`.
///
/// # Errors
/// When the variable is not set or names no directory; the message says what to do.
#[cfg(feature = "kube")]
pub fn gateway_api_crds() -> Result<PathBuf> {
    directory("GATEWAY_API_CRDS")
}

/// Envoy Gateway (`ENVOY_GATEWAY`).
///
/// # Errors
/// When the variable is not set or names no file; the message says what to do.
#[cfg(feature = "kube")]
pub fn envoy_gateway() -> Result<PathBuf> {
    let Some(file) = std::env::var_os("ENVOY_GATEWAY").map(PathBuf::from) else {
        bail!("ENVOY_GATEWAY is not set. `make e2e-envoy-gateway` says how to get one.");
    };
    if !file.is_file() {
        bail!("ENVOY_GATEWAY names {}, which is not there.", file.display());
    }
    Ok(file)
}

/// The definitions that come with Envoy Gateway (`ENVOY_GATEWAY_CRDS`): a directory.
///
/// # Errors
/// When the variable is not set or names no directory; the message says what to do.
#[cfg(feature = "kube")]
pub fn envoy_gateway_crds() -> Result<PathBuf> {
    directory("ENVOY_GATEWAY_CRDS")
}

/// Istio's control plane (`ISTIOD`): the program `pilot-discovery`.
///
/// # Errors
/// When the variable is not set or names no file; the message says what to do.
#[cfg(feature = "kube")]
pub fn istiod() -> Result<PathBuf> {
    of_istio("ISTIOD")
}

/// The definitions of Istio's kinds (`ISTIO_CRDS`): one file.
///
/// # Errors
/// As [`istiod`].
#[cfg(feature = "kube")]
pub fn istio_definitions() -> Result<PathBuf> {
    of_istio("ISTIO_CRDS")
}

#[cfg(feature = "kube")]
fn of_istio(variable: &str) -> Result<PathBuf> {
    let file = std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|file| file.is_file());
    file.with_context(|| {
        format!(
            "{variable} names no file. `make e2e-istio ISTIOD=FILE` sets it; docs/reference/istio.md says how to get an istiod."
        )
    })
}

#[cfg(feature = "kube")]
fn directory(variable: &str) -> Result<PathBuf> {
    let Some(value) = std::env::var_os(variable) else {
        bail!("{variable} is not set. `make e2e-kube` builds and fetches what the tests need, and runs them.");
    };
    let path = checkout().join(value);
    if !path.is_dir() {
        bail!("{variable} names {}, which is no directory.", path.display());
    }
    Ok(path)
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
