//! `EnvoyDeployment`: the type, the definition, the page's table and the chart's values have the same fields.

use std::collections::BTreeSet;

use limpet_api::{
    Autoscaling, Container, EnvoyDeploymentSpec, EnvoyFilterBuild, EnvoyPod, EnvoyService, Patches, ServiceRef,
    ServiceType, TrafficPolicy,
};
use limpet_model::check_envoy_defaults;
use serde_json::{Map, Value, json};

const DEFINITION: &str = include_str!("../../../deploy/chart/files/crds/envoydeployments.yaml");
const VALUES: &str = include_str!("../../../deploy/chart/values.schema.json");
const PAGE: &str = include_str!("../../../../docs/reference/envoy-deployment.md");

/// A field whose content is not ours.
const ANY: &str = "any";

/// Does not compile without a new field.
fn full() -> EnvoyDeploymentSpec {
    let text = || Some("a".to_owned());
    let object = || Map::from_iter([(ANY.to_owned(), Value::Null)]);
    let texts = || [(ANY.to_owned(), String::new())].into();
    let container = || Container {
        image: text(),
        resources: Some(object()),
    };
    EnvoyDeploymentSpec {
        managed: Some(true),
        service_ref: Some(ServiceRef {
            namespace: text(),
            name: "a".to_owned(),
        }),
        replicas: Some(1),
        autoscaling: Some(Autoscaling {
            min_replicas: Some(1),
            max_replicas: 1,
            cpu_utilization: Some(1),
        }),
        filter: Some(EnvoyFilterBuild::Wasm),
        drain_time: text(),
        metrics_port: Some(1),
        envoy: container(),
        limpet: container(),
        service: EnvoyService {
            kind: Some(ServiceType::NodePort),
            annotations: texts(),
            external_traffic_policy: Some(TrafficPolicy::Local),
            load_balancer_class: text(),
        },
        pod: EnvoyPod {
            labels: texts(),
            annotations: texts(),
            node_selector: Some(texts()),
            tolerations: Some(vec![object()]),
            affinity: Some(object()),
            topology_spread_constraints: Some(vec![object()]),
            priority_class_name: text(),
            image_pull_secrets: Some(vec![object()]),
        },
        patch: Patches {
            deployment: Some(object()),
            service: Some(object()),
            pod_disruption_budget: Some(object()),
        },
    }
}

