//! `XBackend`: the split chooses a backend for every request, and within it a client keeps its endpoint. These are the
//! conformance tests that the Gateway API has announced, and further requirements of its text.
//!
//! - At least 50 requests of a session reach the same pod. With Session there is no Expires and no Max-Age; with
//!   Permanent, Max-Age is absoluteTimeout.
//! - Persistence "MUST NOT override which backend is selected": a split of 70 to 30 is kept although cookies are sent.
//! - The same explicit name at two backends of one split is invalid.
//! - The cookie SHOULD be forwarded to the backend; its path "MUST default to /"; a name is generated if none is given.
//! - Draining endpoints MAY keep their sessions. Sessions SHOULD fall back when the endpoints do not serve any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use limpet_api::ObjectName;
use limpet_e2e::Answer;
use limpet_e2e::kube::{POD_PORT, Release};
use limpet_model::selector_service;
use serde_json::{Value, json};

use super::site::{GatewaySite, V1, V2, is_from, rule, stated};
use super::statistics::{TOO_MUCH_FOR_TWO, chi_squared};

/// An `XBackend` for the pods with this label `app`.
pub(crate) fn backend(name: &str, app: &str, persistence: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1",
        "kind": "XBackend",
        "metadata": {"name": name},
        "spec": {
            "type": "EndpointSelector",
            "endpointSelector": {"matchLabels": {"app": app}},
            "port": {"number": POD_PORT},
            "sessionPersistence": persistence,
        },
    })
}

pub(crate) fn to_backends(path: &str, backends: &[(&str, u32)]) -> Value {
    let mut rule = rule(path, &[]);
    let references = backends.iter().map(|(name, weight)| reference(name, *weight));
    rule["backendRefs"] = references.collect();
    rule
}

pub(crate) fn reference(name: &str, weight: u32) -> Value {
    json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": name, "weight": weight})
}

fn cookie(name: &str) -> Value {
    json!({"type": "Cookie", "cookie": {"name": name}})
}

#[tokio::test]
async fn fifty_requests_of_a_session_reach_one_pod() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let permanent = json!({
        "type": "Cookie",
        "absoluteTimeout": "30m",
        "cookie": {"name": "x-permanent", "lifetimeType": "Permanent"},
    });
    let unnamed = json!({"type": "Cookie", "cookie": {}});
    for (name, persistence, age) in [
        ("x-session", cookie("x-session"), None),
        ("x-permanent", permanent, Some("1800")),
        ("x-unnamed", unnamed, None),
    ] {
        let path = format!("/{name}");
        site.namespace.apply_object(&backend(name, "v1", &persistence)).await?;
        site.route(name, &[to_backends(&path, &[(name, 1)])]).await?;
        site.until_sessions(&path).await?;
        let mut visitor = site.visitor();
        let first = visitor.get(&path).await?;
        let set = first.set_cookies().pop().context("no cookie")?;
        ensure!((name == "x-unnamed") == (set.name != name), "{name}: {set:?}");
        ensure!(set.attribute("Path") == Some("/"), "{name}: {set:?}");
        ensure!(set.attribute("Max-Age") == age, "{name}: {set:?}");
        ensure!(set.attribute("Expires").is_some() == age.is_some(), "{name}: {set:?}");
        for _ in 0..50 {
            let answer = visitor.get(&path).await?;
            ensure!(answer.backend() == first.backend(), "{name}: {answer:?}");
            ensure!(answer.set_cookies().is_empty(), "{name}: {answer:?}");
            let seen = answer.seen()?.cookies().unwrap_or_default();
            ensure!(
                seen.contains(&set.pair()),
                "{name}: the backend does not see the cookie: {seen}"
            );
        }
    }
    Ok(())
}

/// The cluster's metadata name the policy, so the filter must know it first.
#[tokio::test]
async fn requests_during_a_change_of_an_xbackends_sessions_reached_other_pods() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let path = "/x-changed";
    let apply = async |seconds: u32| {
        let persistence = json!({
            "type": "Cookie",
            "absoluteTimeout": format!("{seconds}s"),
            "cookie": {"name": "x-changed", "lifetimeType": "Permanent"},
        });
        let object = backend("x-changed", "v1", &persistence);
        site.namespace.apply_object(&object).await
    };
    apply(3600).await?;
    site.route("x-changed", &[to_backends(path, &[("x-changed", 1)])])
        .await?;
    site.until_sessions(path).await?;
    let done = AtomicBool::new(false);
    let requests = async {
        let mut visitor = site.visitor();
        let first = visitor.get(path).await?;
        let mut count = 0;
        while !done.load(Ordering::Relaxed) {
            let answer = visitor.get(path).await?;
            ensure!(answer.backend() == first.backend(), "request {count}: {answer:?}");
            count += 1;
        }
        Ok(count)
    };
    let changes = async {
        for seconds in 3601..3613 {
            apply(seconds).await?;
            let age = seconds.to_string();
            let is_new = |answer: &Answer| {
                let mut set = answer.set_cookies().into_iter();
                set.any(|cookie| cookie.attribute("Max-Age") == Some(&*age))
            };
            site.until("the new lifetime", path, is_new).await?;
        }
        done.store(true, Ordering::Relaxed);
        anyhow::Ok(())
    };
    let (count, all): (Result<u32>, _) = tokio::join!(requests, changes);
    all?;
    assert!(count? > 100);
    Ok(())
}

