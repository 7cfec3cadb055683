//! `docs/reference/gateway-api.md` names an existing test for each feature that GatewayClasses claim.

use std::fs;

use limpet_model::SUPPORTED_FEATURES;

use crate::{assert_none, checkout};

fn row(line: &str) -> Option<[&str; 4]> {
    let mut cells = line.split('|').map(str::trim).skip(1);
    let mut code = || cells.next()?.strip_prefix('`')?.strip_suffix('`');
    let (feature, field) = (code()?, code()?);
    let test = cells.next()?.strip_prefix('[')?.strip_suffix(')')?;
    let (name, file) = test.split_once("](../../")?;
    Some([feature, field, name, file])
}

#[test]
fn each_supported_feature_has_a_test() {
    let page = fs::read_to_string(checkout().join("docs/reference/gateway-api.md")).unwrap();
    let rows: Vec<[&str; 4]> = page.lines().filter_map(row).collect();
    let features: Vec<&str> = rows.iter().map(|[feature, ..]| *feature).collect();
    assert_eq!(features, SUPPORTED_FEATURES);
    let problem = |[feature, field, name, file]: &[&str; 4]| {
        let text = fs::read_to_string(checkout().join(file)).unwrap_or_default();
        let is_golden = *file == format!("controller/tests/golden/cases/{name}/in.yaml") && !text.is_empty();
        let has_test = is_golden || text.contains(&format!("fn {name}("));
        let is_bad = !has_test || !text.contains(field);
        is_bad.then(|| format!("{feature}: expected the test {name} with {field} in {file}"))
    };
    assert_none(&rows.iter().filter_map(problem).collect::<Vec<_>>());
}

/// The API demands the order, and its server does not check it.
#[test]
fn features_are_in_alphabetical_order() {
    assert!(SUPPORTED_FEATURES.is_sorted() && SUPPORTED_FEATURES.len() <= 64);
}
