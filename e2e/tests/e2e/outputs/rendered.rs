//! Envoy accepts what `limpet render` writes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Build, Config, Envoy, tools};
use serde_json::{Value, json};

/// The directories of the controller's golden cases.
fn cases() -> Result<Vec<PathBuf>> {
    let folder = tools::checkout().join("controller/tests/golden/cases");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        cases.push(entry?.path());
    }
    cases.sort();
    Ok(cases)
}

/// The controller's configuration with the build under test.
fn configuration(folder: &Path, defaults: Option<&Value>) -> Result<PathBuf> {
    let filter = match Build::tested()? {
        Build::Wasm => json!({"wasm": {"file": tools::wasm()?}}),
        Build::Module => json!({"module": {"name": "limpet"}}),
    };
    let mut config = json!({"envoy": {"filter": filter, "listenAddress": "127.0.0.1"}});
    if let Some(defaults) = defaults {
        config["sessionDefaults"] = defaults.clone();
    }
    let file = folder.join("controller.json");
    std::fs::write(&file, config.to_string())?;
    Ok(file)
}

/// Runs `limpet render` with these arguments. Returns its exit code and its report.
fn render(arguments: &[&str]) -> Result<(Option<i32>, Value)> {
    let arguments: Vec<&str> = ["render", "--format", "json"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let output = tools::run_limpet(&arguments, &[])?;
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?}: {said}"))?;
    Ok((output.status.code(), report))
}

#[test]
fn envoy_accepts_every_golden_case() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for case in cases()? {
        let defaults: Option<Value> = match std::fs::read_to_string(case.join("config.yaml")) {
            Ok(text) => Some(serde_saphyr::from_str(&text)?),
            Err(_) => None,
        };
        let config = configuration(folder.path(), defaults.as_ref())?;
        let envoy = folder.path().join("envoy.json");
        let (input, config, file) = (
            case.join("in.yaml"),
            config.to_string_lossy().into_owned(),
            envoy.to_string_lossy(),
        );
        let (code, report) = render(&["-f", &input.to_string_lossy(), "--config", &config, "--envoy", &file])?;
        ensure!(
            code == Some(0) || code == Some(1),
            "{}: {code:?} {report}",
            case.display()
        );
        let made: Value = serde_json::from_slice(&std::fs::read(&envoy)?)?;
        let (accepted, said) = Envoy::validate(&Config::made(made).build(Build::tested()?))?;
        ensure!(accepted, "{}: {said}", case.display());
    }
    Ok(())
}

#[test]
fn the_exit_code_says_whether_all_objects_were_accepted() -> Result<()> {
    let input = |case: &str| format!("controller/tests/golden/cases/{case}/in.yaml");
    assert_eq!(render(&["-f", &input("policy-cookie")])?.0, Some(0));
    for case in ["bad-objects", "policies-in-conflict", "split-with-invalid-backend"] {
        assert_eq!(render(&["-f", &input(case)])?.0, Some(1), "{case}");
    }
    let missing = tools::run_limpet(&["render", "-f", "no-such-file.yaml"], &[])?;
    assert_eq!(missing.status.code(), Some(2));
    Ok(())
}
