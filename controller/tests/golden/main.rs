//! Golden cases: manifests, and everything that Limpet makes of them.
//!
//! A case is a folder with `in.yaml` and `out.yaml`: the graph, the reports, and Envoy's resources or the objects for
//! another control plane. It may have sections of the controller's configuration: `config.yaml` (`sessionDefaults`),
//! `envoy.yaml` and `contour.yaml`. `make golden` writes every `out.yaml` and removes files that belong to no case.
//! `analyze` has the findings of `limpet analyze` for some of them, and for configurations of Envoy.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod analyze;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use limpet::cluster::render::{RenderResult, render};
use limpet_core::config::{
    self,
    schema::{KeyConfig, KeyStateConfig},
};
use limpet_model::{GatewayOwner, ManagedEnvoys, Settings};
use limpet_outputs::envoy::{EnvoyEnvironment, EnvoyOptions, EnvoysNamespace};
use limpet_outputs::envoy_gateway::EnvoyGatewayOptions;
use limpet_outputs::istio::IstioOptions;
use limpet_outputs::{ControlPlane, FilterInputs, FilterKeys};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The folders of cases, and the control plane of their output.
fn outputs() -> [(&'static str, Option<ControlPlane>); 3] {
    [
        ("cases", None),
        (
            "envoy-gateway",
            Some(ControlPlane::EnvoyGateway(EnvoyGatewayOptions::default())),
        ),
        ("istio", Some(ControlPlane::Istio(IstioOptions::default()))),
    ]
}

struct Case {
    folder: PathBuf,
    plane: Option<ControlPlane>,
}

impl Case {
    /// Folders may share a case's name: `istio-split` and `cases-split`.
    fn name(&self) -> String {
        let mut parts = self.folder.iter().rev().map(|part| part.to_string_lossy());
        let (case, folder) = (parts.next().expect("a case"), parts.next().expect("a folder"));
        format!("{folder}-{case}")
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, plane) in outputs() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        let before = cases.len();
        for entry in fs::read_dir(folder).expect("the cases") {
            cases.push(Case {
                folder: entry.expect("a case").path(),
                plane: plane.clone(),
            });
        }
        assert!(cases.len() > before + 4, "{name}");
    }
    cases.sort_by(|one, other| one.folder.cmp(&other.folder));
    cases
}

fn part<T: DeserializeOwned + Default>(file: &Path) -> T {
    if !file.exists() {
        return T::default();
    }
    let text = fs::read_to_string(file).expect("a configuration");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn rendered(Case { folder, plane }: &Case) -> RenderResult {
    let of = |plane: &ControlPlane| {
        plane
            .gateway_controllers()
            .iter()
            .map(|name| (*name).to_owned())
            .collect()
    };
    let mut options: EnvoyOptions = part(&folder.join("envoy.yaml"));
    if let Some(managed) = &mut options.managed {
        managed.surroundings = EnvoyEnvironment {
            namespace: "limpet-system".to_owned(),
            xds_port: 18000,
            tls: true,
            key_encryption_keys: Some("limpet-key-encryption-key".to_owned()),
        };
    }
    let managed = options.managed.as_ref().map(|managed| ManagedEnvoys {
        namespace: (managed.namespace == EnvoysNamespace::Controller).then(|| "limpet-system".to_owned()),
        defaults: managed.defaults.clone(),
        infrastructure: managed.infrastructure.clone(),
    });
    let settings = Settings {
        managed,
        session_defaults: part(&folder.join("config.yaml")),
        contour: part(&folder.join("contour.yaml")),
        gateways: plane
            .as_ref()
            .map_or(GatewayOwner::Ours, |plane| GatewayOwner::Of(of(plane))),
        ..Settings::default()
    };
    let key = KeyConfig {
        id: 1,
        env: Some("LIMPET_KEY".to_owned()),
        inline: None,
        state: KeyStateConfig::Signing,
    };
    let inputs = FilterInputs::with_keys(FilterKeys::Listed(vec![key]));
    let input = folder.join("in.yaml").display().to_string();
    render(&[input], &settings, &options, plane.as_ref(), &inputs)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

#[test]
fn every_case_has_the_golden_output() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut different = Vec::new();
    for case in cases() {
        let document = rendered(&case).document().expect("a document");
        let text = serde_saphyr::to_string(&document).expect("YAML");
        let file = case.folder.join("out.yaml");
        if update {
            fs::write(&file, &text).expect("it can be written");
        } else if fs::read_to_string(&file).unwrap_or_default() != text {
            let now = std::env::temp_dir().join(format!("{}.yaml", case.name()));
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
fn no_two_cases_write_their_difference_to_one_file() {
    let cases = cases();
    let names: BTreeSet<String> = cases.iter().map(Case::name).collect();
    assert_eq!(names.len(), cases.len());
}

#[test]
fn every_file_belongs_to_a_case() {
    let known: BTreeSet<&str> = BTreeSet::from(["config.yaml", "contour.yaml", "envoy.yaml", "in.yaml", "out.yaml"]);
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut orphans = Vec::new();
    for case in cases() {
        if !case.folder.join("in.yaml").exists() {
            orphans.push(case.folder);
            continue;
        }
        let files = fs::read_dir(&case.folder)
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

#[test]
fn the_filters_configuration_is_one_by_the_filters_own_check() {
    let mut checked = 0;
    for case in cases() {
        let document = rendered(&case).document().expect("a document");
        for text in configurations(&document) {
            config::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}\n{text}", case.folder.display()));
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}

fn configurations(document: &Value) -> Vec<String> {
    let of_envoys = document["resources"].as_object().into_iter().flatten();
    let of_envoys = of_envoys.flat_map(|(_, resources)| resources["ExtensionConfig"].as_array().expect("the filter"));
    let of_envoys = of_envoys.filter_map(|extension| {
        let text = extension["typed_config"]["config"]["configuration"]["value"].as_str();
        text.map(str::to_owned)
    });
    let of_istio = document["objects"].as_array().into_iter().flatten();
    let of_istio = of_istio.filter(|object| object["kind"] == "WasmPlugin");
    let of_istio = of_istio.map(|plugin| plugin["spec"]["pluginConfig"].to_string());
    of_envoys.chain(of_istio).collect()
}
