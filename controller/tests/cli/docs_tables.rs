//! Tables of pages that name tests, and the reasons of conditions.

use std::collections::BTreeSet;
use std::path::Path;

use crate::checkout;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            texts.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(read(&path));
        }
    }
    texts
}

fn section(page: &str, heading: &str) -> String {
    let page = read(&checkout().join(page));
    let (_, section) = page
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading:?}"));
    section.split("\n## ").next().unwrap().to_owned()
}

/// The texts between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The numbers in front of tests' names below a folder, as `check_08`.
fn checks(folder: &str) -> BTreeSet<String> {
    let number = |name: &str| {
        let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
        format!("check_{digits}")
    };
    sources(&checkout().join(folder))
        .iter()
        .flat_map(|text| text.split("fn check_").skip(1).map(number).collect::<Vec<_>>())
        .collect()
}

#[test]
fn the_gateway_api_page_names_each_check_and_no_other() {
    for (heading, folder) in [
        ("## What the GEP asks, and how it is met", "e2e/tests/e2e/gateway_api"),
        ("## Checks in a cluster", "e2e/tests/kube/checks"),
    ] {
        let section = section("design/gateway-api.md", heading);
        let named: BTreeSet<String> = code(&section)
            .filter(|code| code.starts_with("check_"))
            .map(str::to_owned)
            .collect();
        assert!(!named.is_empty(), "{heading}");
        assert_eq!(named, checks(folder), "{heading}: {folder}");
    }
}

/// Type, status and reason of a condition.
type Reason = (String, &'static str, String);

/// The reasons in the page's table of the conditions of policies.
fn documented_reasons() -> BTreeSet<Reason> {
    let section = section("docs/reference/annotations.md", "## Status");
    let rows = section.lines().filter_map(|line| {
        let mut cells = code(line.strip_prefix("| `").map(|_| line)?);
        let (condition, reason) = (cells.next()?, cells.next()?);
        let (kind, status) = condition.split_once(": ")?;
        let status = match status {
            "True" => "holds",
            "False" => "fails",
            other => panic!("expected True or False, found {other}"),
        };
        Some((kind.to_owned(), status, reason.to_owned()))
    });
    rows.collect()
}

/// The conditions that these sources make with literal types and reasons.
fn reasons(sources: &[String]) -> BTreeSet<Reason> {
    let mut reasons = BTreeSet::new();
    for text in sources {
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
        for status in ["holds", "fails"] {
            for arguments in text.split(&format!("Condition::{status}(")).skip(1) {
                let mut words = arguments.trim_start().split('"');
                let (before, kind, between, reason) = (words.next(), words.next(), words.next(), words.next());
                if before == Some("") && between.is_some_and(|between| between.trim() == ",") {
                    reasons.insert((kind.unwrap().to_owned(), status, reason.unwrap().to_owned()));
                }
            }
        }
    }
    reasons
}

fn sources_of_the_controller() -> Vec<String> {
    let controller = checkout().join("controller");
    let crates = std::fs::read_dir(&controller).unwrap();
    let folders = crates.map(|entry| entry.unwrap().path().join("src"));
    let mut all: Vec<String> = folders
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| sources(&folder))
        .collect();
    all.extend(sources(&controller.join("src")));
    all
}

#[test]
fn the_page_has_each_reason_of_a_policys_conditions() {
    let documented = documented_reasons();
    let all = reasons(&sources_of_the_controller());
    // Policies and `XBackend`s have these. `Programmed` they share with Gateways.
    let of_sessions = reasons(&sources(&checkout().join("controller/model/src/sessions")));
    assert!(!of_sessions.is_empty());
    let of_policies = all.iter().filter(|(kind, ..)| kind == "Programmed").chain(&of_sessions);
    for reason in of_policies {
        assert!(documented.contains(reason), "not in the table: {reason:?}");
    }
    for reason in &documented {
        assert!(all.contains(reason), "nothing has this condition: {reason:?}");
    }
}
