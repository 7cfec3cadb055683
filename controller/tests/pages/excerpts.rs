//! Excerpts of YAML: a block that begins with `# Excerpt of FILE` must be part of that file.

use std::fs;

use serde_json::Value;

use crate::{assert_none, blocks, checkout, yaml};

/// Whether `whole` has all of `part`: fields among others, elements in the same order among others.
fn covers(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, part)| whole.get(name).is_some_and(|whole| covers(whole, part))),
        (Value::Array(whole), Value::Array(part)) => {
            let mut rest = whole.iter();
            part.iter().all(|part| rest.any(|whole| covers(whole, part)))
        }
        (Value::String(whole), Value::String(part)) => whole.trim() == part.trim(),
        (whole, part) => whole == part,
    }
}

fn is_within(whole: &Value, part: &Value) -> bool {
    let deeper = || match whole {
        Value::Object(fields) => fields.values().any(|value| is_within(value, part)),
        Value::Array(all) => all.iter().any(|value| is_within(value, part)),
        _ => false,
    };
    covers(whole, part) || deeper()
}

fn problem(text: &str) -> Option<String> {
    let parts = match yaml::documents(text) {
        Ok(parts) => parts,
        Err(error) => return Some(error),
    };
    if parts.is_empty() {
        return Some("nothing but comments".to_owned());
    }
    let file = text.lines().next()?.strip_prefix("# Excerpt of ")?;
    let Ok(whole) = fs::read_to_string(checkout().join(file)) else {
        return Some(format!("there is no {file}"));
    };
    let whole = yaml::documents(&whole).unwrap();
    let lost = |part: &&Value| !whole.iter().any(|whole| is_within(whole, part));
    let lost = parts.iter().find(lost)?;
    Some(format!("{file} has no such part: {lost}"))
}

#[test]
fn every_excerpt_is_yaml_and_part_of_its_file() {
    let problems = blocks(&["yaml,excerpt"]).into_iter().filter_map(|(at, block)| {
        let problem = problem(&block.text)?;
        Some(format!("{at}: {problem}"))
    });
    assert_none(&problems.collect::<Vec<_>>());
}

#[test]
fn excerpts_that_are_no_part_of_their_file_are_found() {
    let of = |text: &str| problem(&format!("# Excerpt of envoy-configs/cookie.yaml\n{text}"));
    assert_eq!(
        of("http_filters:\n- name: limpet\n- name: envoy.filters.http.router"),
        None
    );
    assert!(of("http_filters:\n- name: envoy.filters.http.router\n- name: limpet").is_some());
    assert!(of("http_filters:\n- name: limpets").is_some());
    assert!(of("").is_some());
    assert!(problem("# Excerpt of envoy-configs/none.yaml\na: 1").is_some());
}
