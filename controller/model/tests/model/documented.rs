//! The table of annotations in `docs/reference/annotations.md` is what the code reads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use limpet_core::config::schema::{PolicyConfig, SecureConfig};
use limpet_model::graph::{Action, Session};
use limpet_model::reports::ConditionStatus;
use limpet_model::{SessionFields, Settings, build};

use super::{CLASS, SHOP, condition, objects, of_type};

const PAGE: &str = include_str!("../../../../docs/reference/annotations.md");

struct Row {
    name: String,
    values: Vec<String>,
    default: Option<String>,
}

fn rows() -> Vec<Row> {
    let mut lines = PAGE.lines();
    lines
        .find(|line| line.starts_with("| `session.limpet.dev/…` | Values | Default |"))
        .expect("the table of annotations");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [name, values, default] = cells[..] else {
            panic!("expected three cells: {line}")
        };
        let mut name = code(name);
        assert_eq!(name.len(), 1, "expected one name: {line}");
        Row {
            name: name.remove(0),
            values: code(values),
            default: code(default).pop(),
        }
    })
    .collect()
}

fn code(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The policies and the session of a rule with its own sessions, whose route has this annotation.
fn policies(annotation: Option<(&str, &str)>, secure: SecureConfig) -> (BTreeMap<String, PolicyConfig>, Session) {
    let annotations = annotation.map_or_else(String::new, |(name, value)| {
        format!("session.limpet.dev/{name}: '{value}'")
    });
    let manifests = format!(
        "{CLASS}{SHOP}
kind: HTTPRoute
metadata: {{namespace: shop, name: shop, annotations: {{{annotations}}}}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - name: all
    matches: [{{path: {{value: /shop}}}}]
    backendRefs: [{{name: v1, port: 80}}]
    sessionPersistence: {{sessionName: s}}"
    );
    let mut settings = Settings::default();
    settings.session_defaults.secure = Some(secure);
    // A permanent cookie needs it, and it is longer than the example of `rebalance`.
    settings.session_defaults.absolute_timeout = Some(Duration::from_secs(3600).into());
    let (graph, reports) = build(&objects::read(&manifests), &settings);
    let accepted = condition(&reports, "Accepted");
    assert_eq!(
        (accepted.status, graph.policies.len()),
        (ConditionStatus::True, 1),
        "{annotation:?}: {accepted:?}"
    );
    let policies = graph.policies.iter();
    let policies = policies.map(|(name, policy)| (name.to_string(), PolicyConfig::clone(policy)));
    let listeners = graph
        .gateways
        .values()
        .flat_map(|gateway| gateway.ports.values().flatten());
    let routes = listeners.flat_map(|listener| listener.virtual_hosts.values().flat_map(|host| &host.routes));
    let mut sessions = routes.filter_map(|route| match &route.action {
        Action::Forward(forward) => Some(forward.session.clone()),
        _ => None,
    });
    (
        policies.collect(),
        sessions.next_back().expect("a rule that leads somewhere"),
    )
}

fn expected(name: &str, value: &str) -> String {
    let manifests = format!(
        "{CLASS}{SHOP}
kind: BackendLBPolicy
metadata: {{namespace: shop, name: p, annotations: {{session.limpet.dev/{name}: '{value}'}}}}
spec: {{targetRefs: [{{group: '', kind: Service, name: v1}}], sessionPersistence: {{sessionName: s}}}}
---
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec: {{parentRefs: [{{name: web}}], rules: [{{backendRefs: [{{name: v1, port: 80}}]}}]}}"
    );
    let (_, reports) = build(&objects::read(&manifests), &Settings::default());
    let report = reports.session_policies.values().next().expect("a policy");
    let accepted = of_type(&report.ancestors[0].conditions, "Accepted");
    assert_eq!(accepted.reason, "Invalid", "{name}: {value}: {accepted:?}");
    let (_, expected) = accepted.message.split_once("expected ").expect("what was expected");
    let (expected, _) = expected.split_once(", found ").expect("what was found");
    expected.to_owned()
}

#[test]
fn the_page_names_each_annotation_and_no_other() {
    let documented: BTreeSet<String> = rows().into_iter().map(|row| row.name).collect();
    let unknown = expected("of-nobody", "");
    let (_, known) = unknown.split_once(" one of ").expect("the names that are known");
    let known: BTreeSet<String> = known.split(", ").map(str::to_owned).collect();
    assert_eq!(documented, known);
}

#[test]
fn the_page_names_each_value_of_an_annotation() {
    for row in rows() {
        if row.values.is_empty() {
            assert_eq!(row.name, "domain");
            continue;
        }
        let expected = expected(&row.name, "of-nobody");
        if expected.contains("YAML") {
            let (example, words) = row.values.split_last().expect("values");
            let words = words.join(", ");
            assert_eq!(expected, format!("{words}, or YAML like {example}"), "{}", row.name);
            continue;
        }
        let expected: Vec<&str> = [", ", " or ", " to "]
            .iter()
            .fold(vec![expected.as_str()], |parts, separator| {
                parts.into_iter().flat_map(|part| part.split(separator)).collect()
            });
        let values: BTreeSet<&str> = expected.iter().filter_map(|part| part.split(' ').next_back()).collect();
        let documented: BTreeSet<&str> = row.values.iter().map(String::as_str).collect();
        assert_eq!(documented, values, "{}", row.name);
    }
}

#[test]
fn the_pages_default_of_an_annotation_changes_nothing() {
    for row in rows() {
        for value in &row.values {
            // Browsers drop these cookies where they are not Secure.
            let secure = match (row.name.as_str(), value.as_str()) {
                ("same-site", "None") | ("partitioned", "true") => SecureConfig::Always,
                _ => SecureConfig::default(),
            };
            let annotated = policies(Some((&row.name, value)), secure);
            let is_default = annotated == policies(None, secure);
            assert_eq!(is_default, row.default.as_ref() == Some(value), "{}: {value}", row.name);
        }
        if let Some(default) = &row.default {
            let unsaid = policies(None, SecureConfig::default());
            let said = policies(Some((&row.name, default)), SecureConfig::default());
            assert_eq!(said, unsaid, "{}: {default}", row.name);
        }
    }
}

#[test]
fn each_annotation_has_a_default_of_the_same_name() {
    let defaults = serde_json::to_value(SessionFields::default()).expect("defaults have a form in JSON");
    let fields = defaults.as_object().expect("fields").keys().map(|field| {
        let dashed = |letter: char| {
            if letter.is_ascii_uppercase() {
                format!("-{}", letter.to_ascii_lowercase())
            } else {
                letter.to_string()
            }
        };
        field.chars().map(dashed).collect()
    });
    let fields: BTreeSet<String> = fields.collect();
    let documented: BTreeSet<String> = rows().into_iter().map(|row| row.name).collect();
    assert_eq!(documented, fields);
}
