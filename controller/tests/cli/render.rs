//! `limpet render` on objects that nothing follows.

use crate::{checkout, file, limpet, path};

/// The golden case's class, Gateway and Service, and one of its other objects.
fn with(object: &str) -> String {
    let case = checkout().join("controller/tests/golden/cases/without-status/in.yaml");
    let text = std::fs::read_to_string(case).unwrap();
    let documents: Vec<&str> = text.split("\n---\n").collect();
    let is = |document: &&&str, name: &str| document.contains(&format!("name: {name}}}"));
    let find = |name: &str| *documents.iter().find(|document| is(document, name)).unwrap();
    [find("limpet"), find("web"), find("v1"), find(object)].join("\n---\n")
}

/// With a route whose rule leads to the Service and has these fields.
fn with_rule(fields: &str) -> String {
    format!(
        "{}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{backendRefs: [{{name: v1, port: 80}}]{fields}}}]
",
        with("v1")
    )
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
        ran.code(2).says("withoutStatus").says(words);
    }
    limpet(&["render", "-f", "-"]).run_with(&with("of-others")).code(0);
}

/// A policy with another target, which has sessions, is accepted.
#[test]
fn a_target_that_does_not_exist_is_told_and_fails() {
    let with_targets = |targets: &str| {
        format!(
            "{}---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata: {{namespace: shop, name: shop}}
spec:
  targetRefs: [{targets}]
  sessionPersistence: {{sessionName: s}}
",
            with_rule("")
        )
    };
    let (v1, gone) = (
        "{group: '', kind: Service, name: v1}",
        "{group: '', kind: Service, name: gone}",
    );
    let both = format!("{v1}, {gone}");
    for targets in [gone, &both] {
        limpet(&["render", "-f", "-"])
            .run_with(&with_targets(targets))
            .code(2)
            .says("withoutStatus")
            .says("expected an existing Service, found shop/gone");
    }
    limpet(&["render", "-f", "-"]).run_with(&with_targets(v1)).code(0);
}

/// The API server has one release, and not all of them accept both shapes.
#[test]
fn a_release_refuses_the_other_releases_shapes() {
    let route = |persistence: &str| with_rule(&format!(", name: all, sessionPersistence: {persistence}"));
    let code = |persistence: &str, release: Option<&str>| {
        let arguments = ["render", "-f", "-"].into_iter();
        let option = release.map(|release| ["--gateway-api", release]);
        let arguments: Vec<&str> = arguments.chain(option.into_iter().flatten()).collect();
        limpet(&arguments).run_with(&route(persistence))
    };
    for persistence in ["{type: Cookie}", "{absoluteTimeout: 1h}", "{sessionName: s}"] {
        code(persistence, None)
            .code(0)
            .says("refusedByGatewayAPI")
            .says("HTTPRoute shop/shop: spec.rules[0].");
        code(persistence, Some("1.6")).code(0);
        code(persistence, Some("1.7"))
            .code(2)
            .says("sessionPersistence.cookie: expected it");
    }
    code("{cookie: {}}", Some("1.7")).code(0);
    code("{cookie: {}}", Some("1.6"))
        .code(2)
        .says("does not have this field");
    code("{idleTimeout: 1h}", Some("1.5")).code(0);
    code("{idleTimeout: 1h}", Some("1.6"))
        .code(2)
        .says("idleTimeout: the release does not have");
    code("{}", Some("1.8")).code(3).complains("from 1.2 to 1.7");

    // No cluster accepts both.
    let both = format!(
        "{}---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {{namespace: shop, name: blue}}
spec: {{type: EndpointSelector, endpointSelector: {{matchLabels: {{a: b}}}}, port: {{number: 80}}}}
",
        route("{sessionName: s}")
    );
    limpet(&["render", "-f", "-"])
        .run_with(&both)
        .code(2)
        .says("XBackend shop/blue: the release does not have this kind");
}

/// A cluster would refuse it. All else is reported.
#[test]
fn a_misspelt_kind_is_named_with_its_document_and_fails() {
    let misspelt = |from: &str, to: &str| with_rule("").replace(from, to);
    for (from, to, words) in [
        ("kind: HTTPRoute", "kind: HTTPRuote", "), found HTTPRuote"),
        (
            "gateway.networking.k8s.io/v1\nkind: HTTPRoute",
            "gateway.networking.k8s.io/v3\nkind: HTTPRoute",
            "apiVersion: expected gateway.networking.k8s.io/v1",
        ),
        (
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute",
            "kind: HTTPRoute",
            "found none",
        ),
    ] {
        limpet(&["render", "-f", "-"])
            .run_with(&misspelt(from, to))
            .code(2)
            .says("notKnown:\n  \"-, document 5\": ")
            .says(words)
            .says("gateways:\n  shop/web:");
    }
    // This group may be another project's.
    let other = "gateway.networking.k8s.oi/v1\nkind: HTTPRoute";
    limpet(&["render", "-f", "-"])
        .run_with(&misspelt("gateway.networking.k8s.io/v1\nkind: HTTPRoute", other))
        .code(0)
        .says("HTTPRoute of gateway.networking.k8s.oi/v1: 1");
}

