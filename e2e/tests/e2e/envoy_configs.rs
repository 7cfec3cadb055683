//! The configurations that people copy: Envoy and `limpet check` accept them unchanged, and they do what the README
//! says.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Build, Config, Envoy, Keyring, Site, tools};
use serde_json::Value;
use tempfile::TempDir;

use crate::sds_keys::gets_secrets;

/// The dynamic module needs Envoy 1.38. Other files run with both builds.
const WITH_MODULE: [&str; 3] = ["module-ecds.yaml", "module.yaml", "split-module.yaml"];

/// These also have a secret or a cluster specifier, which need Envoy 1.40.
const WITH_1_40: [&str; 2] = ["module-sds.yaml", "split-specifier.yaml"];

const WITH_WASM: [&str; 16] = [
    "access-log.yaml",
    "cookie.yaml",
    "destination.yaml",
    "draining.yaml",
    "ecds-controller.yaml",
    "ecds.yaml",
    "header.yaml",
    "inline-key.yaml",
    "login.yaml",
    "prefix.yaml",
    "several-carriers.yaml",
    "source.yaml",
    "split.yaml",
    "streams.yaml",
    "two-keys.yaml",
    "two-policies.yaml",
];

/// Discovered by files above.
const DISCOVERED: [&str; 3] = ["ecds/limpet.yaml", "ecds/module.yaml", "ecds/wrapped-keys.yaml"];

/// Used by `tests/istio`. One contains the filter's configuration.
const ISTIO: [&str; 5] = [
    "chain.yaml",
    "route.yaml",
    "shop.yaml",
    "split.yaml",
    "wasm-plugin.yaml",
];
const WASM_PLUGIN: &str = "istio/wasm-plugin.yaml";

/// Used by `tests/envoy_gateway`.
const ENVOY_GATEWAY: [&str; 4] = ["draining.yaml", "module.yaml", "wasm.yaml", "wrapped-keys.yaml"];

fn all() -> impl Iterator<Item = &'static str> {
    WITH_WASM.into_iter().chain(WITH_MODULE).chain(WITH_1_40)
}

fn with_module() -> Result<Vec<&'static str>> {
    let newest = if gets_secrets()? { WITH_1_40.as_slice() } else { &[] };
    Ok(WITH_MODULE.iter().chain(newest).copied().collect())
}

/// Each contains one of the two builds. Some Envoys are built without wasm.
#[test]
fn envoy_accepts_every_file_unchanged() -> Result<()> {
    let files = match Build::tested()? {
        Build::Wasm => WITH_WASM.to_vec(),
        Build::Module => with_module()?,
    };
    for file in files {
        let (accepted, said) = Envoy::validate_file(file)?;
        assert!(accepted, "{file}: {said}");
    }
    Ok(())
}

#[test]
fn limpet_check_accepts_every_file() -> Result<()> {
    for file in all().chain(DISCOVERED).chain([WASM_PLUGIN]) {
        let path = format!("envoy-configs/{file}");
        let output = tools::run_limpet(&["check", &path], &[])?;
        // A warning says that the key is for development only.
        let expected = i32::from(file == "inline-key.yaml");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(expected), "{file}: {said}");
    }
    Ok(())
}

/// All values of this name, with numbers as text, as in 64-bit fields of golden cases.
fn all_of(name: &str, document: &Value) -> Vec<Value> {
    match document {
        Value::Object(fields) => {
            let found = fields.get(name).map(as_text);
            let below = fields.values().flat_map(|value| all_of(name, value));
            found.into_iter().chain(below).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| all_of(name, item)).collect(),
        _ => Vec::new(),
    }
}

fn as_text(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), as_text(value)))
            .collect(),
        Value::Array(items) => items.iter().map(as_text).collect(),
        Value::Number(number) => number.to_string().into(),
        other => other.clone(),
    }
}

