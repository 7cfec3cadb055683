//! The programs and files of the tests, which `make e2e` builds or fetches and names in environment variables.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// The root directory of the repository.
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

/// The major and minor version of the Envoy under test.
///
/// # Errors
/// If Envoy does not print it.
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

/// An Envoy too old for the dynamic module (`ENVOY_TOO_OLD`).
///
/// # Errors
/// As [`from_environment`].
pub fn old_envoy() -> Result<PathBuf> {
    from_environment("ENVOY_TOO_OLD")
}

/// The wasm filter (`LIMPET_WASM`).
///
/// # Errors
/// As [`from_environment`].
pub fn wasm() -> Result<PathBuf> {
    from_environment("LIMPET_WASM")
}

/// The filter as a dynamic module, `liblimpet.so` (`LIMPET_MODULE`).
///
/// # Errors
/// As [`from_environment`].
pub fn module() -> Result<PathBuf> {
    from_environment("LIMPET_MODULE")
}

/// The dynamic module that panics on demand, also `liblimpet.so` (`LIMPET_PANICKING_MODULE`).
///
/// # Errors
/// As [`from_environment`].
pub fn panicking_module() -> Result<PathBuf> {
    from_environment("LIMPET_PANICKING_MODULE")
}

/// The filter as a dynamic module, beside another module `other` (`LIMPET_BESIDE_OTHER`).
///
/// # Errors
/// As [`from_environment`].
pub fn module_beside_another() -> Result<PathBuf> {
    from_environment("LIMPET_BESIDE_OTHER")
}

/// The `limpet` binary (`LIMPET_BIN`).
///
/// # Errors
/// As [`from_environment`].
pub fn limpet() -> Result<PathBuf> {
    from_environment("LIMPET_BIN")
}

/// The directory of the shipped images' archives (`LIMPET_IMAGES`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(any(feature = "images", feature = "node"))]
pub fn images() -> Result<PathBuf> {
    directory("LIMPET_IMAGES")
}

/// The directory of released files (`LIMPET_RELEASE`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "images")]
pub fn release() -> Result<PathBuf> {
    directory("LIMPET_RELEASE")
}

/// cosign (`COSIGN`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "images")]
pub fn cosign() -> Result<PathBuf> {
    from_environment("COSIGN")
}

/// A program in the directory `OCI_BIN`: `registry`, or a client of it.
///
/// # Errors
/// As [`from_environment`].
#[cfg(any(feature = "images", feature = "node"))]
pub fn registry(program: &str) -> Result<PathBuf> {
    program_of("OCI_BIN", program, "e2e-images")
}

/// func-e (`FUNC_E`).
///
/// # Errors
/// As [`from_environment`].
pub fn func_e() -> Result<PathBuf> {
    from_environment("FUNC_E")
}

/// HAProxy (`HAPROXY`).
///
/// # Errors
/// As [`from_environment`].
pub fn haproxy() -> Result<PathBuf> {
    from_environment("HAPROXY")
}

/// The browser (`CHROMIUM`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "browser")]
pub fn chromium() -> Result<PathBuf> {
    of_a_browser("CHROMIUM")
}

/// chromedriver (`CHROMEDRIVER`).
///
/// # Errors
/// As [`chromium`].
#[cfg(feature = "browser")]
pub fn chromedriver() -> Result<PathBuf> {
    of_a_browser("CHROMEDRIVER")
}

#[cfg(feature = "browser")]
fn of_a_browser(variable: &str) -> Result<PathBuf> {
    file_in(variable, "`make e2e-browser` finds a browser, and sets it.")
}

/// Helm (`HELM`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "chart")]
pub fn helm() -> Result<PathBuf> {
    file_in("HELM", "`make chart` builds Helm, and runs the tests with it.")
}

/// The newest Helm 3 (`HELM3`).
///
/// # Errors
/// As [`envoy`].
#[cfg(feature = "node")]
pub fn helm3() -> Result<PathBuf> {
    from_environment("HELM3")
}

/// A program in the directory `KUBE_BIN`: `etcd`, `kube-apiserver` or `kube-controllers`.
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "kube")]
pub fn kube(program: &str) -> Result<PathBuf> {
    program_of("KUBE_BIN", program, "e2e-kube")
}

/// A program in the directory `PROMETHEUS_BIN`: `prometheus` or `promtool`.
///
/// # Errors
/// As [`kube`].
#[cfg(feature = "monitoring")]
pub fn prometheus(program: &str) -> Result<PathBuf> {
    program_of("PROMETHEUS_BIN", program, "e2e-monitoring")
}

/// A program in the directory that a variable names, built by the target of make.
#[cfg(any(feature = "images", feature = "kube"))]
fn program_of(variable: &str, program: &str, target: &str) -> Result<PathBuf> {
    let file = directory(variable)?.join(program);
    if !file.is_file() {
        bail!("{variable} has no {program}. `make {target}` builds it.");
    }
    Ok(file)
}

/// A program in the directory `NODE_BIN`, such as `kubelet`.
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "node")]
pub fn node(program: &str) -> Result<PathBuf> {
    program_of("NODE_BIN", program, "e2e-node")
}

/// The directory of the images for a node's containerd (`NODE_IMAGES`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "node")]
pub fn node_images() -> Result<PathBuf> {
    directory("NODE_IMAGES")
}