/// A chi-squared test, which a split of 55 to 45 would fail.
#[tokio::test]
async fn a_split_is_kept_although_cookies_are_sent() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let pods = [("x-split-v1", "v1"), ("x-split-v2", "v2")];
    for (name, app) in pods {
        site.namespace.apply_object(&backend(name, app, &cookie(name))).await?;
    }
    site.route(
        "x-split",
        &[to_backends("/x-split", &[(pods[0].0, 70), (pods[1].0, 30)])],
    )
    .await?;
    site.until_sessions("/x-split").await?;
    let mut visitor = site.visitor();
    let mut counts = [0; 2];
    let mut kept = BTreeMap::new();
    for _ in 0..800 {
        let answer = visitor.get("/x-split").await?;
        let version = usize::from(is_from(V2, &answer));
        ensure!(is_from(if version == 1 { V2 } else { V1 }, &answer), "{answer:?}");
        counts[version] += 1;
        let pods: &mut BTreeSet<String> = kept.entry(version).or_default();
        pods.insert(answer.backend().unwrap_or_default().to_owned());
    }
    assert_eq!(visitor.cookie_names(), [pods[0].0, pods[1].0]);
    assert!(
        kept.values().all(|pods| pods.len() == 1),
        "not one pod of each backend: {kept:?}"
    );
    let found = chi_squared(&counts, &[70, 30]);
    assert!(found < TOO_MUCH_FOR_TWO, "{counts:?}: chi-squared is {found}");
    assert!(chi_squared(&counts, &[55, 45]) > TOO_MUCH_FOR_TWO, "{counts:?}");
    Ok(())
}

/// `keep` is for sticky canaries.
#[tokio::test]
async fn a_session_stays_at_its_xbackend_where_the_route_says_keep() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    for (name, app) in [("x-kept-v1", "v1"), ("x-kept-v2", "v2")] {
        site.namespace.apply_object(&backend(name, app, &cookie(name))).await?;
    }
    let apply = async |weights: [u32; 2]| {
        let rules = [to_backends(
            "/x-kept",
            &[("x-kept-v1", weights[0]), ("x-kept-v2", weights[1])],
        )];
        site.annotated_route("x-kept", &rules, &json!({"split": "keep"})).await
    };
    apply([100, 0]).await?;
    site.until_sessions("/x-kept").await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/x-kept").await?;
    assert_eq!(visitor.cookie_names(), ["x-kept-v1"]);
    apply([0, 100]).await?;
    site.until("new clients at the other backend", "/x-kept", |answer| {
        is_from(V2, answer)
    })
    .await?;
    for _ in 0..50 {
        let answer = visitor.get("/x-kept").await?;
        ensure!(answer.backend() == first.backend(), "{answer:?}");
        ensure!(answer.set_cookies().is_empty(), "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn one_name_for_two_backends_of_a_split_is_refused() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    for (name, app, session) in [("x-one", "v1", "x-collision"), ("x-two", "v2", "x-collision")] {
        site.namespace
            .apply_object(&backend(name, app, &cookie(session)))
            .await?;
    }
    let rules = [to_backends("/x-collision", &[("x-one", 50), ("x-two", 50)])];
    site.route("x-collision", &rules).await?;
    for name in ["x-one", "x-two"] {
        let conflicted = |object: &Value| stated(object, "Accepted").0 == "False/Conflicted";
        site.namespace
            .until("the backend to say so", "XBackend", name, conflicted)
            .await?;
    }
    let said = |object: &Value| {
        stated(object, "PartiallyInvalid")
            .1
            .contains("spec.rules[0].backendRefs: expected backends whose")
    };
    site.namespace
        .until("the route to say so", "HTTPRoute", "x-collision", said)
        .await?;
    let none = |answer: &Answer| answer.status == 200 && answer.set_cookies().is_empty();
    site.until("no sessions", "/x-collision", none).await?;
    site.namespace
        .apply_object(&backend("x-two", "v2", &cookie("other")))
        .await?;
    site.until_sessions("/x-collision").await?;
    let accepted = |object: &Value| stated(object, "Accepted").0 == "True/Accepted";
    site.namespace
        .until("the backend to say so", "XBackend", "x-two", accepted)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_draining_pod_keeps_its_sessions_until_it_is_gone() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let labels = [("app", "x-drain")];
    let going = site.namespace.pod("x-going", &labels).await?;
    let _stays = site.namespace.pod("x-stays", &labels).await?;
    site.namespace
        .apply_object(&backend("x-drain", "x-drain", &cookie("x-drain")))
        .await?;
    site.route("x-drain", &[to_backends("/x-drain", &[("x-drain", 1)])])
        .await?;
    site.until_sessions("/x-drain").await?;
    let mut visitor = limpet_e2e::poll::until("a session at the pod that drains", async || {
        let mut visitor = site.visitor();
        let answer = visitor.get("/x-drain").await.ok()?;
        (answer.backend() == Some("x-going")).then_some(visitor)
    })
    .await?;
    going.drain().await?;
    let elsewhere = |answer: &Answer| answer.backend() == Some("x-stays");
    site.until("no new session to go there", "/x-drain", elsewhere).await?;
    for _ in 0..10 {
        let answer = visitor.get("/x-drain").await?;
        ensure!(
            answer.backend() == Some("x-going") && answer.set_cookies().is_empty(),
            "{answer:?}"
        );
    }
    going.remove().await?;
    let token = visitor.cookie("x-drain").context("no cookie")?.to_owned();
    let request = || site.get("/x-drain").cookie(format!("x-drain={token}"));
    let falls_back = |answer: &Answer| answer.backend() == Some("x-stays") && answer.set_cookies().len() == 1;
    site.until_asked("the session to fall back", request, falls_back)
        .await?;
    Ok(())
}

