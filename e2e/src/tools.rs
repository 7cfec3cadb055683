//! The programs and files that the tests need: Envoy, the filter, the `limpet` binary, func-e. `make e2e` builds or
//! fetches them and names them in environment variables.

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
/// If Envoy cannot be run, or prints no version.
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

/// The filter as a dynamic module (`LIMPET_MODULE`): a file named `liblimpet.so`.
///
/// # Errors
/// As [`from_environment`].
pub fn module() -> Result<PathBuf> {
    from_environment("LIMPET_MODULE")
}

/// The dynamic module that panics on demand (`LIMPET_PANICKING_MODULE`): a file named `liblimpet.so`.
///
/// # Errors
/// As [`from_environment`].
pub fn panicking_module() -> Result<PathBuf> {
    from_environment("LIMPET_PANICKING_MODULE")
}

/// The filter as a dynamic module, in a directory with a module `other` that is not ours (`LIMPET_BESIDE_OTHER`).
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

/// The archives of the images that are shipped (`LIMPET_IMAGES`): a directory.
///
/// # Errors
/// If the variable is not set or does not name a directory; the error says what to do.
#[cfg(any(feature = "images", feature = "node"))]
pub fn images() -> Result<PathBuf> {
    directory("LIMPET_IMAGES")
}

/// What is released (`LIMPET_RELEASE`): a directory.
///
/// # Errors
/// If the variable is not set or does not name a directory; the error says what to do.
#[cfg(feature = "images")]
pub fn release() -> Result<PathBuf> {
    directory("LIMPET_RELEASE")
}

/// cosign (`COSIGN`), which signs what is released.
///
/// # Errors
/// If the variable is not set or does not name a file; the error says what to do.
#[cfg(feature = "images")]
pub fn cosign() -> Result<PathBuf> {
    from_environment("COSIGN")
}

/// A program of the tests with a registry (`OCI_BIN`, a directory): `registry`, or a client of it.
///
/// # Errors
/// If the variable is not set or the program does not exist; the error says what to do.
#[cfg(any(feature = "images", feature = "node"))]
pub fn registry(program: &str) -> Result<PathBuf> {
    program_of("OCI_BIN", program, "e2e-images")
}

/// The program func-e (`FUNC_E`).
///
/// # Errors
/// As [`from_environment`].
pub fn func_e() -> Result<PathBuf> {
    from_environment("FUNC_E")
}

/// The HAProxy that Limpet is compared with (`HAPROXY`).
///
/// # Errors
/// As [`from_environment`].
pub fn haproxy() -> Result<PathBuf> {
    from_environment("HAPROXY")
}

/// The browser (`CHROMIUM`).
///
/// # Errors
/// If the variable is not set or does not name a file; the error says what to do.
#[cfg(feature = "browser")]
pub fn chromium() -> Result<PathBuf> {
    of_a_browser("CHROMIUM")
}

/// The program that drives the browser (`CHROMEDRIVER`).
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
/// If the variable is not set or does not name a file; the error says what to do.
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

/// A program of a Kubernetes control plane (`KUBE_BIN`, a directory): `etcd`, `kube-apiserver` or `kube-controllers`.
///
/// # Errors
/// If the variable is not set or the program does not exist; the error says what to do.
#[cfg(feature = "kube")]
pub fn kube(program: &str) -> Result<PathBuf> {
    program_of("KUBE_BIN", program, "e2e-kube")
}

/// A program of Prometheus (`PROMETHEUS_BIN`, a directory): `prometheus` or `promtool`.
///
/// # Errors
/// As [`kube`].
#[cfg(feature = "monitoring")]
pub fn prometheus(program: &str) -> Result<PathBuf> {
    program_of("PROMETHEUS_BIN", program, "e2e-monitoring")
}

/// A program in the directory that a variable names, which this target of make builds.
#[cfg(any(feature = "images", feature = "kube"))]
fn program_of(variable: &str, program: &str, target: &str) -> Result<PathBuf> {
    let file = directory(variable)?.join(program);
    if !file.is_file() {
        bail!("{variable} has no {program}. `make {target}` builds it.");
    }
    Ok(file)
}

/// A program of a Kubernetes node (`NODE_BIN`, a directory), such as `kubelet`.
///
/// # Errors
/// If the variable is not set or the program does not exist; the error says what to do.
#[cfg(feature = "node")]
pub fn node(program: &str) -> Result<PathBuf> {
    program_of("NODE_BIN", program, "e2e-node")
}

