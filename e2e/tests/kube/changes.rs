//! Reactions to changes of definitions, objects, replicas and the API server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Proxy, Release};
use limpet_e2e::{Visitor, poll};
use serde_json::{Value, json};

use crate::clusters;
use crate::definitions::SHIPPED;
use crate::keyring::{KeyringSite, envoy_at};
use crate::site::{POLICY, condition, site_objects};

/// Much less than the interval of a controller that may not watch definitions.
const SOON: Duration = Duration::from_secs(8);
const WEB: &[(&str, &str)] = &[("app", "web")];

fn parent_condition(object: &Value, name: &str) -> String {
    condition(&object["status"]["parents"][0]["conditions"], name)
}

async fn cookies(controller: &Controller) -> Result<Vec<String>> {
    poll::until("a backend", async || {
        let mut visitor = Visitor::of(controller.address(8080));
        let answer = visitor.get("/").await.ok()?;
        answer.backend()?;
        Some(visitor.cookie_names().into_iter().map(str::to_owned).collect())
    })
    .await
}

async fn programmed(namespace: &Namespace) -> Result<Value> {
    let programmed = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == "True/Programmed";
    namespace.until("acknowledgement", "Gateway", "web", programmed).await
}

async fn updates(envoy: &Proxy) -> Result<BTreeMap<String, u64>> {
    let names = [
        "listener_manager.lds.update_success",
        "cluster_manager.cds.update_success",
    ];
    let mut found = BTreeMap::new();
    for name in names {
        found.insert(name.to_owned(), envoy.admin().stat(name).await?);
    }
    Ok(found)
}

#[tokio::test]
async fn a_definition_that_appears_later_is_noticed() -> Result<()> {
    // This release lacks the definition, and no other test of its cluster adds it.
    let cluster = Cluster::shared(Release::V1_6_1).await?;
    let namespace = cluster.namespace("later").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let _pod = namespace.pod("a", WEB).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    assert!(
        cookies(&controller).await?.is_empty(),
        "a cookie was set without a policy"
    );

    cluster.define(SHIPPED).await?;
    let defined = Instant::now();
    let watched = async || {
        controller
            .log()
            .ok()?
            .contains("watching kind=\"BackendLBPolicy\"")
            .then_some(())
    };
    poll::until("the kind to be watched", watched).await?;
    assert!(
        defined.elapsed() < SOON,
        "a new kind was noticed after {:?}",
        defined.elapsed()
    );
    namespace.apply(POLICY).await?;
    let has_cookie = async || cookies(&controller).await.ok().filter(|cookies| cookies == &["shop"]);
    poll::until("the policy to take effect", has_cookie).await?;
    let accepted =
        |object: &Value| condition(&object["status"]["ancestors"][0]["conditions"], "Accepted") == "True/Accepted";
    namespace
        .until("its status", "BackendLBPolicy", "web", accepted)
        .await?;

    cluster
        .server()
        .admin()
        .delete(
            "CustomResourceDefinition",
            "backendlbpolicies.gateway.networking.k8s.io",
        )
        .await?;
    let has_none = async || cookies(&controller).await.ok().filter(Vec::is_empty);
    poll::until("the policy to have no effect", has_none).await.map(drop)
}

#[tokio::test]
async fn a_restart_does_not_change_what_envoy_has() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("restart").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let _pods = [namespace.pod("a", WEB).await?, namespace.pod("b", WEB).await?];
    namespace.apply(&site_objects(&namespace)).await?;
    namespace.apply(POLICY).await?;
    let mut controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    programmed(&namespace).await?;
    let mut visitor = Visitor::of(controller.address(8080));
    let backend = poll::until("a backend", async || {
        visitor.get("/").await.ok()?.backend().map(str::to_owned)
    })
    .await?;
    let before = updates(&envoy).await?;
    let status = namespace.get("Gateway", "web").await?["status"].clone();

    controller.end().await?;
    assert_eq!(
        visitor.get("/").await?.backend(),
        Some(backend.as_str()),
        "without the controller"
    );
    controller.launch()?;
    controller.until_ready().await?;
    let connected = async || {
        controller
            .metric(&format!("limpet_clients{{gateway=\"{}/web\"}}", namespace.name()))
            .await
            .ok()
    };
    poll::until("Envoy to reconnect", async || {
        connected().await.filter(|count| count == "1")
    })
    .await?;
    programmed(&namespace).await?;
    assert_eq!(visitor.get("/").await?.backend(), Some(backend.as_str()));
    assert_eq!(updates(&envoy).await?, before, "Envoy got something again");
    assert_eq!(
        namespace.get("Gateway", "web").await?["status"],
        status,
        "the controller wrote something again"
    );
    Ok(())
}