#[test]
fn the_files_retry_as_routes_of_the_controller_do() -> Result<()> {
    let read = |file: &str| -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(tools::checkout().join(file))?;
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text)?;
        Ok(documents
            .iter()
            .flat_map(|document| all_of("retry_policy", document))
            .collect())
    };
    let of_the_controller = read("controller/tests/golden/cases/policy-cookie/out.yaml")?;
    let expected = of_the_controller.first().context("no retries")?;
    let mut files = 0;
    for file in all() {
        let found = read(&format!("envoy-configs/{file}"))?;
        for policy in &found {
            assert_eq!(policy, expected, "{file}");
        }
        files += usize::from(!found.is_empty());
    }
    ensure!(files > 10, "only {files} files retry");
    Ok(())
}

fn files_of(folder: &str) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(tools::checkout().join(folder))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if Path::new(&name)
            .extension()
            .is_some_and(|extension| extension == "yaml")
            && name != "docker-compose.yaml"
        {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}

#[test]
fn no_file_is_left_out_of_these_tests() -> Result<()> {
    let mut tested: Vec<_> = all().collect();
    tested.sort_unstable();
    assert_eq!(files_of("envoy-configs")?, tested);
    assert_eq!(files_of("envoy-configs/istio")?, ISTIO);
    assert_eq!(files_of("envoy-configs/envoy-gateway")?, ENVOY_GATEWAY);
    Ok(())
}

#[test]
fn the_readme_names_every_file() -> Result<()> {
    let readme = std::fs::read_to_string(tools::checkout().join("envoy-configs/README.md"))?;
    for file in all()
        .chain(DISCOVERED)
        .chain(["eds/backends.yaml", "sds/keyring.yaml", "docker-compose.yaml"])
    {
        assert!(
            readme.contains(&format!("[{file}]({file})")),
            "{file} is not in the README"
        );
    }
    Ok(())
}

