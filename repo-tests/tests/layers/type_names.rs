//! No name stands for two types: it says what a type is without its module.

use std::collections::BTreeMap;

use crate::checkout;
use crate::modules::Modules;

/// The crates of the filter and the controller; `limpet-fuzz` and the tests have names of their own.
const CRATES: [&str; 9] = [
    "filter/core",
    "filter/proxy-wasm",
    "filter/dynamic-module",
    "controller/model",
    "controller/api",
    "controller/resources",
    "controller/outputs",
    "controller/xds",
    "controller",
];

const SHARED: [&str; 3] = [
    // The subcommands with and without the feature `controller`.
    "ClusterCommand",
    // As std and kube name them.
    "Error",
    "Settings",
];

/// A line for each shared name, with the files that define it.
fn shared_names<'a>(types: impl Iterator<Item = (&'a str, String)>) -> Vec<String> {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, file) in types {
        files.entry(name).or_default().push(file);
    }
    files.retain(|name, files| files.len() > 1 && !SHARED.contains(name));
    let lines = files
        .into_iter()
        .map(|(name, files)| format!("{name}: {}", files.join(", ")));
    lines.collect()
}

#[test]
fn a_name_stands_for_two_types() {
    let root = checkout();
    let crates = CRATES.map(|package| Modules::of(&root.join(package).join("src/lib.rs")));
    let all = crates.iter().flat_map(Modules::types);
    let types: Vec<_> = all
        .map(|(name, file)| (name, file.strip_prefix(&root).unwrap_or(file).display().to_string()))
        .collect();
    assert!(types.len() > 500, "only {} types were found", types.len());
    let shared = shared_names(types.into_iter());
    assert!(
        shared.is_empty(),
        "rename all but one of each, so that the name says what the type is without its module (`KeyringReconciler`, \
         not `Reconciler`):\n{}",
        shared.join("\n")
    );
}

#[test]
fn a_shared_name_is_reported_with_each_file() {
    let types = [
        ("Found", "a.rs"),
        ("Place", "a.rs"),
        ("Error", "a.rs"),
        ("Error", "b.rs"),
        ("Found", "b.rs"),
    ];
    let types = types.map(|(name, file)| (name, file.to_owned()));
    assert_eq!(shared_names(types.into_iter()), ["Found: a.rs, b.rs"]);
}
