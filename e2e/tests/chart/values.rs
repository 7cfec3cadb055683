//! values.yaml, values.schema.json, and the page made of both.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use limpet_e2e::helm;
use serde_json::Value;

use crate::{checkout, compare};

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    path: String,
    default: String,
    comment: String,
}

/// The entries in the file's order, an object's after the object.
fn entries(text: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    let (mut comment, mut parents) = (String::new(), Vec::<&str>::new());
    for line in text.lines() {
        let content = line.trim_start();
        if let Some(words) = content.strip_prefix('#') {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(words.trim());
        } else if let Some((name, default)) = content.split_once(':') {
            parents.truncate((line.len() - content.len()) / 2);
            parents.push(name);
            found.push(Entry {
                path: parents.join("."),
                default: default.trim().to_owned(),
                comment: std::mem::take(&mut comment),
            });
        } else {
            comment.clear();
        }
    }
    found
}

fn values() -> Result<Vec<Entry>> {
    Ok(entries(&fs::read_to_string(helm::chart().join("values.yaml"))?))
}

fn schema() -> Result<Value> {
    let text = fs::read_to_string(helm::chart().join("values.schema.json"))?;
    Ok(serde_json::from_str(&text)?)
}

fn of<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(schema, |schema, name| &schema["properties"][name])
}

/// Whether the value is an object of values.
fn has_values(schema: &Value, path: &str) -> bool {
    path != "config" && of(schema, path)["properties"].is_object()
}

#[test]
fn the_schema_has_the_values_and_no_others() -> Result<()> {
    fn walk(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
        for (name, inner) in of(schema, path)["properties"].as_object().into_iter().flatten() {
            // Set by a parent chart for all of its parts.
            if name == "global" {
                continue;
            }
            let path = format!("{path}.{name}");
            if inner["properties"].is_object() && name != "config" {
                walk(schema, &path, found);
            } else {
                found.insert(path);
            }
        }
    }
    let schema = schema()?;
    let mut known = BTreeSet::new();
    for name in schema["properties"].as_object().context("no values")?.keys() {
        if has_values(&schema, name) {
            walk(&schema, name, &mut known);
        } else if name != "global" {
            known.insert(name.clone());
        }
    }
    // The reference of a GatewayClass is empty by default.
    known.retain(|path| !path.starts_with("gatewayClass.parametersRef."));
    known.insert("gatewayClass.parametersRef".to_owned());
    let there = values()?.into_iter().map(|entry| entry.path);
    let there: BTreeSet<_> = there
        .filter(|path| !has_values(&schema, path) || path == "gatewayClass.parametersRef")
        .collect();
    assert_eq!(there, known);
    Ok(())
}

/// Values that no golden case sets: they take objects away, or have their own test.
const IN_NO_CASE: [&str; 5] = [
    "image.tag",
    "envoys.managed",
    "envoys.namespaces",
    "gatewayClass.create",
    "podDisruptionBudget.enabled",
];

#[test]
fn every_value_is_set_by_a_golden_case() -> Result<()> {
    let cases = crate::golden::values()?;
    let is_set = |path: &str| {
        let of = |case: &Value| path.split('.').try_fold(case, |case, name| case.get(name)).is_some();
        cases.iter().any(of)
    };
    let schema = schema()?;
    let paths = values()?.into_iter().map(|entry| entry.path);
    let missing: Vec<_> = paths
        .filter(|path| !has_values(&schema, path) && !is_set(path))
        .collect();
    ensure!(
        missing == IN_NO_CASE,
        "no case of e2e/tests/chart/golden sets these: {missing:?}\nExpected these alone: {IN_NO_CASE:?}\n\
         Add a new value to everything/in.yaml."
    );
    Ok(())
}

#[test]
fn the_schema_refuses_unknown_values_everywhere() -> Result<()> {
    fn check(schema: &Value, path: &str, open: &mut Vec<String>) {
        let Some(fields) = schema["properties"].as_object() else {
            return;
        };
        if schema["additionalProperties"] != false {
            open.push(path.to_owned());
        }
        for (name, inner) in fields {
            check(inner, &format!("{path}.{name}"), open);
        }
    }
    let mut open = Vec::new();
    check(&schema()?, "", &mut open);
    ensure!(open.is_empty(), "{open:?}");
    Ok(())
}

/// In words.
fn kind(schema: &Value, value: &Value) -> Result<String> {
    if let Some(name) = value["$ref"].as_str() {
        let definition = name.rsplit('/').next().unwrap_or_default();
        ensure!(schema["definitions"][definition].is_object(), "{name}");
        return Ok(definition.to_owned());
    }
    if let Some(words) = value["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str).filter(|word| !word.is_empty());
        return Ok(words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "));
    }
    if let Some(any) = value["anyOf"].as_array() {
        let kinds = any.iter().map(|one| kind(schema, one)).collect::<Result<Vec<_>>>()?;
        return Ok(kinds.join(" or "));
    }
    let of = match &value["type"] {
        Value::Array(several) => several[0].as_str(),
        one => one.as_str(),
    };
    Ok(match of.with_context(|| format!("no type: {value}"))? {
        "string" => "text",
        "boolean" => "bool",
        "integer" => "number",
        "array" => "list",
        other => other,
    }
    .to_owned())
}

const TABLE: &str = "| Value | Type | Default | Meaning |\n|---|---|---|---|\n";

#[test]
fn the_page_of_values_is_what_the_chart_has() -> Result<()> {
    let schema = schema()?;
    let mut table = TABLE.to_owned();
    for Entry { path, default, comment } in values()? {
        if default.is_empty() {
            continue;
        }
        ensure!(!comment.is_empty(), "values.yaml does not say what {path} is");
        let kind = kind(&schema, of(&schema, &path))?;
        writeln!(table, "| `{path}` | {kind} | `{default}` | {comment} |")?;
    }
    let page = checkout("docs/reference/chart-values.md");
    let text = fs::read_to_string(&page)?;
    let (before, _) = text.split_once(TABLE).context("no table of values")?;
    compare(&page, &format!("{before}{table}"))
}

#[test]
fn the_chart_has_the_version_of_the_command() -> Result<()> {
    let chart: Value = serde_saphyr::from_str(&fs::read_to_string(helm::chart().join("Chart.yaml"))?)?;
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
    Ok(())
}

#[test]
fn entries_are_found_with_their_comments() {
    let text = "# Head.\n\n# A\n# b.\na: 1\n\nc:\n  # D.\n  d: {e: f}\n";
    let entry = |path: &str, default: &str, comment: &str| Entry {
        path: path.to_owned(),
        default: default.to_owned(),
        comment: comment.to_owned(),
    };
    assert_eq!(
        entries(text),
        [
            entry("a", "1", "A b."),
            entry("c", "", ""),
            entry("c.d", "{e: f}", "D.")
        ]
    );
}
