use serde_json::{Value, json};

use super::*;
use crate::cluster::kube::{StatusDigest, status_digest};

const OURS: &str = "limpet.dev/controller";
const BEFORE: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-02-01T00:00:00Z";

fn gateway(name: &str) -> ParentRef {
    ParentRef {
        group: "gateway.networking.k8s.io".to_owned(),
        kind: "Gateway".to_owned(),
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
        ..ParentRef::default()
    }
}

/// Entries for these Gateways, `Accepted` or not.
fn entries(gateways: &[(&str, bool)]) -> DesiredStatus {
    let entry = |(name, holds): &(&str, bool)| {
        let condition = if *holds { Condition::holds } else { Condition::fails };
        StatusEntry {
            reference: gateway(name),
            generation: 7,
            conditions: vec![condition("Accepted", "Accepted", "as it is")],
        }
    };
    DesiredStatus::Entries(gateways.iter().map(entry).collect())
}

fn foreign(names: &[&str]) -> Vec<Value> {
    let entry =
        |name: &&str| json!({"parentRef": {"name": name}, "controllerName": "example.com/other", "conditions": []});
    names.iter().map(entry).collect()
}

fn merged(status: &Value, wanted: &DesiredStatus, now: &str) -> Value {
    merge(Kind::HttpRoute, status, wanted, OURS, now)
}

fn parents(status: &Value) -> Vec<&str> {
    items(status, "parents")
        .map(|entry| entry["parentRef"]["name"].as_str().unwrap())
        .collect()
}

#[test]
fn entries_of_others_stay_as_they_are_and_ours_keep_their_place() {
    let mut status = json!({"parents": foreign(&["x"]), "somebody": "else"});
    status = merged(&status, &entries(&[("a", true), ("b", true)]), BEFORE);
    status["parents"].as_array_mut().unwrap().extend(foreign(&["y"]));
    assert_eq!(parents(&status), ["x", "a", "b", "y"]);
    assert_eq!(status["somebody"], "else");

    let after = merged(&status, &entries(&[("c", true), ("b", false)]), NOW);
    assert_eq!(parents(&after), ["x", "b", "y", "c"], "what is not wanted is gone");
    for at in [0, 2] {
        let before = &status["parents"][[0, 3][usize::from(at == 2)]];
        assert_eq!(&after["parents"][at], before);
    }
    let none = merged(&after, &DesiredStatus::Entries(Vec::new()), NOW);
    assert_eq!(parents(&none), ["x", "y"]);
}

#[test]
fn a_condition_keeps_its_time_while_its_status_is_the_same() {
    let first = merged(&Value::Null, &entries(&[("a", true)]), BEFORE);
    let time = |status: &Value| status["parents"][0]["conditions"][0]["lastTransitionTime"].clone();
    assert_eq!(time(&first), BEFORE);
    let same = merged(&first, &entries(&[("a", true)]), NOW);
    assert_eq!(same, first, "so nothing is written");
    let other = merged(&first, &entries(&[("a", false)]), NOW);
    assert_eq!(time(&other), NOW);
    assert_eq!(other["parents"][0]["conditions"][0]["observedGeneration"], 7);
    // Another entry's time does not count.
    let moved = merged(&first, &entries(&[("b", true)]), NOW);
    assert_eq!(time(&moved), NOW);
}

#[test]
fn entries_that_are_there_twice_become_one() {
    let one = merged(&Value::Null, &entries(&[("a", true)]), BEFORE);
    let mut twice = one.clone();
    let copy = twice["parents"][0].clone();
    twice["parents"].as_array_mut().unwrap().push(copy);
    assert_eq!(merged(&twice, &entries(&[("a", true)]), NOW), one);
}

#[test]
fn there_are_no_more_entries_than_the_definition_has_room_for() {
    let names: Vec<String> = (0..40).map(|number| format!("g{number}")).collect();
    let wanted: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), true)).collect();
    let others: Vec<&str> = names.iter().take(30).map(String::as_str).collect();
    let status = merged(&json!({"parents": foreign(&others)}), &entries(&wanted), NOW);
    let of_all = parents(&status);
    assert_eq!(of_all.len(), 32);
    assert_eq!(of_all[30..], ["g0", "g1"]);
    let policy = merge(Kind::BackendLbPolicy, &Value::Null, &entries(&wanted), OURS, NOW);
    assert_eq!(policy["ancestors"].as_array().unwrap().len(), 16);
    assert!(policy["ancestors"][0]["ancestorRef"].is_object() && policy.get("parents").is_none());
}

