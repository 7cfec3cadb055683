//! The dashboard and the alerts name existing metrics and pages. `make e2e-monitoring` tests their queries with a
//! Prometheus.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;

use limpet_repo_tests::{Page, checkout};
use serde_json::Value;

const DASHBOARD: &str = "controller/deploy/monitoring/limpet.dashboard.json";
const RULES: &str = "controller/deploy/monitoring/limpet.rules.yaml";
const SERIES: &str = "e2e/tests/kube/monitoring/alerts.yaml";
const OPERATORS: &str = "controller/deploy/monitoring/prometheus-rule.yaml";

fn read(path: &str) -> String {
    fs::read_to_string(checkout().join(path)).unwrap()
}

fn rules() -> String {
    let text = read(RULES);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// All texts of the dashboard, also queries.
fn dashboard() -> String {
    fn texts(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
            Value::Object(fields) => fields.values().for_each(|value| texts(value, found)),
            _ => (),
        }
    }
    let mut found = Vec::new();
    texts(&serde_json::from_str(&read(DASHBOARD)).unwrap(), &mut found);
    found.join("\n")
}

/// The words with this prefix; one that ends in `_` is part of a pattern.
fn words(text: &str, start: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_:".contains(character);
    text.split(|character| !is_part(character))
        .filter(|word| word.starts_with(start) && !word.ends_with('_'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn metrics_of_the_controller_are_in_the_reference_and_the_code() {
    let reference = words(&read("docs/reference/metrics.md"), "limpet_");
    let code =
        ["metrics.rs", "session_metrics.rs"].map(|file| read(&format!("controller/src/cluster/controller/{file}")));
    let code = code.concat() + &read("controller/src/cluster/reconcile/status/metrics.rs");
    let used = words(&rules(), "limpet_");
    let used: BTreeSet<_> = used.union(&words(&dashboard(), "limpet_")).cloned().collect();
    assert!(used.len() > 15, "{used:?}");
    for metric in used {
        let metric = metric.strip_suffix("_bucket").unwrap_or(&metric);
        assert!(reference.contains(metric), "the reference has no {metric}");
        // The registry adds the prefix, and the suffix of counters.
        let whole = metric.strip_suffix("_total").unwrap_or(metric);
        let name = whole.strip_prefix("limpet_").unwrap();
        let is_there = code.contains(&format!("\"{name}\"")) || code.contains(&format!("\"{whole}\""));
        assert!(is_there, "the code has no {metric}");
    }
}

/// The counters in the filter's reference with this prefix, in Prometheus' form.
fn counters(start: &str) -> BTreeSet<String> {
    let text = read("docs/reference/metrics.md");
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_prefix(start));
    rows.filter_map(|rest| rest.split_once('`'))
        .map(|(word, _)| word.replace('.', "_"))
        .filter(|word| !word.contains('<'))
        .collect()
}

/// The alternatives in the last group of a recording rule's pattern.
fn alternatives(rule: &str) -> BTreeSet<String> {
    let text = rules();
    let behind = text.split_once(&format!("record: {rule}\n")).unwrap().1;
    let pattern = behind.split_once("__name__=~\"").unwrap().1.split_once('"').unwrap().0;
    let group = pattern.rsplit_once('(').unwrap().1.trim_end_matches(')');
    group.split('|').map(str::to_owned).collect()
}

#[test]
fn rules_record_each_counter_of_the_filter() {
    let requests = alternatives("limpet:envoy_requests");
    let responses = alternatives("limpet:envoy_responses");
    assert!(requests.is_disjoint(&responses));
    let recorded: BTreeSet<_> = requests.union(&responses).cloned().collect();
    assert_eq!(recorded, counters("limpet.<policy>."));
    assert_eq!(alternatives("limpet:envoy_faults"), counters("limpet."));
    let code = read("filter/core/src/outcome.rs").replace("limpet.", "");
    for word in recorded.union(&alternatives("limpet:envoy_faults")) {
        let with_reason = word.replacen("refused_", "refused.", 1);
        let is_there = [word, &with_reason]
            .iter()
            .any(|word| code.contains(&format!("\"{word}\"")));
        assert!(is_there, "the filter has no {word}");
    }
}

#[test]
fn outcomes_that_queries_choose_are_recorded() {
    let known = ["limpet:envoy_requests", "limpet:envoy_responses"].map(alternatives);
    let known: BTreeSet<_> = known.into_iter().flatten().collect();
    let mut chosen = 0;
    for text in [rules(), dashboard()] {
        for (at, _) in text.match_indices("{outcome=") {
            let pattern = text.get(at..).unwrap().split('"').nth(1).unwrap();
            let (start, group) = pattern.split_once('(').unwrap_or(("", pattern));
            for word in group.trim_end_matches(')').split('|') {
                let word = format!("{start}{word}");
                let is_known = match word.strip_suffix(".+") {
                    Some(start) => known.iter().any(|known| known.starts_with(start)),
                    None => known.contains(&word),
                };
                assert!(is_known, "no outcome is {word}");
                chosen += 1;
            }
        }
    }
    assert!(chosen > 5, "{chosen}");
}

#[test]
fn what_queries_take_of_rules_is_recorded() {
    let text = rules();
    for used in words(&text, "limpet:").union(&words(&dashboard(), "limpet:")) {
        assert!(text.contains(&format!("record: {used}\n")), "no rule records {used}");
    }
}

#[test]
fn each_alert_is_tested_and_says_what_to_do_and_read() {
    let page = read("docs/how-to/monitor.md");
    let text = rules();
    let series = read(SERIES);
    let mut alerts = 0;
    for alert in text.split("- alert: ").skip(1) {
        alerts += 1;
        let name = alert.lines().next().unwrap();
        assert!(page.contains(&format!("`{name}`")), "the page does not name {name}");
        for case in ["fires", "leaves this alone"] {
            let is_tested = series.contains(&format!("- name: {name} {case}\n"));
            assert!(is_tested, "no test says that {name} {case}");
        }
        for field in ["summary: ", "description: >-\n", "severity: "] {
            assert!(alert.contains(field), "{name} has no {field}");
        }
        let link = alert.split_once("runbook_url: ").unwrap().1.lines().next().unwrap();
        let (file, anchor) = link.split_once('#').unwrap();
        let anchors = Page::parse(&read(file)).anchors;
        assert!(anchors.contains(anchor), "{name}: {file} has no heading #{anchor}");
    }
    assert!(alerts > 10, "{alerts}");
}

#[test]
fn the_operator_gets_the_same_rules() {
    let rules = read(RULES);
    let (_, groups) = rules.split_once("groups:\n").unwrap();
    let operators = read(OPERATORS);
    let (_, found) = operators.split_once("\nspec:\n  groups:\n").unwrap();
    let found: Vec<_> = found
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .collect();
    assert_eq!(found, groups.lines().collect::<Vec<_>>());
}