/// The directory of the Gateway API's definitions (`GATEWAY_API_CRDS`), with one for each release, such as `v1.7.0`.
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "kube")]
pub fn gateway_api_crds() -> Result<PathBuf> {
    directory("GATEWAY_API_CRDS")
}

/// The directory of cert-manager's definitions (`CERT_MANAGER_CRDS`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "node")]
pub fn cert_manager_crds() -> Result<PathBuf> {
    directory("CERT_MANAGER_CRDS")
}

/// The directory of the Prometheus operator's definitions (`PROMETHEUS_CRDS`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "node")]
pub fn prometheus_crds() -> Result<PathBuf> {
    directory("PROMETHEUS_CRDS")
}

/// The Gateway API's conformance suite (`CONFORMANCE`).
///
/// # Errors
/// As [`envoy`].
#[cfg(feature = "node")]
pub fn conformance() -> Result<PathBuf> {
    from_environment("CONFORMANCE")
}

/// The directory of the definitions in the suite's release (`CONFORMANCE_CRDS`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "node")]
pub fn conformance_crds() -> Result<PathBuf> {
    directory("CONFORMANCE_CRDS")
}

/// The conformance tests of session persistence (`PERSISTENCE`), and the directory of their definitions
/// (`PERSISTENCE_CRDS`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "node")]
pub fn persistence() -> Result<(PathBuf, PathBuf)> {
    Ok((from_environment("PERSISTENCE")?, directory("PERSISTENCE_CRDS")?))
}

/// Envoy Gateway (`ENVOY_GATEWAY`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "kube")]
pub fn envoy_gateway() -> Result<PathBuf> {
    let Some(file) = std::env::var_os("ENVOY_GATEWAY").map(PathBuf::from) else {
        bail!("ENVOY_GATEWAY is not set. `make e2e-envoy-gateway` says how to get one.");
    };
    if !file.is_file() {
        bail!("ENVOY_GATEWAY names {}, which does not exist.", file.display());
    }
    Ok(file)
}

/// The directory of Envoy Gateway's definitions (`ENVOY_GATEWAY_CRDS`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "kube")]
pub fn envoy_gateway_crds() -> Result<PathBuf> {
    directory("ENVOY_GATEWAY_CRDS")
}

/// Istio's control plane, `pilot-discovery` (`ISTIOD`).
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "kube")]
pub fn istiod() -> Result<PathBuf> {
    of_istio("ISTIOD")
}

/// The file of Istio's definitions (`ISTIO_CRDS`).
///
/// # Errors
/// As [`istiod`].
#[cfg(feature = "kube")]
pub fn istio_definitions() -> Result<PathBuf> {
    of_istio("ISTIO_CRDS")
}

#[cfg(feature = "kube")]
fn of_istio(variable: &str) -> Result<PathBuf> {
    file_in(variable, "`make e2e-istio` builds an istiod, and sets it.")
}

#[cfg(any(feature = "images", feature = "kube"))]
fn directory(variable: &str) -> Result<PathBuf> {
    let Some(value) = std::env::var_os(variable) else {
        bail!("{variable} is not set. make builds and fetches what the tests need, and runs them: see `make help`.");
    };
    let path = checkout().join(value);
    if !path.is_dir() {
        bail!("{variable} names {}, which is not a directory.", path.display());
    }
    Ok(path)
}

/// A Helm chart of Istio's in the directory `ISTIO_PROGRAMS`: `base` or `istiod`.
///
/// # Errors
/// As [`from_environment`].
#[cfg(feature = "node")]
pub fn istio_chart(name: &str) -> Result<PathBuf> {
    let chart = directory("ISTIO_PROGRAMS")?.join("charts").join(name);
    if !chart.is_dir() {
        bail!("ISTIO_PROGRAMS has no chart {name}. `make e2e-istio-node` gets it.");
    }
    Ok(chart)
}

/// Runs `limpet` in the root directory of the repository, with `env` added to its environment.
///
/// # Errors
/// If it cannot be started.
pub fn run_limpet(arguments: &[&str], env: &[(&str, &str)]) -> Result<Output> {
    let limpet = limpet()?;
    Command::new(&limpet)
        .args(arguments)
        .envs(env.iter().copied())
        .current_dir(checkout())
        .output()
        .with_context(|| format!("cannot run {}", limpet.display()))
}

/// The file that an environment variable names.
///
/// # Errors
/// As [`from_environment`].
fn from_environment(variable: &str) -> Result<PathBuf> {
    let Some(value) = std::env::var_os(variable) else {
        bail!("{variable} is not set. `make e2e` builds and fetches what the tests need, and runs them.");
    };
    let path = checkout().join(value);
    if !path.is_file() {
        bail!(
            "{variable} names {}, which does not exist. `make e2e` makes it.",
            path.display()
        );
    }
    Ok(path)
}

/// As [`from_environment`]; `remedy` says what sets the variable.
#[cfg(any(feature = "browser", feature = "chart", feature = "kube"))]
fn file_in(variable: &str, remedy: &str) -> Result<PathBuf> {
    let file = std::env::var_os(variable).map(PathBuf::from);
    let file = file.filter(|file| file.is_file());
    file.with_context(|| format!("{variable} does not name a file. {remedy}"))
}
