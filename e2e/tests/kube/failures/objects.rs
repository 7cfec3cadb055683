//! Objects that the schemas refuse. Clusters with other definitions may have them.

use std::fmt::Write as _;

use anyhow::Result;
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_e2e::{Request, poll};
use serde_json::{Value, json};

use super::browsers::Browsers;
use super::{message, objects, redirect, until_redirected, until_sessions};
use crate::clusters;
use crate::site::condition;

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    let version = if kind == "BackendLBPolicy" { "v1alpha2" } else { "v1" };
    json!({
        "apiVersion": format!("gateway.networking.k8s.io/{version}"),
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    })
}

fn route(name: &str, rules: &Value) -> Value {
    object(
        "HTTPRoute",
        name,
        &json!({"parentRefs": [{"name": "web"}], "hostnames": [format!("{name}.example")], "rules": rules}),
    )
}

fn bad_objects(class: &str) -> Vec<Value> {
    let web = json!([{"name": "web", "port": 80}]);
    let long = "n".repeat(253);
    let path =
        |kind: &str, value: &str| json!([{"matches": [{"path": {"type": kind, "value": value}}], "backendRefs": web}]);
    let filter = |filter: Value| json!([{"filters": [filter], "backendRefs": web}]);
    let targets: Vec<_> = (0..16)
        .map(|number| json!({"group": "", "kind": "Service", "name": format!("service-{number}")}))
        .collect();
    let policy = |targets: Value, session: Value| json!({"targetRefs": targets, "sessionPersistence": session});
    let other = json!([{"group": "", "kind": "Service", "name": "other"}]);
    vec![
        route("path-type", &path("Glob", "/*")),
        route("path-relative", &path("PathPrefix", "no/slash")),
        route("path-empty", &path("Exact", "")),
        route("path-expression", &path("RegularExpression", "(((")),
        route("path-large", &path("PathPrefix", &format!("/{}", "p".repeat(100_000)))),
        route(
            "method",
            &json!([{"matches": [{"method": "BREW"}], "backendRefs": web}]),
        ),
        route(
            "header",
            &json!([{"matches": [{"headers": [{"name": "a b\n", "value": "\u{0}"}]}], "backendRefs": web}]),
        ),
        route(
            "query",
            &json!([{"matches": [{"queryParams": [{"type": "Fuzzy", "name": "", "value": ""}]}], "backendRefs": web}]),
        ),
        route("filter-type", &filter(json!({"type": "Teleport"}))),
        route("filter-without", &filter(json!({"type": "RequestRedirect"}))),
        route(
            "filter-status",
            &filter(json!({
                "type": "RequestRedirect",
                "requestRedirect": {"statusCode": 99, "scheme": "gopher", "port": 0},
            })),
        ),
        route(
            "filter-header",
            &filter(json!({
                "type": "RequestHeaderModifier",
                "requestHeaderModifier": {"set": [
                    {"name": ":path", "value": "/\r\nx: y"},
                    {"name": "", "value": ""},
                ]},
            })),
        ),
        route(
            "timeouts",
            &json!([{"timeouts": {"request": "99999999h99999999h", "backendRequest": "-1s"}, "backendRefs": web}]),
        ),
        route(
            "weights",
            &json!([{"backendRefs": [
                {"name": "web", "port": 80, "weight": -1},
                {"name": "web", "port": 80, "weight": 4_294_967_295_u64},
            ]}]),
        ),
        route(
            "weights-sum",
            &json!([{"backendRefs": [
                {"name": "web", "port": 80, "weight": 2_147_483_647},
                {"name": "web", "port": 80, "weight": 2_147_483_647},
                {"name": "web", "port": 80, "weight": 2_147_483_647},
            ]}]),
        ),
        route(
            "port",
            &json!([{"backendRefs": [{"name": "web", "port": 70_000}, {"name": "web", "port": 0}, {"name": "web"}]}]),
        ),
        route(
            "session",
            &json!([{
                "backendRefs": web,
                "sessionPersistence": {"sessionName": "a b;=\n", "type": "Telepathy", "absoluteTimeout": "soon"},
            }]),
        ),
        route("no-rules", &json!([])),
        route("empty-rule", &json!([{}])),
        route(
            "empty-lists",
            &json!([{"matches": [], "filters": [], "backendRefs": []}]),
        ),
        route("null-rules", &Value::Null),
        object("HTTPRoute", "no-parents", &json!({"parentRefs": [], "hostnames": []})),
        object("HTTPRoute", "no-spec", &Value::Null),
        object(
            "HTTPRoute",
            "hostname",
            &json!({
                "parentRefs": [{"name": "web"}],
                "hostnames": ["*", "*.*.example", "", "a b"],
                "rules": [{"backendRefs": web}],
            }),
        ),
        object(
            "GRPCRoute",
            "grpc",
            &json!({
                "parentRefs": [{"name": "web"}],
                "hostnames": ["grpc.example"],
                "rules": [{"matches": [{"method": {"type": "Regex", "service": "[", "method": ""}}]}],
            }),
        ),
        object(
            "HTTPRoute",
            &long,
            &json!({
                "parentRefs": [{"name": "web", "sectionName": long}, {"name": long}],
                "rules": [{"name": long, "backendRefs": [{"name": long, "port": 80}]}],
            }),
        ),
        object("BackendLBPolicy", "no-targets", &policy(json!([]), json!({}))),
        object(
            "BackendLBPolicy",
            "many-targets",
            &policy(targets.into(), json!({"sessionName": "many"})),
        ),
        object(
            "BackendLBPolicy",
            "kind",
            &policy(json!([{"group": "x", "kind": "Y", "name": ""}]), json!({})),
        ),
        object(
            "BackendLBPolicy",
            "type",
            &policy(other.clone(), json!({"type": "Telepathy"})),
        ),
        object(
            "BackendLBPolicy",
            "duration",
            &policy(other.clone(), json!({"absoluteTimeout": "1e9", "idleTimeout": ""})),
        ),
        object(
            "BackendLBPolicy",
            "name",
            &policy(other.clone(), json!({"sessionName": "a;b=c\r\n"})),
        ),
        object(
            "BackendLBPolicy",
            "large-name",
            &policy(other, json!({"sessionName": "n".repeat(10_000)})),
        ),
        object("BackendLBPolicy", &long, &json!(5)),
        object(
            "BackendLBPolicy",
            "of-the-regulars",
            &policy(
                json!([{"group": "", "kind": "Service", "name": "web"}]),
                json!({"sessionName": 5}),
            ),
        ),
        // Their own Gateways, whose Envoys the crowd does not use.
        object(
            "Gateway",
            "protocol",
            &json!({
                "gatewayClassName": class,
                "listeners": [{"name": "x", "port": 9000, "protocol": "CARRIER-PIGEON"}],
            }),
        ),
        object(
            "Gateway",
            "no-listeners",
            &json!({"gatewayClassName": class, "listeners": []}),
        ),
        object(
            "Gateway",
            "port",
            &json!({"gatewayClassName": class, "listeners": [
                {"name": "x", "port": 0, "protocol": "HTTP"},
                {"name": "y", "port": 70_000, "protocol": "HTTP"},
            ]}),
        ),
    ]
}