#[tokio::test]
async fn other_controllers_entries_stay_and_stale_entries_go() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("writers").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    let foreign = json!({
        "controllerName": "example.com/other",
        "parentRef": {"name": "web"},
        "conditions": [{
            "type": "Accepted", "status": "False", "reason": "NoMatchingParent", "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }],
    });
    namespace
        .merge_status("HTTPRoute", "web", &json!({"parents": [foreign]}))
        .await?;
    let _controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let parents = |object: &Value| object["status"]["parents"].as_array().cloned().unwrap_or_default();
    let both = |object: &Value| parents(object).len() == 2;
    let route = namespace.until("both entries", "HTTPRoute", "web", both).await?;
    let kept = |object: &Value| {
        parents(object)
            .into_iter()
            .find(|parent| parent["controllerName"] == foreign["controllerName"])
    };
    let first = kept(&route).context("the other's entry is gone")?;
    assert_eq!(first["conditions"], foreign["conditions"]);

    // The other controller replaces the list by its own entry, several times.
    for _ in 0..5 {
        namespace
            .merge_status("HTTPRoute", "web", &json!({"parents": [foreign]}))
            .await?;
    }
    let route = namespace
        .until("Limpet's entry to be back", "HTTPRoute", "web", both)
        .await?;
    assert_eq!(kept(&route), Some(first.clone()));

    let leave = json!({"spec": {"parentRefs": [{"name": "elsewhere"}]}});
    namespace.merge("HTTPRoute", "web", &leave).await?;
    let alone = |object: &Value| parents(object).len() == 1;
    let route = namespace
        .until("Limpet's entry to be removed", "HTTPRoute", "web", alone)
        .await?;
    assert_eq!(kept(&route), Some(first));
    Ok(())
}

#[tokio::test]
async fn one_of_two_replicas_writes_and_the_other_takes_over() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("leaders").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    let mut first = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let leads = async |controller: &Controller| {
        controller
            .metric("limpet_leader")
            .await
            .ok()
            .filter(|leads| leads == "1")
    };
    poll::until("the first one to lead", async || leads(&first).await).await?;
    let second = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    assert_eq!(leads(&second).await, None, "both replicas lead");
    let accepted = |object: &Value| parent_condition(object, "Accepted") == "True/Accepted";
    namespace.until("the route", "HTTPRoute", "web", accepted).await?;

    first.end().await?;
    poll::until("the second one to lead", async || leads(&second).await).await?;
    namespace
        .merge(
            "HTTPRoute",
            "web",
            &json!({"spec": {"rules": [{"backendRefs": [{"name": "gone", "port": 80}]}]}}),
        )
        .await?;
    let unresolved = |object: &Value| parent_condition(object, "ResolvedRefs") == "False/BackendNotFound";
    namespace
        .until("its word", "HTTPRoute", "web", unresolved)
        .await
        .map(drop)
}

#[tokio::test]
async fn everything_is_read_again_after_the_api_server_was_away() -> Result<()> {
    let mut cluster = clusters::to_stop().await?;
    let namespace = cluster.namespace("away").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let _pod = namespace.pod("a", WEB).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    assert!(cookies(&controller).await?.is_empty());

    cluster.server_mut().stop();
    assert!(
        cookies(&controller).await?.is_empty(),
        "a cookie was set without a policy"
    );
    assert_eq!(controller.page("/readyz").await?.status, 200);
    // The API server has forgotten the versions of the watches, so they must begin again.
    cluster.server_mut().start_again().await?;
    namespace.apply(POLICY).await?;
    let has_cookie = async || cookies(&controller).await.ok().filter(|cookies| cookies == &["shop"]);
    poll::until("the policy to take effect", has_cookie).await?;
    namespace.delete("BackendLBPolicy", "web").await?;
    let has_none = async || cookies(&controller).await.ok().filter(Vec::is_empty);
    poll::until("the policy to have no effect", has_none).await.map(drop)
}

