//! Envoy accepts what `limpet render` writes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Build, Config, Envoy, tools};
use serde_json::{Value, json};

fn cases() -> Result<Vec<PathBuf>> {
    let folder = tools::checkout().join("controller/tests/golden/cases");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        cases.push(entry?.path());
    }
    cases.sort();
    Ok(cases)
}

fn configuration(folder: &Path, sections: &[(&str, Value)]) -> Result<PathBuf> {
    let filter = match Build::tested()? {
        Build::Wasm => json!({"wasm": {"file": tools::wasm()?}}),
        Build::Module => json!({"module": {"name": "limpet"}}),
    };
    let mut config = json!({"envoy": {"filter": filter, "listenAddress": "127.0.0.1"}});
    for (section, content) in sections {
        config[section] = content.clone();
    }
    let file = folder.join("controller.json");
    std::fs::write(&file, config.to_string())?;
    Ok(file)
}

/// Returns its exit code and its report.
fn render(arguments: &[&str]) -> Result<(Option<i32>, Value)> {
    let arguments: Vec<&str> = ["render", "-o", "json"].iter().chain(arguments).copied().collect();
    let output = tools::run_limpet(&arguments, &[])?;
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?}: {said}"))?;
    Ok((output.status.code(), report))
}

fn is_served(arguments: &[&str]) -> Result<bool> {
    let output = tools::run_limpet(&[&["render"], arguments].concat(), &[])?;
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(!said.contains("expected one that is served"))
}

fn gateways(input: &Path) -> Result<Vec<String>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(input)?)?;
    let gateways = objects.iter().filter(|object| object["kind"] == "Gateway");
    let ours = gateways.filter(|gateway| gateway["spec"]["gatewayClassName"] == "limpet");
    let name = |gateway: &Value| {
        let field = |name: &str| gateway["metadata"][name].as_str().unwrap_or("default").to_owned();
        format!("{}/{}", field("namespace"), field("name"))
    };
    Ok(ours.map(name).collect())
}

#[tokio::test]
async fn envoy_accepts_every_golden_case() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for case in cases()? {
        let mut sections = Vec::new();
        for (file, section) in [("config.yaml", "sessionDefaults"), ("contour.yaml", "contour")] {
            if let Ok(text) = std::fs::read_to_string(case.join(file)) {
                sections.push((section, serde_saphyr::from_str(&text)?));
            }
        }
        let config = configuration(folder.path(), &sections)?;
        let envoy = folder.path().join("envoy.json");
        let input = case.join("in.yaml");
        let options = gateways(&input)?
            .into_iter()
            .flat_map(|gateway| ["--gateway".to_owned(), gateway]);
        let options: Vec<String> = options.collect();
        // One Gateway needs no option.
        let choices: Vec<&[String]> = match options.len() {
            0..=2 => vec![&[]],
            _ => options.chunks(2).collect(),
        };
        let mut rendered = 0;
        for choice in choices {
            let (input, config, file) = (
                input.to_string_lossy(),
                config.to_string_lossy(),
                envoy.to_string_lossy(),
            );
            let mut arguments = vec!["-f", &input, "--config", &config, "--write-envoy", &file];
            arguments.extend(choice.iter().map(String::as_str));
            if !choice.is_empty() && !is_served(&arguments)? {
                continue;
            }
            let (code, report) = render(&arguments)?;
            ensure!(code == Some(0) || code == Some(2), "{arguments:?}: {code:?} {report}");
            rendered += 1;
            let made: Value = serde_json::from_slice(&std::fs::read(&envoy)?)?;
            let (accepted, said) = Envoy::validate(&Config::made(made).build(Build::tested()?)).await?;
            ensure!(accepted, "{arguments:?}: {said}");
        }
        ensure!(rendered > 0, "{}: nothing is served", case.display());
    }
    Ok(())
}

#[test]
fn the_exit_code_says_whether_all_objects_were_accepted() -> Result<()> {
    let input = |case: &str| format!("controller/tests/golden/cases/{case}/in.yaml");
    assert_eq!(render(&["-f", &input("policy-cookie")])?.0, Some(0));
    for case in ["bad-objects", "policies-in-conflict", "split-with-invalid-backend"] {
        assert_eq!(render(&["-f", &input(case)])?.0, Some(2), "{case}");
    }
    let missing = tools::run_limpet(&["render", "-f", "no-such-file.yaml"], &[])?;
    assert_eq!(missing.status.code(), Some(3));
    Ok(())
}