#[test]
fn a_kustomization_is_passed_over() {
    let deploy = [
        "controller/deploy/kustomization.yaml",
        "controller/deploy/envoy/gateway.yaml",
    ];
    let ran = limpet(&["render", "-f", deploy[0], "-f", deploy[1]]).run();
    ran.code(0).says("Kustomization");
}

#[test]
fn all_files_for_an_envoy_are_checked_together() {
    let folder = crate::folder();
    let directory = folder.path().to_str().unwrap();
    let case = "controller/tests/golden/cases/split/in.yaml";
    limpet(&["render", "-f", case, "--write-xds", directory]).run().code(0);
    let mut files: Vec<String> = Vec::new();
    let mut folders = vec![folder.path().to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                files.push(entry.to_str().unwrap().to_owned());
            }
        }
    }
    assert!(files.len() > 4, "{files:?}");
    let arguments: Vec<&str> = ["check"].into_iter().chain(files.iter().map(String::as_str)).collect();
    limpet(&arguments)
        .run()
        .code(1)
        .says("not checked: no Limpet filter in it");
}

#[test]
fn files_without_objects_are_told() {
    for text in ["", "---\n", "# nothing\n"] {
        limpet(&["render", "-f", "-"])
            .run_with(text)
            .code(3)
            .complains("expected objects of Kubernetes, found none in -");
    }
}

/// YAML reads `true` as a boolean, and an annotation is text.
#[test]
fn metadata_that_cannot_be_read_are_told_with_their_path() {
    let object =
        |kind: &str, metadata: &str| format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: a, {metadata}}}\n");
    limpet(&["render", "-f", "-"])
        .run_with(&object("Service", "annotations: {session.limpet.dev/begin: true}"))
        .code(3)
        .complains(
            "Service a: metadata.annotations.session.limpet.dev/begin: invalid type: boolean `true`, expected a string",
        );
}

/// A file without an object would look like an answer.
#[test]
fn deployments_need_managed_envoys() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("deployments.yaml");
    let written = written.to_str().unwrap();
    let render = |config: &str| {
        let config = file(".yaml", config);
        let arguments = [
            "render",
            "-f",
            "-",
            "--write-deployments",
            written,
            "--config",
            path(&config),
        ];
        limpet(&arguments).run_with(&with_rule(""))
    };
    let told = "--write-deployments needs `envoy.managed` in --config";
    limpet(&["render", "-f", "-", "--write-deployments", written])
        .run_with(&with_rule(""))
        .code(3)
        .complains(told);
    render("{maxIdle: 3h}").code(3).complains(told);
    assert!(!std::fs::exists(written).unwrap());
    render("{envoy: {managed: {}}}").code(0);
    let text = std::fs::read_to_string(written).unwrap();
    assert!(text.contains("kind: Deployment"), "{text}");
}

/// Objects of Envoy Gateway, Istio and an unknown control plane, with the default output.
#[test]
fn nothing_was_served_and_nothing_was_said() {
    let gateway_of = |controller: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: other}}
spec: {{controllerName: {controller}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec: {{gatewayClassName: other, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec: {{parentRefs: [{{name: web}}], rules: [{{backendRefs: [{{name: v1, port: 80}}]}}]}}
"
        )
    };
    for (controller, output) in [
        (
            "gateway.envoyproxy.io/gatewayclass-controller",
            ": try --target envoy-gateway",
        ),
        ("istio.io/gateway-controller", ": try --target istio"),
        ("example.com/other", ""),
    ] {
        let why = format!("GatewayClass other is of the controller {controller}{output}");
        let ran = limpet(&["render", "-o", "json", "-f", "-"]).run_with(&gateway_of(controller));
        let not_served = &ran.code(1).json()["notServed"];
        assert_eq!(not_served["Gateway shop/web"], why.as_str());
        let of_route = format!("spec.parentRefs[0]: Gateway shop/web: {why}");
        assert_eq!(not_served["HTTPRoute shop/shop"], of_route.as_str());
        assert_eq!(
            not_served["all"],
            "there is no Gateway of the controller limpet.dev/controller"
        );
    }
    let ours = gateway_of("limpet.dev/controller");
    let ran = limpet(&["render", "-o", "json", "--target", "istio", "-f", "-"]).run_with(&ours);
    ran.code(1).complains(": try --target envoy");
    let unread = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\n";
    let ran = limpet(&["render", "-f", "-"]).run_with(unread);
    ran.code(1)
        .says("there is no Gateway of the controller limpet.dev/controller");
}

/// Beside a served Gateway, they are no mistake.
#[test]
fn gateways_of_others_are_named() {
    let text = format!(
        "{}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: other}}
spec: {{controllerName: example.com/other}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{namespace: shop, name: theirs}}
spec: {{gatewayClassName: other, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}
",
        with("v1")
    );
    let ran = limpet(&["render", "-o", "json", "-f", "-"]).run_with(&text);
    let not_served = &ran.code(0).json()["notServed"];
    let why = "GatewayClass other is of the controller example.com/other";
    assert_eq!(*not_served, serde_json::json!({"Gateway shop/theirs": why}));
}
