//! Each target that `make help` lists is part of what runs without a person, or CONTRIBUTING.md says who runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use limpet_repo_tests::checkout;

/// What CI and a release run.
const RUN: [&str; 4] = ["check", "test", "test-all", "e2e-node"];
/// The heading in CONTRIBUTING.md below which the others are.
const BY_HAND: &str = "### By hand";

/// The targets, each with what it names, and those that `make help` lists.
fn targets(makefile: &str) -> (BTreeMap<&str, String>, BTreeSet<&str>) {
    let mut targets: BTreeMap<&str, String> = BTreeMap::new();
    let (mut listed, mut current) = (BTreeSet::new(), Vec::new());
    for line in makefile.lines() {
        if line.starts_with('\t') {
            for target in &current {
                targets.entry(*target).or_default().extend([line, "\n"]);
            }
        } else if let Some((names, rest)) = line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')) {
            current = names.split(' ').collect();
            let (needs, words) = rest.split_once("## ").unwrap_or((rest, ""));
            for target in &current {
                targets.entry(*target).or_default().extend([needs, "\n"]);
                listed.extend((!words.is_empty()).then_some(*target));
            }
        } else {
            current.clear();
        }
    }
    (targets, listed)
}

/// What a person has to run.
fn left_out(makefile: &str) -> Option<BTreeSet<&str>> {
    let parts = makefile.lines().find_map(|line| line.strip_prefix("parts :="))?;
    let (targets, listed) = targets(makefile);
    let is_named = |text: &str, target: &str| {
        let text = text.replace("$(parts)", parts);
        // A part of a run, a call of make, or what another target needs first.
        let mut calls = [": ", "$(MAKE) "].map(|before| format!("{before}{target}")).into_iter();
        let ends = |after: &str| after.chars().next().is_none_or(|next| " \"\n".contains(next));
        let needs = text.lines().next().unwrap_or_default();
        calls.any(|call| text.split(&call).skip(1).any(ends)) || needs.split(' ').any(|need| need == target)
    };
    let mut reached = BTreeSet::from(RUN);
    loop {
        let more: Vec<&str> = targets
            .keys()
            .filter(|target| !reached.contains(*target))
            .filter(|target| {
                reached
                    .iter()
                    .any(|by| targets.get(by).is_some_and(|text| is_named(text, target)))
            })
            .copied()
            .collect();
        if more.is_empty() {
            break;
        }
        reached.extend(more);
    }
    Some(listed.into_iter().filter(|target| !reached.contains(target)).collect())
}

#[test]
fn a_target_that_no_run_covers_rots() {
    let makefile = fs::read_to_string(checkout().join("Makefile"))
        .unwrap()
        .replace("\\\n", " ");
    let left_out = left_out(&makefile).unwrap();
    let page = fs::read_to_string(checkout().join("CONTRIBUTING.md")).unwrap();
    let (_, list) = page.split_once(BY_HAND).unwrap();
    let list = list.split("\n## ").next().unwrap_or_default();
    let by_hand = list
        .lines()
        .filter_map(|line| line.strip_prefix("| `make ")?.split('`').next());
    assert_eq!(
        left_out,
        by_hand.collect(),
        "left: targets that no run covers; right: those that CONTRIBUTING.md lists"
    );
}

#[test]
fn what_a_run_names_is_covered() {
    let makefile = "parts := \"one: a X=1\"\n\
                    a: b ## A\n\tsay\nb: ## B\n\t$(MAKE) c\nc: ## C\nd: ## D\n\tsay c\n\
                    test:\n\tparts.sh $(parts)\n";
    assert_eq!(left_out(makefile), Some(BTreeSet::from(["d"])));
}
