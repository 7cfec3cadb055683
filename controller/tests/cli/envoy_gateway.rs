//! Configurations in objects of Envoy Gateway.

use crate::{KEY, OTHER_KEY, checkout, file, limpet, path};

/// The policies in a file of `envoy-configs/envoy-gateway`.
fn policies(name: &str) -> Vec<String> {
    let file = checkout().join("envoy-configs/envoy-gateway").join(name);
    let text = std::fs::read_to_string(file).unwrap();
    let documents = text.split("\n---\n").map(str::to_owned);
    documents
        .filter(|document| document.contains("kind: EnvoyExtensionPolicy"))
        .collect()
}

#[test]
fn the_examples_have_no_finding() {
    for name in ["module.yaml", "wasm.yaml", "wrapped-keys.yaml"] {
        let policies = policies(name);
        assert_eq!(policies.len(), 1, "{name}");
        let policy = file(".yaml", &policies[0]);
        limpet(&["check", path(&policy), "--env", "--deny-warnings"])
            .env("LIMPET_KEY", KEY)
            .env("LIMPET_KEK_1", OTHER_KEY)
            .run()
            .code(0)
            .says("the policy shop");
    }
}

#[test]
fn a_mistake_is_found_where_it_stands() {
    let policy = policies("module.yaml")
        .remove(0)
        .replace("cookie: {name:", "cookie: {nmae:");
    limpet(&["check", path(&file(".yaml", &policy))])
        .run()
        .code(2)
        .says("spec.dynamicModule[0].config")
        .says("policies.shop.cookie.nmae");
}

#[test]
fn a_wasm_filter_gets_only_the_variables_of_its_object() {
    let policy = policies("wasm.yaml")
        .remove(0)
        .replace("hostKeys: [LIMPET_KEY]", "hostKeys: [OTHER]");
    limpet(&["check", path(&file(".yaml", &policy))])
        .env("LIMPET_KEY", KEY)
        .run()
        .code(2)
        .says("keys[0].env");
}

#[test]
fn a_policy_without_limpets_configuration_is_refused() {
    let policy = policies("module.yaml")
        .remove(0)
        .replace("- name: limpet", "- name: other");
    limpet(&["check", path(&file(".yaml", &policy))])
        .run()
        .code(2)
        .says("no Limpet filter in it");
}
