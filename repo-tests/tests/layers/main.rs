//! The layers of the repository: no import runs upwards.
//!
//! The compiler sees to it between crates if Cargo.toml lacks what a crate must not know. It permits circles between a
//! crate's modules, so they are searched here.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod modules;
mod type_names;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use modules::Modules;
use serde_json::Value;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The crates with layered modules.
///
/// The dynamic module is missing: `abi` has all its unsafe code, calls in both directions, so it is below and above the
/// rest.
const CRATES: [&str; 8] = [
    "filter/core",
    "filter/proxy-wasm",
    "controller/api",
    "controller/model",
    "controller/resources",
    "controller/outputs",
    "controller/xds",
    "controller",
];

#[test]
fn modules_import_each_other_in_a_circle() {
    let mut circles = Vec::new();
    for package in CRATES {
        let modules = Modules::of(&checkout().join(package).join("src/lib.rs"));
        circles.extend(modules.circles().map(|circle| format!("{package}: {circle}")));
    }
    assert!(circles.is_empty(), "circles of imports:\n{}", circles.join("\n"));
}

/// Dependencies that no pure crate has.
const WORLD: [&str; 8] = [
    "getrandom",
    "hyper",
    "k8s-openapi",
    "kube",
    "time",
    "tokio",
    "tonic",
    "tracing",
];

/// The repository's crates that each crate may use.
const KNOWS: [(&str, &[&str]); 6] = [
    ("limpet-core", &[]),
    ("limpet-api", &[]),
    ("limpet-model", &["limpet-api", "limpet-core"]),
    ("limpet-resources", &[]),
    (
        "limpet-outputs",
        &["limpet-api", "limpet-core", "limpet-model", "limpet-resources"],
    ),
    ("limpet-xds", &["limpet-core", "limpet-resources"]),
];

#[test]
fn a_crate_depends_on_what_it_must_not_know() {
    let dependencies = dependencies();
    for (package, known) in KNOWS {
        let found = &dependencies[package];
        let own = found.iter().filter(|name| name.starts_with("limpet"));
        let upwards: Vec<&String> = own.filter(|name| !known.contains(&name.as_str())).collect();
        assert!(upwards.is_empty(), "{package} depends on {upwards:?}");
        let forbidden: &[&str] = match package {
            // It serves streams, without Kubernetes.
            "limpet-xds" => &["k8s-openapi", "kube"],
            _ => &WORLD,
        };
        let forbidden: Vec<_> = forbidden.iter().filter(|name| found.contains(**name)).collect();
        assert!(forbidden.is_empty(), "{package} depends on {forbidden:?}");
    }
}

fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(checkout())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    let named = packages.iter().map(|package| {
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let normal = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
        (
            text(&package["name"]),
            normal.map(|dependency| text(&dependency["name"])).collect(),
        )
    });
    named.collect()
}
