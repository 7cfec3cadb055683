//! Golden cases: manifests, and all that becomes of them. A case is a folder with `in.yaml` (and `config.yaml`, where it wants one), and `out.yaml`:
//! the graph, the reports, and Envoy's resources. `make golden` writes every `out.yaml` anew and removes what belongs to no case.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "what is not there fails the test"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use limpet::model::{SessionDefaults, Settings};
use limpet::outputs::envoy::EnvoyOptions;
use limpet::outputs::{FilterInputs, FilterKeys};
use limpet::render::{Rendered, render};
use limpet_core::config::{
    self,
    schema::{KeyConfig, KeyStateConfig},
};
use serde_json::Value;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cases");
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the cases")
        .map(|entry| entry.expect("a case").path())
        .collect();
    cases.sort();
    assert!(cases.len() > 10, "{cases:?}");
    cases
}

fn rendered(case: &Path) -> Rendered {
    let config = case.join("config.yaml");
    let session_defaults: SessionDefaults = if config.exists() {
        serde_saphyr::from_str(&fs::read_to_string(config).expect("a configuration")).expect("session defaults")
    } else {
        SessionDefaults::default()
    };
    let settings = Settings {
        session_defaults,
        ..Settings::default()
    };
    let key = KeyConfig {
        id: 1,
        env: Some("LIMPET_KEY".to_owned()),
        inline: None,
        state: KeyStateConfig::Signing,
    };
    let inputs = FilterInputs::with_keys(FilterKeys::Listed(vec![key]));
    let input = case.join("in.yaml").display().to_string();
    render(&[input], &settings, &EnvoyOptions::default(), None, &inputs)
        .unwrap_or_else(|error| panic!("{}: {error}", case.display()))
}

#[test]
fn every_case_comes_out_as_it_should() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut different = Vec::new();
    for case in cases() {
        let document = rendered(&case).document().expect("a document");
        let text = serde_saphyr::to_string(&document).expect("YAML");
        let file = case.join("out.yaml");
        if update {
            fs::write(&file, &text).expect("it can be written");
        } else if fs::read_to_string(&file).unwrap_or_default() != text {
            let now =
                std::env::temp_dir().join(format!("{}.yaml", case.file_name().expect("a name").to_string_lossy()));
            fs::write(&now, &text).expect("it can be written");
            different.push(format!("diff {} {}", file.display(), now.display()));
        }
    }
    assert!(
        different.is_empty(),
        "these came out differently; if they are right, `make golden` makes them the golden ones:\n{}",
        different.join("\n")
    );
}

#[test]
fn nothing_belongs_to_no_case() {
    let known: BTreeSet<&str> = BTreeSet::from(["config.yaml", "in.yaml", "out.yaml"]);
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut orphans = Vec::new();
    for case in cases() {
        if !case.join("in.yaml").exists() {
            orphans.push(case);
            continue;
        }
        let files = fs::read_dir(&case)
            .expect("a folder")
            .map(|entry| entry.expect("a file").path());
        orphans.extend(files.filter(|file| !known.contains(&*file.file_name().expect("a name").to_string_lossy())));
    }
    if update {
        for orphan in &orphans {
            let removed = if orphan.is_dir() {
                fs::remove_dir_all(orphan)
            } else {
                fs::remove_file(orphan)
            };
            removed.expect("it can be removed");
        }
        return;
    }
    assert!(orphans.is_empty(), "these belong to no case: {orphans:?}");
}

/// What the filter is given, it must take.
#[test]
fn the_filters_configuration_is_one_by_the_filters_own_check() {
    let mut checked = 0;
    for case in cases() {
        let document = rendered(&case).document().expect("a document");
        for (gateway, resources) in document["resources"].as_object().expect("Gateways") {
            for extension in resources["ExtensionConfig"].as_array().expect("the filter") {
                let Some(text) = configuration(extension) else { continue };
                config::parse(text.as_bytes())
                    .unwrap_or_else(|error| panic!("{} {gateway}: {error}\n{text}", case.display()));
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked}");
}

/// The text of the filter's configuration, where it is not left out.
fn configuration(extension: &Value) -> Option<&str> {
    extension["typed_config"]["config"]["configuration"]["value"].as_str()
}
