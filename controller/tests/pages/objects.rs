//! Kubernetes objects of the pages. With what a page leaves out, the controller must accept all, and read every field.
//! (`e2e/tests/kube/pages.rs` asks an API server.)

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use serde_json::{Value, json};

use crate::limpet_on;

type Name = (String, String);

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or("default")
}

fn named(object: &Value) -> Name {
    (
        namespace(object).to_owned(),
        text(&object["metadata"]["name"]).to_owned(),
    )
}

fn referred(object: &Value, reference: &Value) -> Name {
    let namespace = reference["namespace"].as_str().unwrap_or(namespace(object));
    (namespace.to_owned(), text(&reference["name"]).to_owned())
}

fn of_kind<'a>(objects: &'a [Value], kinds: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(|object| kinds.contains(&text(&object["kind"])))
}

/// The GatewayClass's controller and the output that serves it.
fn control_plane(class: &str) -> (&'static str, &'static str) {
    match class {
        "istio" => ("istio.io/gateway-controller", "istio"),
        "eg" => ("gateway.envoyproxy.io/gatewayclass-controller", "envoy-gateway"),
        _ => ("limpet.dev/controller", "envoy"),
    }
}

/// Adds what is missing: routes of Services with a policy, Gateways of routes, classes of Gateways, Services of
/// backends.
#[expect(clippy::too_many_lines, reason = "one arm for each kind")]
fn complete(objects: &mut Vec<Value>) -> &'static str {
    const ROUTES: [&str; 2] = ["HTTPRoute", "GRPCRoute"];
    let mut backends: BTreeMap<Name, u64> = BTreeMap::new();
    for route in of_kind(objects, &ROUTES) {
        for backend in list(&route["spec"]["rules"]).flat_map(|rule| list(&rule["backendRefs"])) {
            if backend["kind"].as_str().is_none_or(|kind| kind == "Service") {
                backends.insert(referred(route, backend), backend["port"].as_u64().unwrap_or(80));
            }
        }
    }
    let mut missing = Vec::new();
    for policy in of_kind(objects, &["BackendLBPolicy", "XBackendTrafficPolicy"]) {
        for (namespace, name) in list(&policy["spec"]["targetRefs"]).map(|target| referred(policy, target)) {
            if !backends.contains_key(&(namespace.clone(), name.clone())) {
                missing.push(json!({
                    "apiVersion": "gateway.networking.k8s.io/v1",
                    "kind": "HTTPRoute",
                    "metadata": {"namespace": namespace, "name": format!("of-{name}")},
                    "spec": {
                        "parentRefs": [{"name": "web"}],
                        "rules": [{"name": "all", "backendRefs": [{"name": name, "port": 80}]}],
                    },
                }));
                backends.insert((namespace, name), 80);
            }
        }
    }
    objects.append(&mut missing);
    for route in of_kind(objects, &["IngressRoute"]) {
        for service in list(&route["spec"]["routes"]).flat_map(|route| list(&route["services"])) {
            backends.insert(referred(route, service), service["port"].as_u64().unwrap_or(80));
        }
    }
    let services: BTreeSet<Name> = of_kind(objects, &["Service"]).map(named).collect();
    for ((namespace, name), port) in backends {
        if !services.contains(&(namespace.clone(), name.clone())) {
            missing.push(json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"namespace": namespace, "name": name, "labels": {"istio.io/persistent-session": "any"}},
                "spec": {"ports": [{"name": "http", "port": port}]},
            }));
        }
    }
    let gateways: BTreeSet<Name> = of_kind(objects, &["Gateway"]).map(named).collect();
    let parents = of_kind(objects, &ROUTES);
    let parents = parents.flat_map(|route| list(&route["spec"]["parentRefs"]).map(|parent| referred(route, parent)));
    let mut wanted: BTreeSet<Name> = parents.collect();
    if gateways.is_empty() && wanted.is_empty() {
        // Without any, nothing is served.
        wanted.insert(("default".to_owned(), "web".to_owned()));
    }
    for (namespace, name) in wanted.difference(&gateways) {
        missing.push(json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {
                "gatewayClassName": "limpet",
                "listeners": [{
                    "name": "http",
                    "port": 8080,
                    "protocol": "HTTP",
                    "allowedRoutes": {"namespaces": {"from": "All"}},
                }],
            },
        }));
    }
    objects.append(&mut missing);
    let mut output = "envoy";
    let there: BTreeSet<Name> = of_kind(objects, &["GatewayClass"]).map(named).collect();
    let classes: BTreeSet<&str> = of_kind(objects, &["Gateway"])
        .map(|gateway| text(&gateway["spec"]["gatewayClassName"]))
        .collect();
    for class in classes {
        let (controller, serves) = control_plane(class);
        output = serves;
        if !there.contains(&("default".to_owned(), class.to_owned())) {
            missing.push(json!({
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": "GatewayClass",
                "metadata": {"name": class},
                "spec": {"controllerName": controller},
            }));
        }
    }
    objects.append(&mut missing);
    output
}

