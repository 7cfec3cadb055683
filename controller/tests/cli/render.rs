//! `limpet render` on objects that nothing follows.

use crate::{checkout, limpet};

/// The class, the Gateway and the Service of the golden case, and one of its other objects.
fn with(object: &str) -> String {
    let case = checkout().join("controller/tests/golden/cases/without-status/in.yaml");
    let text = std::fs::read_to_string(case).unwrap();
    let documents: Vec<&str> = text.split("\n---\n").collect();
    let is = |document: &&&str, name: &str| document.contains(&format!("name: {name}}}"));
    let find = |name: &str| *documents.iter().find(|document| is(document, name)).unwrap();
    [find("limpet"), find("web"), find("v1"), find(object)].join("\n---\n")
}

#[test]
fn an_object_that_nothing_follows_is_told_and_fails() {
    for (object, words) in [
        ("lost", "HTTPRoute shop/lost"),
        ("classless", "expected an existing GatewayClass, found lipmet"),
        ("grant", "ReferenceGrant shop/grant"),
        ("pod", "expected Service, found"),
        ("no-route", "no route that can have sessions leads to"),
        ("missing", "XBackendTrafficPolicy shop/missing"),
        ("blue", "XBackend shop/blue"),
    ] {
        let ran = limpet(&["render", "-f", "-"]).run_with(&with(object));
        ran.code(1).says("withoutStatus").says(words);
    }
    limpet(&["render", "-f", "-"]).run_with(&with("of-others")).code(0);
}
