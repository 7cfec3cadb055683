//! The chart's output for the values of `golden/<case>/in.yaml` is `out.yaml`.

use anyhow::{Context, Result, ensure};
use limpet_e2e::helm;

use crate::{checkout, compare, template};

/// A case: its folder, the release's name, and its namespace.
const CASES: [(&str, &str, &str); 5] = [
    ("default", "limpet", "limpet-system"),
    // Nearly no value is the default: `every_value_is_set_by_a_golden_case` names the exceptions.
    ("everything", "limpet", "limpet-system"),
    // It shares no name with the first.
    ("another", "second", "other"),
    ("istio", "limpet", "limpet-istio"),
    ("envoy-gateway", "limpet", "limpet-envoy-gateway"),
];

fn file(case: &str, name: &str) -> std::path::PathBuf {
    checkout(&format!("e2e/tests/chart/golden/{case}/{name}"))
}

pub(crate) fn values() -> Result<Vec<serde_json::Value>> {
    let read = |case: &str| {
        Ok(serde_saphyr::from_str(&std::fs::read_to_string(file(
            case, "in.yaml",
        ))?)?)
    };
    CASES.iter().map(|(case, ..)| read(case)).collect()
}

#[test]
fn the_chart_prints_what_its_golden_files_have() -> Result<()> {
    for (case, release, namespace) in CASES {
        let values = file(case, "in.yaml");
        let values = values.to_str().context("a path")?;
        let printed = template(&["--name-template", release, "--namespace", namespace, "--values", values])?;
        compare(&file(case, "out.yaml"), &printed)?;
    }
    Ok(())
}

#[test]
fn helm_finds_nothing_to_complain_of_in_the_chart() -> Result<()> {
    let chart = helm::chart();
    for (case, ..) in CASES {
        let values = file(case, "in.yaml");
        helm::run(&[
            "lint",
            "--strict",
            chart.to_str().context("a path")?,
            "--values",
            values.to_str().context("a path")?,
        ])
        .context(case)?;
    }
    Ok(())
}

/// Two releases share no object, neither of the cluster nor of a common namespace.
#[test]
fn releases_beside_each_other_share_no_object() -> Result<()> {
    let names = |release: &str, namespace: &str| -> Result<Vec<String>> {
        let roles = "certificates.namespaces={*},xbackends.namespaces={shop},crds.install=false,\
                     config.contour.gateway=a/b";
        let arguments = ["--name-template", release, "--namespace", namespace, "--set", roles];
        let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&template(&arguments)?)?;
        let named = objects.iter().map(|object| {
            let metadata = &object["metadata"];
            format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"])
        });
        Ok(named.collect())
    };
    let first = names("limpet", "limpet-system")?;
    ensure!(first.len() > 10, "{first:?}");
    for (release, namespace) in [
        ("limpet-b", "limpet-system"),
        ("limpet-b", "other"),
        ("c", "limpet-system"),
    ] {
        for name in names(release, namespace)? {
            ensure!(!first.contains(&name), "{release} in {namespace}: {name}");
        }
    }
    // Helm refuses a second class of the release's name.
    let again = names("limpet", "other")?;
    let shared: Vec<_> = again.iter().filter(|name| first.contains(name)).collect();
    ensure!(shared == ["\"GatewayClass\" null \"limpet\""], "{shared:?}");
    Ok(())
}
