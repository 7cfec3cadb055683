//! The dynamic module in a chain: `module.yaml` with one part changed.

use serde_json::{Value, json};

use crate::{assert_one, example, findings};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

fn changed(change: impl Fn(&mut Value)) -> Value {
    let mut envoy = example("module.yaml");
    change(envoy.pointer_mut(MANAGER).unwrap());
    envoy
}

fn configured(configuration: &Value) -> Value {
    changed(|manager| manager["http_filters"][0]["typed_config"]["filter_config"] = configuration.clone())
}

/// It steers and reads metadata and the environment by itself, without headers.
#[test]
fn a_module_needs_no_other_filter() {
    assert_eq!(findings(&example("module.yaml")), (0, Vec::new()));
    let metadata = json!({"filter_metadata": {"limpet": {"session": "web/one"}}});
    let named = changed(|manager| {
        manager["route_config"]["virtual_hosts"][0]["routes"][0]["metadata"] = metadata.clone();
    });
    assert_eq!(findings(&named), (0, Vec::new()));
}

#[test]
fn the_configuration_of_a_module_is_checked() {
    let text = r#"{"keys": [], "policies": {"web": {"cookie": {"name": "limpet-session"}}}}"#;
    let text = json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text});
    assert_one(&configured(&text), "error", "filter_config.value", "keys");
    let missing = changed(|manager| {
        let filter = manager["http_filters"][0]["typed_config"].as_object_mut().unwrap();
        filter.remove("filter_config");
    });
    assert_one(&missing, "error", "typed_config", "in filter_config");
}

/// Envoy hands it to modules as JSON.
#[test]
fn a_module_reads_a_struct() {
    let filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
        "default": {"policy": "web", "scope": "default"},
    });
    let structure = json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": filter});
    assert_eq!(findings(&configured(&structure)), (0, Vec::new()));
}

#[test]
fn an_access_log_of_sessions_needs_the_module() {
    let log = json!([{"name": "stdout", "format": "%FILTER_STATE(limpet.session:PLAIN)%"}]);
    let shown = changed(|manager| manager["access_log"] = log.clone());
    assert_one(&shown, "warning", "access_log", "accessLog: true");
}

#[test]
fn a_module_of_another_name_is_told() {
    let other = changed(|manager| {
        manager["http_filters"][0]["typed_config"]["dynamic_module_config"]["name"] = "limpit".into();
    });
    let expected = "expected limpet, found limpit: Envoy loads liblimpit.so, and Limpet's module is liblimpet.so";
    assert_one(&other, "warning", "dynamic_module_config.name", expected);
}