#[test]
fn the_readmes_for_control_planes_name_every_file() -> Result<()> {
    for (folder, files) in [("istio", &ISTIO[..]), ("envoy-gateway", &ENVOY_GATEWAY)] {
        let readme = tools::checkout().join("envoy-configs").join(folder).join("README.md");
        let readme = std::fs::read_to_string(readme)?;
        for file in files {
            assert!(
                readme.contains(&format!("[{file}]({file})")),
                "{folder}/{file} is not in its README"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_file_starts_a_session_that_stays() -> Result<()> {
    let module = match Build::tested()? {
        Build::Wasm => Vec::new(),
        Build::Module => with_module()?,
    };
    assert_sessions_stay(WITH_WASM.into_iter().chain(module), Ok).await
}

/// ecds.yaml needs an unknown chain, because it discovers the filter's configuration.
#[tokio::test]
async fn sessions_stay_with_the_chain_that_each_file_needs() -> Result<()> {
    let known = WITH_WASM.into_iter().filter(|file| *file != "ecds.yaml");
    assert_sessions_stay(known, Config::minimal).await
}

async fn assert_sessions_stay(
    files: impl IntoIterator<Item = &'static str>,
    change: impl Fn(Config) -> Result<Config>,
) -> Result<()> {
    let keyring = Keyring::generate()?;
    // destination.yaml gives a client several sessions (see `splits::destinations`), source.yaml no token (see
    // `source_session`). ecds-controller.yaml runs in a cluster.
    let one = |file: &&str| !["destination.yaml", "ecds-controller.yaml", "source.yaml"].contains(file);
    for file in files.into_iter().filter(one) {
        let site = Site::start(change(Config::load(file)?.keyring(&keyring))?).await?;
        let path = if file == "two-policies.yaml" { "/web" } else { "/" };
        let mut request = site.envoy.get(path);
        if file == "prefix.yaml" {
            // With prefix.yaml the application begins the session.
            request = request.answered_with("set-cookie", "JSESSIONID=abc");
        }
        if file == "login.yaml" {
            request = request.answered_with("set-cookie", "login=abc");
        }
        let first = request.send().await?;
        let cookie = ["limpet-session", "JSESSIONID"]
            .iter()
            .find_map(|name| first.set_cookie(name));
        let token = match cookie {
            Some(cookie) => ("cookie", cookie.pair()),
            None => (
                "x-session",
                first
                    .header("x-session")
                    .with_context(|| format!("{file}: the answer sets no cookie"))?
                    .to_owned(),
            ),
        };
        for _ in 0..6 {
            let answer = site.envoy.get(path).header(token.0, &token.1).send().await?;
            assert_eq!(answer.backend(), first.backend(), "{file}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn func_e_runs_the_quickstart() -> Result<()> {
    let backends = limpet_e2e::Backend::three()?;
    let envoy = Envoy::start_by_func_e(Config::load("cookie.yaml")?.backends(&backends)).await?;
    let mut visitor = limpet_e2e::Visitor::new(&envoy);
    let first = visitor.get("/").await?;
    assert!(first.set_cookie("limpet-session").is_some());
    for _ in 0..6 {
        assert_eq!(visitor.get("/").await?.backend(), first.backend());
    }
    Ok(())
}

/// Access from other machines is a decision of the reader.
#[test]
fn every_file_listens_on_the_loopback_alone() -> Result<()> {
    for file in all() {
        let text = std::fs::read_to_string(tools::checkout().join("envoy-configs").join(file))?;
        let config: Value = serde_saphyr::from_str(&text)?;
        for listener in config["static_resources"]["listeners"]
            .as_array()
            .context("no listeners")?
        {
            assert_eq!(listener["address"]["socket_address"]["address"], "127.0.0.1", "{file}");
        }
    }
    Ok(())
}

fn in_container(command: &Value) -> Result<Value> {
    let words: Vec<String> = serde_json::from_value(command.clone())?;
    let (program, arguments) = words.split_first().context("no command")?;
    let folder = TempDir::new()?;
    let envoy = folder.path().join("envoy");
    std::fs::write(&envoy, "#!/bin/sh\ntest \"$1\" = --config-yaml && echo \"$2\"\n")?;
    std::fs::set_permissions(&envoy, Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH")?);
    let output = Command::new(program)
        // The compose file doubles the shell's dollars.
        .args(arguments.iter().map(|argument| argument.replace("$$", "$")))
        .current_dir(tools::checkout())
        .env("PATH", path)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_saphyr::from_str(&String::from_utf8(output.stdout)?)?)
}

/// A published port does not reach a container's loopback.
fn listening_everywhere(config: &Value) -> Value {
    let mut config = config.clone();
    config["static_resources"]["listeners"][0]["address"]["socket_address"]["address"] = "0.0.0.0".into();
    config
}

/// A container engine may be missing here, so this compares files.
#[test]
fn the_compose_file_fits_the_quickstart() -> Result<()> {
    let folder = tools::checkout().join("envoy-configs");
    let yaml =
        |file: &str| -> Result<Value> { Ok(serde_saphyr::from_str(&std::fs::read_to_string(folder.join(file))?)?) };
    let (compose, quickstart) = (yaml("docker-compose.yaml")?, yaml("cookie.yaml")?);
    let envoy = &compose["services"]["envoy"];
    assert_eq!(in_container(&envoy["command"])?, listening_everywhere(&quickstart));
    for volume in envoy["volumes"].as_array().context("no volumes")? {
        let (here, there) = volume
            .as_str()
            .and_then(|volume| volume.split_once(':'))
            .context("no volume")?;
        let name = Path::new(here)
            .file_name()
            .context("no name")?
            .to_string_lossy()
            .into_owned();
        assert_eq!(here, format!("../{name}"));
        assert_eq!(there, format!("/limpet/{name}:ro"));
    }
    let port = &quickstart["static_resources"]["listeners"][0]["address"]["socket_address"]["port_value"];
    assert_eq!(envoy["ports"], serde_json::json!([format!("127.0.0.1:{port}:{port}")]));

    let endpoints = &quickstart["static_resources"]["clusters"][0]["load_assignment"]["endpoints"][0]["lb_endpoints"];
    let endpoints = endpoints.as_array().context("no endpoints")?;
    for (endpoint, name) in endpoints.iter().zip(["a", "b", "c"]) {
        let backend = &compose["services"][format!("backend-{name}")];
        assert_eq!(backend["network_mode"], "service:envoy");
        let port = endpoint["endpoint"]["address"]["socket_address"]["port_value"].to_string();
        assert_eq!(backend["command"], serde_json::json!(["--name", name, "--port", port]));
    }
    Ok(())
}