/// `Accepted` of a Gateway, or of a route or policy for its only Gateway.
fn accepted_of(object: &Value) -> String {
    let status = &object["status"];
    let places = [
        &status["conditions"],
        &status["parents"][0]["conditions"],
        &status["ancestors"][0]["conditions"],
    ];
    places.map(|conditions| condition(conditions, "Accepted")).concat()
}

/// 64 rules with 64 matches each.
fn large() -> Value {
    let rules = (0..64).map(|rule| {
        let matches = (0..64).map(|index| json!({"path": {"type": "Exact", "value": format!("/{rule}/{index}")}}));
        json!({"matches": matches.collect::<Vec<_>>(), "backendRefs": [{"name": "web", "port": 80}]})
    });
    route("large", &rules.collect::<Vec<_>>().into())
}

#[tokio::test]
async fn bad_objects_do_not_affect_the_others() -> Result<()> {
    let cluster = clusters::without_schemas().await?;
    let namespace = cluster.namespace("bad-objects").await?;
    let _pods = objects(&namespace).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    until_sessions(&controller).await?;
    let browsers = Browsers::gather(&controller).await?;

    let all = bad_objects(namespace.name());
    // The API server needs a moment to drop a schema.
    let first = async || namespace.apply_object(&all[0]).await.ok();
    poll::until("the schemas to have no effect", first).await?;
    let mut problems = String::new();
    for (number, object) in all.iter().enumerate() {
        let applied = async || namespace.apply_object(object).await.ok();
        poll::until(&format!("{} {}", object["kind"], object["metadata"]["name"]), applied).await?;
        // Each object gets its own build, as far as a test can see.
        let change = redirect(&format!("after-{number}"));
        if number % 6 == 5 {
            namespace.apply(&change).await?;
            let arrived = until_redirected(&controller, &format!("/after-{number}"), true).await;
            if arrived.is_err() {
                writeln!(problems, "nothing arrives after {}", object["metadata"]["name"])?;
                break;
            }
        }
    }
    namespace.apply_object(&large()).await?;
    let accepted =
        |object: &Value| condition(&object["status"]["parents"][0]["conditions"], "Accepted") == "True/Accepted";
    namespace
        .until("the large route to be accepted", "HTTPRoute", "large", accepted)
        .await?;
    for (kind, name, reason) in [
        ("HTTPRoute", "weights", "UnsupportedValue"),
        ("Gateway", "port", "Invalid"),
        ("BackendLBPolicy", "of-the-regulars", "Invalid"),
    ] {
        let expected = format!("False/{reason}");
        let refused = |object: &Value| accepted_of(object) == expected;
        namespace
            .until("the unreadable object to say so", kind, name, refused)
            .await?;
    }
    namespace.apply(&redirect("last")).await?;
    let last = until_redirected(&controller, "/last", true).await;
    if let Err(error) = last {
        let gateway = namespace.get("Gateway", "web").await?;
        let words = message(&gateway["status"]["conditions"], "Programmed");
        let end = words.len().saturating_sub(600);
        writeln!(problems, "{error:#}: {}", words.get(end..).unwrap_or(words))?;
    }
    let log = controller.log()?;
    for bad in ["panicked", "a build failed", "a status was refused", "ERROR"] {
        for line in log.lines().filter(|line| line.contains(bad)) {
            writeln!(problems, "{line}")?;
        }
    }
    let refused = envoy
        .admin()
        .stats("(update_rejected|lds.update_rejected|cds.update_rejected)$")
        .await?;
    for (name, count) in refused.iter().filter(|(_, count)| **count > 0) {
        writeln!(problems, "{name}: {count}")?;
    }
    assert!(problems.is_empty(), "{problems}");

    browsers.leave().await
}