/// The archives of the images that a node's containerd gets (`NODE_IMAGES`): a directory.
///
/// # Errors
/// If the variable is not set or does not name a directory; the error says what to do.
#[cfg(feature = "node")]
pub fn node_images() -> Result<PathBuf> {
    directory("NODE_IMAGES")
}

/// The definitions of the Gateway API's kinds (`GATEWAY_API_CRDS`): a directory that contains one for each release,
/// such as `v1.7.0`.
///
/// # Errors
/// If the variable is not set or does not name a directory; the error says what to do.
#[cfg(feature = "kube")]
pub fn gateway_api_crds() -> Result<PathBuf> {
    directory("GATEWAY_API_CRDS")
}

/// The definitions of cert-manager's kinds (`CERT_MANAGER_CRDS`): a directory.
///
/// # Errors
/// If the variable is not set or does not name a directory; the error says what to do.
#[cfg(feature = "node")]
pub fn cert_manager_crds() -> Result<PathBuf> {
    directory("CERT_MANAGER_CRDS")
}

/// The definitions of the kinds of the Prometheus operator that say what is monitored (`PROMETHEUS_CRDS`): a directory.
///
/// # Errors
/// If the variable is not set or does not name a directory; the error says what to do.
#[cfg(feature = "node")]
pub fn prometheus_crds() -> Result<PathBuf> {
    directory("PROMETHEUS_CRDS")
}

/// The Gateway API's conformance suite (`CONFORMANCE`): a program.
///
/// # Errors
/// As [`envoy`].
#[cfg(feature = "node")]
pub fn conformance() -> Result<PathBuf> {
    from_environment("CONFORMANCE")
}

/// The definitions of the Gateway API's kinds in the suite's release (`CONFORMANCE_CRDS`): a directory.
///
/// # Errors
/// If the variable is not set or does not name a directory; the error says what to do.
#[cfg(feature = "node")]
pub fn conformance_crds() -> Result<PathBuf> {
    directory("CONFORMANCE_CRDS")
}

/// The conformance tests of session persistence (`PERSISTENCE`), and the definitions that they are about
/// (`PERSISTENCE_CRDS`): a program and a directory.
///
/// # Errors
/// If a variable is not set or does not name such a thing; the error says what to do.
#[cfg(feature = "node")]
pub fn persistence() -> Result<(PathBuf, PathBuf)> {
    Ok((from_environment("PERSISTENCE")?, directory("PERSISTENCE_CRDS")?))
}

/// The program of Envoy Gateway (`ENVOY_GATEWAY`).
///
/// # Errors
/// If the variable is not set or does not name a file; the error says what to do.
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

/// The definitions that come with Envoy Gateway (`ENVOY_GATEWAY_CRDS`): a directory.
///
/// # Errors
/// If the variable is not set or does not name a directory; the error says what to do.
#[cfg(feature = "kube")]
pub fn envoy_gateway_crds() -> Result<PathBuf> {
    directory("ENVOY_GATEWAY_CRDS")
}

/// Istio's control plane (`ISTIOD`): the program `pilot-discovery`.
///
/// # Errors
/// If the variable is not set or does not name a file; the error says what to do.
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

/// A Helm chart of Istio's (`ISTIO_PROGRAMS`, a directory): `base` or `istiod`.
///
/// # Errors
/// If the variable is not set or the chart does not exist; the error says what to do.
#[cfg(feature = "node")]
pub fn istio_chart(name: &str) -> Result<PathBuf> {
    let chart = directory("ISTIO_PROGRAMS")?.join("charts").join(name);
    if !chart.is_dir() {
        bail!("ISTIO_PROGRAMS has no chart {name}. `make e2e-istio-node` gets it.");
    }
    Ok(chart)
}

/// Runs `limpet` in the root directory of the repository with these arguments, and with `env` added to its environment.
///
/// # Errors
/// If the binary is missing or cannot be started.
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
/// If the variable is not set or does not name a file; the error says what to do.
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

/// The file that an environment variable names. `remedy` is a sentence that says what sets it.
#[cfg(any(feature = "browser", feature = "chart", feature = "kube"))]
fn file_in(variable: &str, remedy: &str) -> Result<PathBuf> {
    let file = std::env::var_os(variable).map(PathBuf::from);
    let file = file.filter(|file| file.is_file());
    file.with_context(|| format!("{variable} does not name a file. {remedy}"))
}
