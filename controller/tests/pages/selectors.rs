//! What the pages' label selectors select must exist.

use std::fs;

use crate::{assert_none, blocks, checkout};

/// All sources of Limpet's labels: the chart and the controller.
const OBJECTS: [&str; 4] = [
    "e2e/tests/chart/golden/default/out.yaml",
    "controller/tests/golden/cases/managed/out.yaml",
    "controller/tests/golden/istio/rule/out.yaml",
    "controller/tests/golden/envoy-gateway/rule/out.yaml",
];

/// Labels that others write.
const OF_OTHERS: [&str; 2] = ["kubernetes.io/service-name", "gateway.envoyproxy.io/"];

fn selectors(script: &str) -> Vec<&str> {
    let words: Vec<&str> = script.split_whitespace().collect();
    let of_kubectl = words.windows(2).filter(|pair| ["-l", "--selector"].contains(&pair[0]));
    of_kubectl
        .map(|pair| pair[1].trim_matches(['\'', '"', ')']))
        .flat_map(|all| all.split(','))
        .collect()
}

fn problems(objects: &str, blocks: &[(String, String)]) -> Vec<String> {
    let is_there = |selector: &str| {
        let label = match selector.split_once('=') {
            Some((label, value)) => format!("{label}: {value}"),
            None => format!("{selector}: "),
        };
        let found = objects.split(['\n', ',', '{', '}']);
        found
            .map(str::trim)
            .any(|field| field == label || selector.len() + 2 == label.len() && field.starts_with(&label))
    };
    let mut problems = Vec::new();
    for (place, text) in blocks {
        let of_ours = selectors(text)
            .into_iter()
            .filter(|selector| !OF_OTHERS.iter().any(|label| selector.starts_with(label)));
        problems.extend(
            of_ours
                .filter(|selector| !is_there(selector))
                .map(|selector| format!("{place}: {selector} selects no object of {OBJECTS:?}")),
        );
    }
    problems
}

#[test]
fn the_pages_select_by_labels_that_objects_have() {
    let objects = OBJECTS.map(|file| fs::read_to_string(checkout().join(file)).unwrap());
    let blocks: Vec<_> = blocks(&["sh", "console"])
        .into_iter()
        .map(|(place, block)| (place, block.text))
        .collect();
    let count: usize = blocks.iter().map(|(_, text)| selectors(text).len()).sum();
    assert!(count > 8, "{count} selectors");
    assert_none(&problems(&objects.join("\n"), &blocks));
}

#[test]
fn labels_that_no_object_has_are_found() {
    let objects = "labels: {app.kubernetes.io/name: limpet-envoy}\nmore:\n  team: a\n";
    let of = |script: &str| problems(objects, &[("page.md:1".to_owned(), script.to_owned())]).len();
    for good in [
        "kubectl get pods -l app.kubernetes.io/name=limpet-envoy -o name)",
        "kubectl get pods --selector team",
        "kubectl get endpointslices -l kubernetes.io/service-name=shop",
        "ls -a",
    ] {
        assert_eq!(of(good), 0, "{good}");
    }
    for wrong in ["-l app=envoy", "--selector app.kubernetes.io/name=limpet", "-l tea"] {
        assert_eq!(of(&format!("kubectl get pods {wrong}")), 1, "{wrong}");
    }
}