/// A too large program of an expression, and many programs that are too large together. The schemas take both.
#[tokio::test]
async fn a_route_over_its_budget_answers_500_alone() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("budget").await?;
    let _pods = objects(&namespace).await?;
    let rule = |expression: &str| {
        json!({
            "matches": [{"path": {"type": "RegularExpression", "value": expression}}],
            "backendRefs": [{"name": "web", "port": 80}],
        })
    };
    let good = json!({"matches": [{"path": {"value": "/good"}}], "backendRefs": [{"name": "web", "port": 80}]});
    let one = json!([rule("/a{2000}"), good]);
    let many: Value = (0..5).map(|number| rule(&format!("/{number}a{{900}}"))).collect();
    for (name, rules) in [("one", one), ("many", many), ("neighbour", json!([rule("/a{900}|/")]))] {
        namespace.apply_object(&route(name, &rules)).await?;
    }
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    let web = controller.address(8080);
    for (host, path, status) in [
        ("one.example", "/aaaa", 500),
        ("one.example", "/good", 200),
        ("many.example", "/0aaa", 500),
        ("neighbour.example", "/", 200),
        ("elsewhere.example", "/", 200),
    ] {
        let answered = async || {
            let answer = Request::get(web, path).header("host", host).send().await.ok()?;
            (answer.status == status).then_some(())
        };
        poll::until(&format!("{status} of {host}{path}"), answered).await?;
    }
    for (name, words) in [
        ("one", "at most 1000 instructions"),
        ("many", "at most 4000 instructions"),
    ] {
        let said = |route: &Value| route["status"].to_string().contains(words);
        namespace.until(words, "HTTPRoute", name, said).await?;
    }
    Ok(())
}
