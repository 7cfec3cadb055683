use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::graph::view;
use crate::cluster::cli::TargetKind;
use crate::cluster::config::Config;
use crate::cluster::controller::present::PublishedSnapshot;
use crate::cluster::reconcile::fences;
use crate::cluster::reconcile::reported::PublishedReports;
use crate::cluster::render::read_manifests;
use crate::cluster::sessions::{CountGaps, PodSessions, PodState};
use limpet_core::time::Timestamp;
use limpet_model::build;

const SHOP: &str = include_str!("tests/shop.yaml");

/// Publishes these objects, with a certificate in their Secret.
fn present(yaml: &str) -> PublishedSnapshot {
    with_certificate(yaml).0
}

/// Also returns the key of the certificate in base64.
fn with_certificate(yaml: &str) -> (PublishedSnapshot, String) {
    let made = rcgen::generate_simple_self_signed(["*.shop.example".to_owned()]).unwrap();
    let key = STANDARD.encode(made.signing_key.serialize_pem());
    let yaml = yaml.replace("CERTIFICATE", &STANDARD.encode(made.cert.pem()));
    let yaml = yaml.replace("KEY", &key);
    let directory = tempfile::tempdir().unwrap();
    // A file has at most 1,024 documents.
    let documents: Vec<&str> = yaml.split("\n---\n").collect();
    for (number, documents) in documents.chunks(1000).enumerate() {
        let file = directory.path().join(format!("{number}.yaml"));
        std::fs::write(file, documents.join("\n---\n")).unwrap();
    }
    let settings = Config::default().settings(TargetKind::Envoy);
    let store = read_manifests(&[directory.path().display().to_string()], &settings)
        .unwrap()
        .store;
    let objects = store.objects();
    let (graph, reports) = build(&objects, &settings);
    let present = PublishedSnapshot {
        slices: store.slices(),
        graph: Some(Arc::new(graph)),
        reported: Some(PublishedReports {
            objects,
            ..reports.into()
        }),
        ..PublishedSnapshot::default()
    };
    (present, key)
}

fn shown(present: &PublishedSnapshot, query: &str) -> Value {
    serde_json::to_value(view(present, &[], &BTreeMap::new(), query)).unwrap()
}

fn all<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one[field].as_str().unwrap_or_default()).collect()
}

#[test]
fn everything_that_is_published_is_shown() {
    let envoys = BTreeMap::from([("shop/web".to_owned(), 2)]);
    let all_of_it = view(&present(SHOP), &[], &envoys, "");
    let shown = serde_json::to_value(all_of_it).unwrap();
    let gateway = &shown["gateways"][0];
    assert_eq!(
        (&gateway["id"], &gateway["envoys"], &gateway["routes"]),
        (&json!("shop/web"), &json!(2), &json!(3))
    );
    assert_eq!(
        gateway["listeners"],
        json!([
            {"name": "http", "port": 80, "hostname": "*", "tls": false},
            {"name": "https", "port": 443, "hostname": "*.shop.example", "tls": true},
        ])
    );
    assert_eq!(
        all(&shown["routes"], "id"),
        [
            "httproute/shop/cart",
            "httproute/shop/elsewhere",
            "httproute/shop/refused"
        ]
    );
    let cart = &shown["routes"][0];
    assert_eq!(cart["gateways"], json!(["shop/web"]));
    assert_eq!(cart["hostnames"], json!(["www.shop.example"]));
    assert_eq!(cart["verdict"], "accepted");
    assert_eq!(all(&cart["rules"], "name"), ["pay", "look"]);
    let pay = &cart["rules"][0];
    let matches = json!([
        {"type": "Prefix", "path": "/pay", "method": "POST", "headers": ["x-tenant"], "query": ["key"]},
    ]);
    assert_eq!(pay["matches"], matches);
    assert_eq!(
        (&pay["session"]["carrier"], &pay["session"]["name"], &pay["sessions"]),
        (&json!("cookie"), &json!("shop-session"), &json!("rule"))
    );
    assert_eq!(
        all(&pay["destinations"], "service"),
        ["shop/cart:80", "shop/cart-next:80"]
    );
    assert_eq!(pay["destinations"][0]["weight"], 9);
    assert_eq!(all(&shown["services"], "id"), ["shop/cart:80", "shop/cart-next:80"]);
    let pods = &shown["services"][0]["pods"];
    assert_eq!(all(pods, "state"), ["draining", "ready"]);
    assert_eq!(all(pods, "name"), ["cart-1", "cart-0"]);
    let left_out = shown["leftOut"].as_object().unwrap();
    assert!(left_out.values().all(|number| *number == 0), "{left_out:?}");
}