fn whole(addresses: Option<&[(&'static str, &str)]>, listeners: &[&str]) -> DesiredStatus {
    let listener = |name: &&str| ListenerReport {
        name: (*name).to_owned(),
        attached_routes: 1,
        conditions: vec![Condition::holds("Accepted", "Accepted", "")],
        ..ListenerReport::default()
    };
    DesiredStatus::Whole {
        generation: 7,
        conditions: vec![Condition::holds("Accepted", "Accepted", "")],
        rest: StatusDetails::Gateway(GatewayStatus {
            addresses: addresses.map(|all| {
                let address = |(kind, value): &(&'static str, &str)| Address {
                    kind,
                    value: (*value).to_owned(),
                };
                all.iter().map(address).collect()
            }),
            listeners: listeners.iter().map(listener).collect(),
        }),
    }
}

#[test]
fn of_a_gateway_conditions_of_other_types_stay() {
    let status = json!({
        "conditions": [
            {"type": "Accepted", "status": "Unknown", "lastTransitionTime": BEFORE},
            {"type": "example.com/Cheap", "status": "True", "lastTransitionTime": BEFORE},
            {"type": "Programmed", "status": "True", "lastTransitionTime": BEFORE},
        ],
        "addresses": [{"type": "IPAddress", "value": "10.0.0.1"}],
        "listeners": [{"name": "gone", "conditions": []}],
    });
    let merged = |status: &Value, wanted: &DesiredStatus| merge(Kind::Gateway, status, wanted, OURS, NOW);
    let after = merged(
        &status,
        &whole(Some(&[("Hostname", "shop.example")]), &["http", "https"]),
    );
    let types: Vec<&Value> = items(&after, "conditions")
        .map(|condition| &condition["type"])
        .collect();
    assert_eq!(types, ["example.com/Cheap", "Accepted"]);
    assert_eq!(
        after["conditions"][1]["lastTransitionTime"], NOW,
        "its status was another one"
    );
    assert_eq!(
        after["addresses"],
        json!([{"type": "Hostname", "value": "shop.example"}])
    );
    let names: Vec<&Value> = items(&after, "listeners").map(|listener| &listener["name"]).collect();
    assert_eq!(names, ["http", "https"]);
    assert!(merged(&after, &whole(Some(&[]), &[])).get("addresses").is_none());
    assert_eq!(merged(&after, &whole(None, &[]))["addresses"], after["addresses"]);
}

#[test]
fn a_class_has_its_features_and_a_missing_one_is_noticed() {
    let wanted = DesiredStatus::Whole {
        generation: 7,
        conditions: vec![Condition::holds("Accepted", "Accepted", "")],
        rest: StatusDetails::Class,
    };
    let status = merge(Kind::GatewayClass, &Value::Null, &wanted, OURS, NOW);
    let features: Vec<&str> = items(&status, "supportedFeatures")
        .filter_map(|feature| feature["name"].as_str())
        .collect();
    assert_eq!(features, limpet_model::SUPPORTED_FEATURES);
    let mut older = status.clone();
    older["supportedFeatures"].as_array_mut().unwrap().pop();
    let digest = |status: &Value| status_digest(Kind::GatewayClass, status, OURS);
    assert_ne!(digest(&older), digest(&status));
}

#[test]
fn a_digest_is_of_what_is_ours_and_of_no_times_and_no_order() {
    let digest = |status: &Value| status_digest(Kind::HttpRoute, status, OURS).unwrap();
    assert_eq!(digest(&Value::Null), StatusDigest::of_nothing());
    assert_eq!(digest(&json!({"parents": foreign(&["x"])})), StatusDigest::of_nothing());
    let two = merged(&Value::Null, &entries(&[("a", true), ("b", true)]), BEFORE);
    let turned = merged(
        &json!({"parents": foreign(&["x"])}),
        &entries(&[("b", true), ("a", true)]),
        NOW,
    );
    assert_eq!(digest(&two), digest(&turned));
    for other in [
        entries(&[("a", true)]),
        entries(&[("a", true), ("b", false)]),
        entries(&[("a", true), ("c", true)]),
    ] {
        assert_ne!(digest(&merged(&two, &other, BEFORE)), digest(&two), "{other:?}");
    }
    for kind in Kind::ALL {
        let has_status = !matches!(
            kind,
            Kind::EndpointSlice
                | Kind::EnvoyDeployment
                | Kind::Namespace
                | Kind::ReferenceGrant
                | Kind::Service
                | Kind::TlsCertificateDelegation
        );
        assert_eq!(
            status_digest(kind, &Value::Null, OURS).is_some(),
            has_status,
            "{kind:?}"
        );
    }
}

#[test]
fn two_fields_of_an_ingress_route_are_ours() {
    let wanted = |description: &str| DesiredStatus::Contour {
        status: IngressRouteStatus::Valid,
        description: description.into(),
        notes: vec!["something".to_owned()],
    };
    let merged = |status: &Value, description: &str| merge(Kind::IngressRoute, status, &wanted(description), OURS, NOW);
    let digest = |status: &Value| status_digest(Kind::IngressRoute, status, OURS).unwrap();
    let there = json!({"currentStatus": "orphaned", "description": "no root", "loadBalancer": {}});
    let status = merged(&there, "valid IngressRoute");
    let expected = json!({"currentStatus": "valid", "description": "valid IngressRoute"});
    let mut with_others = expected.clone();
    with_others["loadBalancer"] = json!({});
    assert_eq!(status, with_others);
    assert_eq!(digest(&status), digest(&expected));
    for other in [
        json!({"currentStatus": "valid"}),
        json!({"description": "valid IngressRoute"}),
        json!({"currentStatus": "valid IngressRoute", "description": "valid"}),
        json!({"currentStatus": "valid", "description": ["valid IngressRoute"]}),
        there,
        Value::Null,
        json!("valid"),
    ] {
        assert_ne!(digest(&other), digest(&expected), "{other}");
        assert_eq!(digest(&merged(&other, "valid IngressRoute")), digest(&expected));
    }
    // A cut text is written once.
    let long = merged(&Value::Null, &"ä".repeat(MAX_DESCRIPTION));
    assert_eq!(long["description"].as_str().unwrap().len(), MAX_DESCRIPTION);
    assert_eq!(digest(&long), digest(&merged(&long, &"ä".repeat(MAX_DESCRIPTION))));
}

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!(shortened("ab", 2), "ab");
    assert_eq!(shortened("abc", 2), "ab");
    assert_eq!(shortened("aä", 2), "a");
    assert_eq!(shortened("ä", 1), "");
    let long = Condition::fails("Accepted", "Invalid", "ä".repeat(MAX_MESSAGE));
    let written = condition(&long, 1, &[], NOW);
    assert_eq!(written["message"].as_str().unwrap().len(), MAX_MESSAGE);
}