fn of_type() -> BTreeSet<String> {
    fn walk(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value.as_object().filter(|fields| !fields.contains_key(ANY)) {
            None => {
                found.insert(path.trim_start_matches('.').to_owned());
            }
            Some(fields) => {
                for (name, value) in fields {
                    walk(value, &format!("{path}.{name}"), found);
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&serde_json::to_value(full()).expect("JSON"), "", &mut found);
    found
}

fn definition() -> Value {
    let definition: Value = serde_saphyr::from_str(DEFINITION).expect("YAML");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

/// Where the type has no more fields, the schema may have some.
fn of_schema(schema: &Value, known: &BTreeSet<String>) -> BTreeSet<String> {
    fn walk(schema: &Value, path: &str, known: &BTreeSet<String>, found: &mut BTreeSet<String>) {
        match schema["properties"].as_object().filter(|_| !known.contains(path)) {
            None => {
                found.insert(path.to_owned());
            }
            Some(fields) => {
                for (name, schema) in fields {
                    let path = format!("{path}.{name}");
                    walk(schema, path.trim_start_matches('.'), known, found);
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(schema, "", known, &mut found);
    found
}

/// The first column of the page's table.
fn of_page() -> BTreeSet<String> {
    let mut lines = PAGE.lines();
    lines
        .find(|line| line.starts_with("| Field of `spec` | Type | Default | Meaning |"))
        .expect("the table of fields");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let first = rows.filter_map(|row| row.trim_matches('|').split('|').next());
    first
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn type_definition_and_page_have_the_same_fields() {
    let of_type = of_type();
    assert!(of_type.len() > 25, "{of_type:?}");
    for (what, found) in [
        ("the definition", of_schema(&definition(), &of_type)),
        ("docs/reference/envoy-deployment.md", of_page()),
    ] {
        let missing: Vec<_> = of_type.difference(&found).collect();
        let more: Vec<_> = found.difference(&of_type).collect();
        assert!(
            missing.is_empty() && more.is_empty(),
            "{what} lacks {missing:?}, and the type lacks {more:?}"
        );
    }
}

/// The chart's JSON Schema, without CEL.
fn translated(schema: &Value) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(translated).collect(),
        Value::Object(fields) => {
            let is_named = fields.contains_key("properties");
            let mut all = Map::new();
            for (name, value) in fields {
                let value = match name.as_str() {
                    "description" | "format" | "anyOf" => continue,
                    // Numbers with a point are also quantities; a definition has no words for them.
                    "x-kubernetes-int-or-string" => {
                        all.insert("anyOf".to_owned(), json!([{"type": "number"}, {"type": "string"}]));
                        continue;
                    }
                    name if name.starts_with("x-kubernetes-") => continue,
                    "properties" => {
                        let fields = value.as_object().into_iter().flatten();
                        fields.map(|(name, value)| (name.clone(), translated(value))).collect()
                    }
                    _ => translated(value),
                };
                all.insert(name.clone(), value);
            }
            if is_named {
                all.insert("additionalProperties".to_owned(), false.into());
            }
            Value::Object(all)
        }
        other => other.clone(),
    }
}

fn resolved(schema: &Value, definitions: &Value) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(|item| resolved(item, definitions)).collect(),
        Value::Object(fields) => match fields.get("$ref").and_then(Value::as_str) {
            Some(name) => resolved(&definitions[name.trim_start_matches("#/definitions/")], definitions),
            None => fields
                .iter()
                .map(|(name, value)| (name.clone(), resolved(value, definitions)))
                .collect(),
        },
        other => other.clone(),
    }
}

#[test]
fn the_charts_defaults_have_the_definitions_schema() {
    let values: Value = serde_json::from_str(VALUES).expect("JSON");
    let managed = &values["properties"]["config"]["properties"]["envoy"]["properties"]["managed"];
    let found = resolved(&managed["properties"]["defaults"], &values["definitions"]);
    let expected = translated(&definition());
    let fields = expected["properties"].as_object().expect("fields");
    for (name, schema) in fields {
        assert_eq!(found["properties"][name], *schema, "{name}");
    }
    assert_eq!(found, expected);
}

#[test]
fn quantities_are_those_of_kubernetes() {
    let with = |amount: Value| check_envoy_defaults(&json!({"envoy": {"resources": {"limits": {"memory": amount}}}}));
    for good in [
        json!(1),
        json!(0.5),
        json!("1"),
        json!("500m"),
        json!("1Gi"),
        json!("+1.5Ki"),
        json!(".5"),
        json!("1."),
        json!("1e3"),
        json!("1E-3"),
        json!("2E"),
    ] {
        assert_eq!(with(good.clone()), Ok(()), "{good}");
    }
    for wrong in [
        json!(-1),
        json!("-1"),
        json!(""),
        json!("Gi"),
        json!("1Gx"),
        json!("1 Gi"),
        json!("1.2.3"),
        json!("."),
        json!("1gi"),
        json!("1e"),
        json!("1e3Mi"),
        json!(true),
    ] {
        let message = with(wrong.clone()).expect_err("a refusal");
        let expected =
            format!("spec.envoy.resources.limits.memory: expected a quantity, like 500m or 1Gi, found {wrong}");
        assert_eq!(message, expected);
    }
    let misspelt = check_envoy_defaults(&json!({"limpet": {"resources": {"limit": {}}}}));
    let expected = "spec.limpet.resources.limit: expected only requests, limits and claims";
    assert_eq!(misspelt.expect_err("a refusal"), expected);
}