#[test]
fn refused_objects_have_their_conditions() {
    let shown = shown(&present(SHOP), "");
    let refused = shown["routes"].as_array().unwrap().iter();
    let refused: Vec<_> = refused.map(|route| (&route["name"], &route["verdict"])).collect();
    assert_eq!(
        refused,
        [
            (&json!("cart"), &json!("accepted")),
            (&json!("elsewhere"), &json!("partly")),
            (&json!("refused"), &json!("refused")),
        ]
    );
    let list = &shown["refused"];
    assert_eq!(all(list, "name"), ["refused", "marked", "elsewhere"]);
    let condition = &list[0]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["about"]),
        (&json!("Accepted"), &json!("False"), &json!("Gateway web"))
    );
    // Only conditions that are wrong.
    assert_eq!(all(&list[2]["conditions"], "reason"), ["BackendNotFound"]);
    let answer = &shown["routes"][1]["rules"][0]["answer"];
    assert_eq!(answer["status"], 500);
    assert!(answer["text"].as_str().unwrap().contains("backendRefs"), "{answer}");
}

#[test]
fn markup_in_objects_stays_text() {
    let shown = shown(&present(SHOP), "<script>");
    let message = shown["refused"][0]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("<script>alert(1)</script>"), "{message}");
    assert_eq!(shown["services"][1]["pods"][0]["name"], "<script>alert(2)</script>");
}