#[tokio::test]
async fn without_the_gateway_api_it_is_not_ready_and_says_why() -> Result<()> {
    let cluster = clusters::bare().await?;
    let namespace = cluster.namespace("bare").await?;
    let mut controller = Controller::prepare(cluster.server(), &namespace, |_| ()).await?;
    controller.launch()?;
    let ready = async || {
        let answer = controller.page("/readyz").await.ok()?;
        Some((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
    };
    let words = "the API server does not serve Gateway, GatewayClass, HTTPRoute: \
                 install the definitions of the Gateway API";
    let not_ready = async || {
        let (status, body) = ready().await?;
        (status == 503 && body.contains(words)).then_some(())
    };
    poll::until("/readyz to name the kinds", not_ready).await?;
    // Without the admission policy of definitions: another test of this cluster has its own.
    let mut definitions = Release::V1_7_0.definitions()?;
    definitions.retain(|file| !file.to_string_lossy().contains("_vap_"));
    cluster.define_all(&definitions).await?;
    let is_ready = async || (ready().await?.0 == 200).then_some(());
    poll::until("it to be ready", is_ready).await?;

    // What was published stays, so Envoys may come.
    let admin = cluster.server().admin();
    let definition = "httproutes.gateway.networking.k8s.io";
    admin.delete("CustomResourceDefinition", definition).await?;
    let stale = async || {
        let (status, body) = ready().await?;
        (status == 200 && body.contains("does not serve HTTPRoute")).then_some(())
    };
    poll::until("/readyz to name the kind", stale).await?;
    cluster.define_all(&definitions).await?;
    let is_ready = async || (ready().await?.1 == "ok\n").then_some(());
    poll::until("it to be ready again", is_ready).await
}

#[tokio::test]
async fn an_unreadable_object_does_not_affect_others() -> Result<()> {
    let cluster = clusters::without_schemas().await?;
    let namespace = cluster.namespace("malformed").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let _pod = namespace.pod("a", WEB).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    let broken = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: broken
spec:
  parentRefs: [{name: web}]
  rules: [{matches: 5}]
";
    let applied = async || namespace.apply(broken).await.ok();
    poll::until("the schema to have no effect", applied).await?;
    let mut controller = Controller::prepare(cluster.server(), &namespace, |_| ()).await?;
    controller.log_as_json();
    controller.launch()?;
    controller.until_ready().await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    assert!(cookies(&controller).await?.is_empty());
    assert_eq!(
        controller
            .metric("limpet_objects{kind=\"HTTPRoute\",state=\"malformed\"}")
            .await?,
        "1"
    );
    let told = async || {
        let events = namespace.list("events.k8s.io/v1/Event", "").await.ok()?;
        events.into_iter().find(|event| event["regarding"]["name"] == "broken")
    };
    let event = poll::until("an event", told).await?;
    let note = event["note"].as_str().unwrap_or_default();
    assert!(note.contains("spec.rules[0].matches"), "{note}");
    let refused = |object: &Value| {
        let conditions = &object["status"]["parents"][0]["conditions"];
        condition(conditions, "Accepted") == "False/UnsupportedValue"
    };
    namespace.until("its condition", "HTTPRoute", "broken", refused).await?;

    // Each line of the log is a JSON object that names its object.
    let mut about = Vec::new();
    for line in controller.log()?.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        for field in ["timestamp", "level", "message", "target"] {
            assert!(line[field].is_string(), "no {field}: {line}");
        }
        if line["object"] == format!("{}/broken", namespace.name()) {
            about.push(line);
        }
    }
    let unread = about.iter().find(|line| line["message"] == "cannot be read");
    let unread = unread.with_context(|| format!("{about:?}"))?;
    assert_eq!(
        (&unread["level"], &unread["kind"], &unread["field"]),
        (&json!("WARN"), &json!("HTTPRoute"), &json!("spec.rules[0].matches"))
    );
    Ok(())
}

/// By the clock of the Envoy that issued them, tokens in use may be older than the new timeout.
#[tokio::test]
async fn a_shorter_idle_timeout_ends_no_session_that_is_in_use() -> Result<()> {
    let mut site = KeyringSite::start_at("shorter-idle", "1m", "1h", [0, -100]).await?;
    let mut visitors = Vec::new();
    for _ in 0..8 {
        visitors.push(site.session().await?);
    }
    site.envoy = envoy_at(&site.controller, &site.namespace, "two", 0).await?;
    let mut issued = async || {
        let mut issued = 0;
        for (visitor, pod) in &mut visitors {
            let answer = visitor.get("/").await?;
            ensure!(answer.backend() == Some(pod), "the session ended: {answer:?}");
            issued += answer.set_cookies().len();
        }
        anyhow::Ok(issued)
    };
    assert_eq!(issued().await?, 0, "these are within a tenth of the former timeout");
    let annotation = json!({"metadata": {"annotations": {"session.limpet.dev/idle-timeout": "20s"}}});
    site.namespace.merge("BackendLBPolicy", "web", &annotation).await?;
    let mut renewed = 0;
    let change = Instant::now();
    while renewed < 8 && change.elapsed() < SOON {
        renewed += issued().await?;
    }
    assert_eq!(renewed, 8, "all get the policy with the new timeout");
    assert_eq!(issued().await?, 0, "a renewed token is as old as its last use");
    Ok(())
}
