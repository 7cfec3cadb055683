//! Services with `sessionAffinity: ClientIP`.

use serde_json::{Value, json};

use super::{SHOP, built, forward, objects, routes};
use limpet_model::graph::{Balance, Cluster, ClusterName, Graph, HashOn, Route, Session};
use limpet_model::{GatewayOwner, Reports, Settings, build};

/// `config`: its `sessionAffinityConfig`.
fn affine(config: &str) -> String {
    let plain = "metadata: {namespace: shop, name: v1}\nspec: {ports: [{name: web, port: 80}]}";
    let affine = format!(
        "metadata: {{namespace: shop, name: v1}}\nspec:\n  ports: [{{name: web, port: 80}}, {{name: more, port: 81}}]\n\
         \x20 sessionAffinity: ClientIP\n  {config}"
    );
    assert!(SHOP.contains(plain));
    SHOP.replace(plain, &affine)
}

fn route(name: &str, rules: &[&str]) -> String {
    let rules: Vec<String> = rules.iter().map(|rule| format!("{{{rule}}}")).collect();
    format!(
        "
kind: HTTPRoute
metadata: {{namespace: shop, name: {name}}}
spec: {{parentRefs: [{{name: web}}], rules: [{}]}}
---
",
        rules.join(", ")
    )
}

fn is_ring(cluster: &Cluster) -> bool {
    cluster.balance == Balance::RingHash
}

/// Whether the client's address chooses where it has no session.
fn hashes(route: &Route) -> bool {
    forward(route).hash == [HashOn::Address]
}

const V1: &str = "{name: v1, port: 80}";
const V2: &str = "{name: v2, port: 80}";

fn cluster<'g>(graph: &'g Graph, name: &str) -> &'g Cluster {
    &graph.clusters[&ClusterName(name.into())]
}

fn session(graph: &Graph, name: &str) -> Option<(String, Value)> {
    let used = cluster(graph, name).session.as_ref()?;
    Some((
        used.scope.to_string(),
        json!(*graph.policies[&used.policy])["source"].clone(),
    ))
}

fn told(reports: &Reports) -> Vec<String> {
    let told = reports.without_status.iter();
    told.map(|(object, condition)| format!("{object}: {}/{}", condition.reason, condition.message))
        .collect()
}

#[test]
fn the_address_holds_the_sessions_of_a_service_with_affinity() {
    for (config, timeout) in [
        ("", Value::Null),
        (
            "sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}",
            Value::Null,
        ),
        ("sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}", json!("1s")),
        (
            "sessionAffinityConfig: {clientIP: {timeoutSeconds: 86400}}",
            json!("24h"),
        ),
    ] {
        let backends = format!("backendRefs: [{V1}]");
        let (graph, reports) = built(&format!("{}{}", affine(config), route("shop", &[&backends])));
        let [only] = routes(&graph) else { panic!("{graph:?}") };
        assert!(hashes(only));
        assert_eq!(forward(only).session, Session::Destinations);
        assert!(is_ring(cluster(&graph, "service/shop/v1/80")));
        let mut source = json!({"prefixV6": 128, "timeout": timeout});
        if timeout.is_null() {
            source.as_object_mut().expect("an object").remove("timeout");
        }
        assert_eq!(
            session(&graph, "service/shop/v1/80"),
            Some(("service/shop/v1/80".to_owned(), source))
        );
        assert!(told(&reports).is_empty(), "{reports:?}");
    }
}

#[test]
fn rules_share_the_sessions_of_a_services_port() {
    let (to_v1, split) = (format!("backendRefs: [{V1}]"), format!("backendRefs: [{V1}, {V2}]"));
    let more = "backendRefs: [{name: v1, port: 81}]";
    let manifests = [
        affine(""),
        route("shop", &[&to_v1, &split, &format!("backendRefs: [{V2}]")]),
        route("other", &[more]),
    ];
    let (graph, _) = built(&manifests.concat());
    let found: Vec<(bool, bool)> = routes(&graph)
        .iter()
        .map(|route| (forward(route).session == Session::Destinations, hashes(route)))
        .collect();
    assert_eq!(found, [(true, true), (true, true), (true, true), (false, false)]);
    let scope = |name: &str| session(&graph, name).map(|(scope, _)| scope);
    assert_eq!(scope("service/shop/v1/80").as_deref(), Some("service/shop/v1/80"));
    assert_eq!(scope("service/shop/v1/81").as_deref(), Some("service/shop/v1/81"));
    assert_eq!(scope("service/shop/v2/80"), None);
    assert!(!is_ring(cluster(&graph, "service/shop/v2/80")));
    assert_eq!(graph.policies.len(), 1);
}

#[test]
fn the_address_chooses_where_a_token_session_begins() {
    let policy = "
kind: BackendLBPolicy
apiVersion: gateway.networking.k8s.io/v1alpha2
metadata: {namespace: shop, name: p}
spec: {targetRefs: [{group: '', kind: Service, name: v1}], sessionPersistence: {sessionName: s}}
---
";
    let backends = format!("backendRefs: [{V1}, {V2}]");
    let manifests = [affine(""), route("shop", &[&backends]), policy.to_owned()];
    let (graph, reports) = built(&manifests.concat());
    let [only] = routes(&graph) else { panic!("{graph:?}") };
    assert!(matches!(forward(only).session, Session::Rule(_)));
    assert!(hashes(only) && is_ring(cluster(&graph, "service/shop/v1/80")));
    assert_eq!(session(&graph, "service/shop/v1/80"), None);
    assert!(told(&reports).is_empty(), "{reports:?}");
    assert!(graph.policies.values().all(|policy| policy.source.is_none()));
}

