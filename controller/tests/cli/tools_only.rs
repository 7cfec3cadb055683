//! The command without the feature `controller`.

use std::path::Path;
use std::process::Command;

use crate::checkout;

#[test]
fn the_tools_alone_compile_no_client_and_no_server() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "-p", "limpet", "--no-default-features"])
        .args(["-e", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(checkout())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(
        crates.contains(&"limpet") && crates.contains(&"limpet-core"),
        "{crates:?}"
    );
    let unwanted = [
        "axum",
        "envoy-types",
        "k8s-openapi",
        "kube",
        "limpet-xds",
        "tokio",
        "tonic",
    ];
    let found: Vec<_> = unwanted.into_iter().filter(|name| crates.contains(name)).collect();
    assert!(found.is_empty(), "a build of the tools compiles {found:?}");
}

fn lines_with_feature(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            lines.extend(lines_with_feature(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let found = text.lines().enumerate().filter(|(_, line)| line.contains("feature = "));
            lines.extend(found.map(|(i, line)| format!("{}:{}: {}", path.display(), i + 1, line.trim())));
        }
    }
    lines
}

#[test]
fn one_line_of_the_sources_asks_for_the_feature() {
    let lines = lines_with_feature(&checkout().join("controller/src"));
    assert!(
        lines.len() == 1 && lines[0].contains("src/lib.rs:"),
        "expected one, in lib.rs: {lines:#?}"
    );
}
