//! The Helm chart has the fields of the controller's configuration.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::checkout;

/// The fields that the chart sets by its own values: files of certificates, and the release's namespace.
const OF_THE_CHART: [&str; 4] = [
    "leaderElection.namespace",
    "xds.tls.certificate",
    "xds.tls.clientCa",
    "xds.tls.key",
];

/// The fields in the tables of docs/reference/controller-configuration.md.
fn documented() -> BTreeSet<String> {
    let page = fs::read_to_string(checkout().join("docs/reference/controller-configuration.md")).unwrap();
    let (mut fields, mut section) = (BTreeSet::new(), "");
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            section = heading.trim_start_matches('#').trim();
        } else if line.starts_with("| `") {
            let names = line.split('|').nth(1).unwrap_or_default();
            for name in names.split('`').skip(1).step_by(2) {
                let is_section = section
                    .chars()
                    .all(|character| character.is_alphanumeric() || character == '.');
                fields.insert(if is_section {
                    format!("{section}.{name}")
                } else {
                    name.to_owned()
                });
            }
        }
    }
    fields
}

fn known(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    match schema["properties"].as_object() {
        Some(fields) => {
            for (name, schema) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                known(schema, &path, found);
            }
        }
        None => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn the_chart_knows_every_field_of_the_configuration() {
    let schema = fs::read_to_string(checkout().join("controller/deploy/chart/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut of_chart = BTreeSet::new();
    known(&schema["properties"]["config"], "", &mut of_chart);
    let mut expected = documented();
    // Sections with their own table.
    expected.retain(|name| !of_chart.iter().any(|field| field.starts_with(&format!("{name}."))));
    for name in OF_THE_CHART {
        assert!(expected.remove(name), "{name} is not documented");
    }
    assert_eq!(of_chart, expected, "values.schema.json has the left ones in `config`");
}

/// Each configuration in the chart's golden files.
#[test]
fn the_controller_takes_the_configurations_of_the_chart() {
    let golden = checkout().join("e2e/tests/chart/golden");
    let mut checked = 0;
    for case in fs::read_dir(golden).unwrap() {
        let case = case.unwrap().path();
        let printed = fs::read_to_string(case.join("out.yaml")).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
        for object in &objects {
            let Some(config) = object["data"]["controller.yaml"].as_str() else {
                continue;
            };
            let (code, said) = crate::limpet_on(config, &["controller", "--check", "--config"]);
            assert_eq!(code, Some(0), "{}: {said}", case.display());
            checked += 1;
        }
    }
    assert!(checked > 4, "{checked}");
}