/// The cluster's own controller creates `EndpointSlices` for the Service.
#[tokio::test]
async fn a_backends_service_follows_it_and_is_deleted_with_it() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let namespace = &site.namespace;
    let service = |name: &str| selector_service(&ObjectName::new(namespace.name(), name)).name;
    let (own, taken) = (service("x-service"), service("x-taken"));
    // If the Service's name is taken, the backend has no endpoints, and the other Service does not change.
    namespace.service(&taken, &[("app", "v2")]).await?;
    let before = namespace.get("v1/Service", &taken).await?;
    for name in ["x-taken", "x-service"] {
        namespace.apply_object(&backend(name, "v1", &cookie(name))).await?;
        site.route(name, &[to_backends(&format!("/{name}"), &[(name, 1)])])
            .await?;
    }
    let refused = |object: &Value| {
        let (accepted, message) = stated(object, "Accepted");
        accepted == "False/Invalid" && message.contains(taken.as_str())
    };
    namespace.until("its refusal", "XBackend", "x-taken", refused).await?;
    let nobody = |answer: &Answer| answer.status == 500;
    site.until("answers of no pod", "/x-taken", nobody).await?;
    let owner = namespace.get("XBackend", "x-service").await?["metadata"]["uid"].clone();
    let has_owner = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"] == owner;
    let made = namespace.until("the Service", "v1/Service", &own, has_owner).await?;
    assert_eq!(made["spec"]["clusterIP"], "None");
    assert_eq!(
        (&made["spec"]["selector"], &made["spec"]["ports"][0]["port"]),
        (&json!({"app": "v1"}), &json!(POD_PORT))
    );
    site.until("answers", "/x-service", |answer| is_from(V1, answer))
        .await?;

    // Changes by others are undone.
    namespace
        .apply_object(&backend("x-service", "v2", &cookie("x-service")))
        .await?;
    site.until("answers of the other pods", "/x-service", |answer| is_from(V2, answer))
        .await?;
    let foreign = json!({"spec": {"selector": {"app": "v1"}}});
    namespace.merge("v1/Service", &own, &foreign).await?;
    let right = |object: &Value| object["spec"]["selector"] == json!({"app": "v2"});
    namespace
        .until("the Service's selector to be back", "v1/Service", &own, right)
        .await?;
    namespace.delete("v1/Service", &own).await?;
    namespace
        .until("the Service to be back", "v1/Service", &own, right)
        .await?;

    let external = json!({"spec": {
        "type": "ExternalHostname", "endpointSelector": null, "sessionPersistence": null,
        "externalHostname": {"hostname": "shop.example"},
    }});
    namespace.merge("XBackend", "x-service", &external).await?;
    namespace.until_gone("v1/Service", &own).await?;
    namespace.delete("XBackend", "x-service").await?;
    namespace
        .apply_object(&backend("x-service", "v1", &cookie("x-service")))
        .await?;
    namespace.until("the Service", "v1/Service", &own, |_| true).await?;
    namespace.delete("HTTPRoute", "x-service").await?;
    namespace.delete("XBackend", "x-service").await?;
    namespace.until_gone("v1/Service", &own).await?;
    let after = namespace.get("v1/Service", &taken).await?;
    assert_eq!(before, after, "the other Service has changed");
    Ok(())
}