#[test]
fn the_address_chooses_where_an_annotation_says_so() {
    let policy = "
kind: BackendLBPolicy
apiVersion: gateway.networking.k8s.io/v1alpha2
metadata: {namespace: shop, name: p, annotations: {session.limpet.dev/source: '{prefixV4: 24}'}}
spec: {targetRefs: [{group: '', kind: Service, name: v1}], sessionPersistence: {}}
---
";
    let v3 = "
kind: Service
metadata: {namespace: shop, name: v3}
spec: {ports: [{name: web, port: 80}]}
---
";
    let own = format!("backendRefs: [{V2}, {{name: v3, port: 80}}], sessionPersistence: {{sessionName: s}}");
    let rules = [format!("backendRefs: [{V1}, {V2}]"), own];
    let rules = rules.each_ref().map(String::as_str);
    let manifests = [SHOP, v3, &route("shop", &rules), policy];
    let (graph, reports) = built(&manifests.concat());
    let [by_address, own] = routes(&graph) else {
        panic!("{graph:?}")
    };
    let Session::Rule(used) = &forward(by_address).session else {
        panic!("{by_address:?}")
    };
    assert_eq!(json!(graph.policies[&used.policy].source), json!({"prefixV4": 24}));
    assert!(hashes(by_address));
    // The same Service in a rule with tokens: nothing of that rule hashes an address.
    assert!(!hashes(own));
    let clusters = ["v1", "v2", "v3"].map(|name| is_ring(cluster(&graph, &format!("service/shop/{name}/80"))));
    assert_eq!(clusters, [true, true, false]);
    assert!(told(&reports).is_empty(), "{reports:?}");
}

#[test]
fn the_address_chooses_within_a_backend_that_says_so() {
    let backend = "
kind: XBackend
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {namespace: shop, name: blue, annotations: {session.limpet.dev/source: '{}'}}
spec:
  type: EndpointSelector
  endpointSelector: {matchLabels: {app: blue}}
  port: {number: 8080}
  sessionPersistence: {type: Cookie, cookie: {}}
---
";
    let backends = "backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: blue}]";
    let (graph, _) = built(&format!("{SHOP}{}{backend}", route("shop", &[backends])));
    let [only] = routes(&graph) else { panic!("{graph:?}") };
    assert_eq!(forward(only).session, Session::Destinations);
    assert!(hashes(only) && is_ring(cluster(&graph, "xbackend/shop/blue")));
    let scope = session(&graph, "xbackend/shop/blue");
    assert_eq!(scope, Some(("xbackend/shop/blue".to_owned(), json!({}))));
}

/// Fences are for the routes of one namespace, and of the namespace in a session's scope.
#[test]
fn the_services_own_namespace_leads_to_it_as_well() {
    let grant = "
kind: Gateway
metadata: {namespace: front, name: web}
spec: {gatewayClassName: limpet, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: ReferenceGrant
metadata: {namespace: shop, name: front}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: front}]
  to: [{group: '', kind: Service}]
---
kind: HTTPRoute
metadata: {namespace: front, name: front}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{namespace: shop, name: v1, port: 80}, {namespace: shop, name: v2, port: 80}]}]
---
";
    let (graph, _) = built(&format!("{}{grant}", affine("")));
    let from = |service: &str| -> Vec<String> {
        let found = graph.referencing_namespaces[&limpet_api::ObjectName::new("shop", service)].iter();
        found.map(ToString::to_string).collect()
    };
    assert_eq!(from("v1"), ["front", "shop"]);
    assert_eq!(from("v2"), ["front"]);
}

#[test]
fn what_the_api_server_would_refuse_is_told_and_is_no_affinity() {
    for (config, message) in [
        (
            "sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}",
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: expected 1 to 86400, found 0",
        ),
        (
            "sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}",
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: expected 1 to 86400, found 86401",
        ),
    ] {
        let backends = format!("backendRefs: [{V1}]");
        let (graph, reports) = built(&format!("{}{}", affine(config), route("shop", &[&backends])));
        assert_eq!(forward(&routes(&graph)[0]).session, Session::None);
        assert!(!is_ring(cluster(&graph, "service/shop/v1/80")));
        assert_eq!(told(&reports), [format!("Service shop/v1: Invalid/{message}")]);
    }
    let odd = affine("").replace("ClientIP", "Cookie");
    let (_, reports) = built(&odd);
    assert_eq!(
        told(&reports),
        ["Service shop/v1: Invalid/spec.sessionAffinity: expected None or ClientIP, found \"Cookie\""]
    );
}

#[test]
fn a_routes_bad_annotation_ends_these_sessions_as_well() {
    let backends = format!("backendRefs: [{V1}]");
    let bad = route("shop", &[&backends]).replace(
        "name: shop}\nspec",
        "name: shop, annotations: {session.limpet.dev/strict: maybe}}\nspec",
    );
    let (graph, _) = built(&format!("{}{bad}", affine("")));
    assert_eq!(forward(&routes(&graph)[0]).session, Session::None);
}

#[test]
fn another_control_plane_serves_services_in_its_own_ways() {
    let settings = Settings {
        gateways: GatewayOwner::Of(["limpet.dev/controller".to_owned()].into()),
        ..Settings::default()
    };
    let backends = format!("backendRefs: [{V1}]");
    let manifests = [super::CLASS, &affine(""), &route("shop", &[&backends])].concat();
    let (graph, _) = build(&objects::read(&manifests), &settings);
    let [only] = routes(&graph) else { panic!("{graph:?}") };
    assert_eq!((&forward(only).session, hashes(only)), (&Session::None, false));
}