/// Messages of a report about an object's field that is wrong or has no effect.
fn complaints(report: &Value, found: &mut Vec<String>) {
    match report {
        Value::Object(fields) => {
            let message = fields.get("message").map_or("", text);
            if message.contains("spec.") || message.contains("metadata.") {
                found.push(message.to_owned());
            }
            fields.values().for_each(|value| complaints(value, found));
        }
        Value::Array(all) => all.iter().for_each(|value| complaints(value, found)),
        _ => {}
    }
}

fn class_of_contour(objects: &[Value]) -> Option<&str> {
    let object = of_kind(objects, &["IngressRoute"]).next()?;
    let class = &object["metadata"]["annotations"]["kubernetes.io/ingress.class"];
    Some(class.as_str().unwrap_or("contour"))
}

/// What is wrong with a block's objects.
pub(crate) fn problem(mut objects: Vec<Value>) -> Option<String> {
    let output = complete(&mut objects);
    let texts = objects.iter().map(|object| serde_saphyr::to_string(object).unwrap());
    let manifest = texts.collect::<Vec<_>>().join("\n---\n");
    let mut config = tempfile::NamedTempFile::new().unwrap();
    let mut arguments = vec!["render", "-o", "json", "--target", output];
    if let Some(class) = class_of_contour(&objects) {
        let contour = json!({"contour": {"gateway": "limpet/contour", "ingressClass": class}});
        write!(config, "{contour}").unwrap();
        arguments.extend(["--config", config.path().to_str().unwrap()]);
    }
    arguments.push("-f");
    let (code, said) = limpet_on(&manifest, &arguments);
    // Another control plane's objects come first, as YAML.
    let report = said
        .find("\n{\n")
        .map_or(said.as_str(), |at| said.get(at + 1..).unwrap_or_default());
    let Ok(report) = serde_json::from_str::<Value>(report) else {
        return Some(said);
    };
    let mut found = Vec::new();
    complaints(&report, &mut found);
    for (name, policy) in report["sessionPolicies"].as_object().into_iter().flatten() {
        if list(&policy["ancestors"]).next().is_none() {
            found.push(format!("{name} is without effect"));
        }
    }
    for (name, route) in report["ingressRoutes"].as_object().into_iter().flatten() {
        if route["status"] != "valid" || list(&route["notes"]).next().is_some() {
            found.push(format!("{name}: {route}"));
        }
    }
    if code != Some(0) {
        found.push(format!("exit code {code:?}: {said}"));
    }
    (!found.is_empty()).then(|| found.join("\n"))
}

#[test]
fn mistakes_in_objects_are_found() {
    let policy = |spec: Value| {
        let object = json!({
            "apiVersion": "gateway.networking.k8s.io/v1alpha2",
            "kind": "BackendLBPolicy",
            "metadata": {"name": "sticky", "namespace": "shop"},
            "spec": spec,
        });
        problem(vec![object])
    };
    let target = json!([{"group": "", "kind": "Service", "name": "web"}]);
    let good = json!({"targetRefs": target, "sessionPersistence": {"sessionName": "a"}});
    assert_eq!(policy(good), None);
    for (session, expected) in [
        (json!({"idelTimeout": "3m"}), "spec.sessionPersistence.idelTimeout"),
        (
            json!({"idleTimeout": "3 minutes"}),
            "spec.sessionPersistence.idleTimeout",
        ),
    ] {
        let found = policy(json!({"targetRefs": target, "sessionPersistence": session})).unwrap_or_default();
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn mistakes_in_objects_of_contour_are_found() {
    let object = |spec: Value| {
        let object = json!({
            "apiVersion": "contour.heptio.com/v1beta1",
            "kind": "IngressRoute",
            "metadata": {"name": "root", "namespace": "shop"},
            "spec": spec,
        });
        problem(vec![object])
    };
    let host = json!({"fqdn": "shop.example.com"});
    let route =
        |strategy: &str| json!([{"match": "/", "services": [{"name": "web", "port": 80, "strategy": strategy}]}]);
    assert_eq!(object(json!({"virtualhost": host, "routes": route("Cookie")})), None);
    for (spec, expected) in [
        (json!({"virtualhost": host, "routes": route("cookie")}), "strategy"),
        (json!({"virtualhost": host, "rutes": []}), "spec.rutes"),
        (json!({"routes": route("Cookie")}), "orphaned"),
    ] {
        let found = object(spec).unwrap_or_default();
        assert!(found.contains(expected), "{found}");
    }
}
