//! Blocks of YAML and JSON. Their readers check complete ones; an excerpt says so (`yaml,excerpt`).

use serde_json::Value;

use crate::{assert_none, blocks, limpet_on, objects};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Filter,
    Controller,
    Objects,
}

/// First fields of a controller's configuration, and none of the filter's.
const OF_THE_CONTROLLER: [&str; 12] = [
    "contour",
    "controllerName",
    "envoy",
    "envoyGateway",
    "gatewayControllers",
    "http",
    "istio",
    "keyring",
    "leaderElection",
    "namespaces",
    "sessionDefaults",
    "xds",
];

pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn kind(documents: &[Value]) -> Option<Kind> {
    let has = |document: &Value, field: &str| document.get(field).is_some();
    let is_object = |document: &Value| has(document, "apiVersion") && has(document, "kind");
    match documents {
        [] => None,
        all if all.iter().all(is_object) => Some(Kind::Objects),
        [one] if has(one, "policies") => Some(Kind::Filter),
        [one] if OF_THE_CONTROLLER.iter().any(|field| has(one, field)) => Some(Kind::Controller),
        _ => None,
    }
}

fn problem(text: &str) -> Option<String> {
    let documents = match documents(text) {
        Ok(documents) => documents,
        Err(error) => return Some(error),
    };
    let Some(kind) = kind(&documents) else {
        return Some("neither objects nor a configuration; an excerpt is `yaml,excerpt`".to_owned());
    };
    let (code, said) = match kind {
        Kind::Filter => limpet_on(text, &["check", "--deny-warnings"]),
        Kind::Controller => limpet_on(text, &["controller", "--check", "--config"]),
        Kind::Objects => return objects::problem(documents),
    };
    (code != Some(0)).then_some(said)
}

#[test]
fn every_complete_block_of_yaml_is_good() {
    let problems = blocks(&["yaml"]).into_iter().filter_map(|(at, block)| {
        let problem = problem(&block.text)?;
        Some(format!("{at}: {problem}"))
    });
    assert_none(&problems.collect::<Vec<_>>());
}

#[test]
fn every_block_of_json_is_json() {
    let problems = blocks(&["json"]).into_iter().filter_map(|(at, block)| {
        let error = serde_json::from_str::<Value>(&block.text).err()?;
        Some(format!("{at}: {error}"))
    });
    assert_none(&problems.collect::<Vec<_>>());
}

#[test]
fn mistakes_in_complete_blocks_are_found() {
    for (wrong, expected) in [
        ("policies: {web: {cookie: {nam: session}}}", "policies.web.cookie.nam"),
        ("xds: {plainTxt: true}", "xds.plainTxt"),
        ("vm_config: {}", "neither objects nor a configuration"),
        ("a: [", "line 1"),
    ] {
        let problem = problem(wrong).unwrap_or_default();
        assert!(problem.contains(expected), "{wrong}: {problem}");
    }
}