#[test]
fn sessions_and_fences_are_with_their_pods() {
    let mut present = present(SHOP);
    let fence = r#"[{"namespace": "shop", "address": "10.0.0.2:8080", "notBefore": 1763856000, "owner": "u"}]"#;
    present.fences = fences::FenceList::read(fence).unwrap();
    present.held_back = BTreeSet::from([("shop".into(), "10.0.0.1:8080".parse().unwrap())]);
    let of = |pod: &str, address: &str, state, sessions| PodSessions {
        namespace: "shop".to_owned(),
        service: "cart".to_owned(),
        pod: pod.to_owned(),
        uid: pod.strip_prefix("cart-").map(|number| format!("u-{number}").into()),
        address: address.parse().unwrap(),
        state,
        sessions,
        streams: 1,
        requests: 70,
        last_use: Some(Timestamp::from_unix_seconds(1_763_856_001)),
        oldest: None,
        gaps: CountGaps::default(),
    };
    let sessions = [
        of("cart-0", "10.0.0.1:9999", PodState::Draining, 3),
        of("cart-9", "10.0.0.9:8080", PodState::Gone, 4),
        of("cart-8", "10.0.0.8:8080", PodState::Ready, 100),
    ];
    let shown = serde_json::to_value(view(&present, &sessions, &BTreeMap::new(), "")).unwrap();
    let cart = &shown["services"][0];
    let sums = ["sessions", "gonePods", "goneSessions"].map(|sum| cart[sum].clone());
    assert_eq!(sums, [3, 1, 4], "those of the pods that it has, and that it had");
    let pod = |address: &str| {
        let pods = cart["pods"].as_array().unwrap();
        pods.iter().find(|pod| pod["address"] == address).unwrap().clone()
    };
    assert_eq!(
        pod("10.0.0.1:8080"),
        json!({
            "name": "cart-0", "address": "10.0.0.1:8080", "state": "draining", "heldBack": true,
            "sessions": {"sessions": 3, "streams": 1, "requests": 70, "lastUse": "2025-11-23T00:00:01Z"},
        })
    );
    assert_eq!(
        pod("10.0.0.2:8080")["fences"],
        json!([{"namespace": "shop", "notBefore": "2025-11-23T00:00:00Z"}])
    );
    assert_eq!(pod("10.0.0.9:8080")["state"], "gone");
    let states: Vec<_> = cart["pods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| &pod["state"])
        .collect();
    assert_eq!(states, ["draining", "draining", "gone"]);
}

#[test]
fn a_search_finds_routes_by_all_that_they_lead_through() {
    let present = present(SHOP);
    for (query, routes) in [
        ("CART", vec!["cart"]),
        ("www.shop", vec!["cart"]),
        ("/pay", vec!["cart"]),
        ("10.0.0.2:8080", vec!["cart"]),
        ("cart-1 draining", vec!["cart"]),
        ("httproute/shop/elsewhere", vec!["elsewhere"]),
        ("missing", vec!["elsewhere"]),
        ("gateway/shop/web refused", vec![]),
        ("refused", vec!["refused"]),
        ("shop/web", vec!["cart", "elsewhere", "refused"]),
        ("nobody", vec![]),
    ] {
        let shown = shown(&present, query);
        assert_eq!(all(&shown["routes"], "name"), routes, "{query}");
    }
    let shown = shown(&present, "draining");
    assert_eq!(all(&shown["services"][0]["pods"], "name")[0], "cart-1");
    assert_eq!(shown["search"], json!(["draining"]));
    assert_eq!(all(&shown["gateways"], "id"), ["shop/web"]);
}

#[test]
fn nothing_secret_is_shown() {
    let (present, key) = with_certificate(SHOP);
    let certificates = &present.reported.as_ref().unwrap().objects.certificates;
    assert!(certificates.values().any(Result::is_ok), "no certificate is read");
    let text = shown(&present, "").to_string();
    let pem = STANDARD.decode(&key).unwrap();
    let pem = String::from_utf8(pem).unwrap();
    let body = pem.lines().filter(|line| !line.starts_with('-'));
    let pieces = body.flat_map(|line| line.as_bytes().chunks(8));
    let pieces = pieces
        .map(|piece| str::from_utf8(piece).unwrap())
        .filter(|piece| piece.len() == 8);
    for secret in pieces.chain(["s3cret", "PRIVATE", "BEGIN", &key[..16]]) {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn nothing_is_published_before_the_first_build() {
    let shown = shown(&PublishedSnapshot::default(), "");
    assert_eq!(
        (&shown["published"], &shown["gateways"], &shown["routes"]),
        (&json!(false), &json!([]), &json!([]))
    );
}

/// Routes with a Service each. The first hundred by name, and the last one, have `pods` pods, others one.
fn many(routes: usize, pods: usize) -> String {
    let (head, _) = SHOP.split_once("---\n# Routes").unwrap();
    let mut yaml = head.to_owned();
    for route in 0..routes {
        let address = |pod: usize| format!("10.{}.{}.{}", route / 250, route % 250, pod + 1);
        let endpoint = |pod: usize| {
            format!(
                "{{addresses: [{}], targetRef: {{kind: Pod, name: p-{route}-{pod}}}}}",
                address(pod)
            )
        };
        let is_first = *route.to_string() < *"11";
        let pods = if is_first || route + 1 == routes { pods } else { 1 };
        let endpoints: Vec<String> = (0..pods).map(endpoint).collect();
        let endpoints = endpoints.join(", ");
        write!(
            yaml,
            "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: r-{route}, namespace: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{matches: [{{path: {{value: /r-{route}}}}}], backendRefs: [{{name: s-{route}, port: 80}}]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: s-{route}, namespace: shop}}
spec: {{ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: s-{route}, namespace: shop, labels: {{kubernetes.io/service-name: s-{route}}}}}
addressType: IPv4
ports: [{{name: http, port: 8080}}]
endpoints: [{endpoints}]
"
        )
        .unwrap();
    }
    yaml
}

/// Takes seconds: a graph of 3,000 routes and 90,000 pods is built first.
#[test]
fn thousands_of_objects_are_bounded_and_can_be_searched() {
    let present = present(&many(3000, 30));
    for (query, routes) in [("", 100), ("p-2999-29", 1), ("r-2 /r-29", 100)] {
        let start = Instant::now();
        let text = shown(&present, query).to_string();
        let took = start.elapsed();
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["routes"].as_array().unwrap().len(), routes, "{query}");
        assert!(text.len() < 500_000, "{} bytes", text.len());
        println!("{query:?}: {} bytes in {took:?}", text.len());
    }
    let shown = shown(&present, "");
    assert_eq!(
        (&shown["leftOut"]["routes"], &shown["leftOut"]["pods"]),
        (&json!(2900), &json!(2000))
    );
    assert_eq!(shown["services"][0]["pods"].as_array().unwrap().len(), 20);
    assert_eq!(shown["services"][0]["morePods"], 10);
    let found = self::shown(&present, "p-2999-29");
    assert_eq!(
        found["services"][0]["pods"][0]["name"], "p-2999-29",
        "what is searched for comes first"
    );
}
