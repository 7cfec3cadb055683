//! Backends that drain, go, or have affinity of their own.
//!
//! - 15: Service sessionAffinity `ClientIP` together with persistence where the Service's IP is used: the route is rejected. These Envoys use the
//!   addresses of endpoints, so both are accepted, with a note.
//! - 16: A draining backend keeps its sessions and gets no new ones; a backend that is gone: a new token, sticky again; strict: 503 or the configured
//!   status.
//! - 17: Selector change: existing sessions SHOULD be retained. Those are whose pods are still selected; a pod that is not any more is no endpoint of
//!   the Service, as if it had gone.
//!
//! 20 (IP reuse) is tested with the fences.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Release;
use limpet_e2e::{Answer, Visitor, poll};
use serde_json::{Value, json};

use super::dialect::lb_policy;
use super::stage::{Stage, rule, stated};

#[tokio::test]
async fn check_15_affinity_of_the_service_is_noted_and_has_no_effect() -> Result<()> {
    let stage = Stage::shared(Release::V1_2_1).await?;
    let services = stage.services("check-15").await?;
    let services = services.each_ref().map(String::as_str);
    let affine = json!({"spec": {"sessionAffinity": "ClientIP"}});
    stage.namespace.merge("v1/Service", services[0], &affine).await?;
    let policy = lb_policy("check-15", &services, &json!({"sessionName": "check-15"}));
    stage.namespace.apply_object(&policy).await?;
    let rules = [rule("/check-15", &[(services[0], 1), (services[1], 1)])];
    stage.route("check-15", &rules).await?;
    stage.until_sessions("/check-15").await?;

    let noted = |object: &Value| {
        let (accepted, message) = stated(object, "Accepted");
        let text = "sessionAffinity ClientIP has no effect";
        accepted == "True/Accepted" && message.contains(text) && message.contains(services[0])
    };
    let policy = stage
        .namespace
        .until("the note", "BackendLBPolicy", "check-15", noted)
        .await?;
    assert!(!stated(&policy, "Accepted").1.contains(services[1]));
    // All clients have one address: with the Service's affinity they would all be on one pod of it.
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let mut visitor = stage.visitor();
        let first = visitor.get("/check-15").await?;
        assert_eq!(visitor.get("/check-15").await?.backend(), first.backend());
        seen.insert(first.backend().context("no backend")?.to_owned());
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
    Ok(())
}

/// A client with a session on this pod.
async fn on(stage: &Stage, path: &str, pod: &str) -> Result<Visitor> {
    poll::until("a session on the pod", async || {
        let mut visitor = stage.visitor();
        let answer = visitor.get(path).await.ok()?;
        (answer.backend() == Some(pod)).then_some(visitor)
    })
    .await
}

#[tokio::test]
async fn check_16_a_draining_backend_keeps_its_sessions_and_a_gone_one_loses_them() -> Result<()> {
    let stage = Stage::shared(Release::V1_2_1).await?;
    let namespace = &stage.namespace;
    let labels = [("app", "check-16")];
    namespace.service("check-16", &labels).await?;
    let going = namespace.pod("going", &labels).await?;
    let _staying = [
        namespace.pod("stays-1", &labels).await?,
        namespace.pod("stays-2", &labels).await?,
    ];
    let policy = lb_policy("check-16", &["check-16"], &json!({"sessionName": "check-16"}));
    namespace.apply_object(&policy).await?;
    let kinds = [
        ("balanced", json!({})),
        ("strict", json!({"strict": "true"})),
        ("strict-410", json!({"strict": "true", "strict-status": "410"})),
    ];
    let path = |kind: &str| format!("/check-16-{kind}");
    for (kind, annotations) in &kinds {
        let rules = [rule(&path(kind), &[("check-16", 1)])];
        stage
            .annotated_route(&format!("check-16-{kind}"), &rules, annotations)
            .await?;
    }
    let mut sessions = Vec::new();
    for (kind, _) in &kinds {
        // Of several rules that a policy governs, each has a cookie of its own.
        let suffixed = |answer: &Answer| {
            answer
                .set_cookies()
                .iter()
                .any(|cookie| cookie.name.starts_with("check-16~"))
        };
        stage.until("sessions of each rule", &path(kind), suffixed).await?;
        sessions.push((on(stage, &path(kind), "going").await?, path(kind)));
    }

    going.drain().await?;
    let elsewhere = |answer: &Answer| answer.backend().is_some_and(|backend| backend != "going");
    for (visitor, path) in &mut sessions {
        stage.until("no new session to go there", path, elsewhere).await?;
        for _ in 0..10 {
            let answer = visitor.get(path).await?;
            assert_eq!(answer.backend(), Some("going"), "{path}: draining ended its session");
            assert!(answer.set_cookies().is_empty(), "{path}: {answer:?}");
        }
    }

    going.remove().await?;
    namespace
        .endpoints("check-16", |endpoints| endpoints.len() == 2)
        .await?;
    let expected = [200, 503, 410];
    for ((visitor, path), status) in sessions.iter_mut().zip(expected) {
        // An Envoy that has not heard yet fails to connect, with the status 503 and no token.
        let name = *visitor.cookie_names().first().context("no cookie")?;
        let pair = format!("{name}={}", visitor.cookie(name).unwrap_or_default());
        let request = || stage.get(path).cookie(&pair);
        let settled =
            |answer: &Answer| answer.status == status && answer.set_cookies().len() == usize::from(status == 200);
        stage
            .until_asked("the session to end as configured", request, settled)
            .await?;
    }
    let (visitor, path) = &mut sessions[0];
    let moved = visitor.get(path).await?;
    assert_eq!(moved.set_cookies().len(), 1, "a new token");
    for _ in 0..10 {
        let answer = visitor.get(path).await?;
        assert_eq!(answer.backend(), moved.backend(), "the new token does not stick");
        assert!(answer.set_cookies().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn check_17_a_changed_selector_keeps_the_sessions_of_pods_that_are_still_selected() -> Result<()> {
    let stage = Stage::shared(Release::V1_2_1).await?;
    let namespace = &stage.namespace;
    namespace.service("check-17", &[("app", "check-17")]).await?;
    let _pods = [
        namespace.pod("gold", &[("app", "check-17"), ("tier", "gold")]).await?,
        namespace
            .pod("plain", &[("app", "check-17"), ("tier", "plain")])
            .await?,
    ];
    let policy = lb_policy("check-17", &["check-17"], &json!({"sessionName": "check-17"}));
    namespace.apply_object(&policy).await?;
    stage
        .route("check-17", &[rule("/check-17", &[("check-17", 1)])])
        .await?;
    stage.until_sessions("/check-17").await?;
    let mut kept = on(stage, "/check-17", "gold").await?;
    let mut lost = on(stage, "/check-17", "plain").await?;

    // A pod that is neither: the selector is another one altogether.
    let _new = namespace.pod("silver", &[("app", "other"), ("tier", "gold")]).await?;
    let selector = json!({"spec": {"selector": {"app": null, "tier": "gold"}}});
    namespace.merge("v1/Service", "check-17", &selector).await?;
    let selected = |answer: &Answer| answer.backend().is_some_and(|backend| backend != "plain");
    stage
        .until("new sessions to go to selected pods alone", "/check-17", selected)
        .await?;
    for _ in 0..10 {
        let answer = kept.get("/check-17").await?;
        ensure!(
            answer.backend() == Some("gold") && answer.set_cookies().is_empty(),
            "{answer:?}"
        );
    }
    let moved = lost.get("/check-17").await?;
    ensure!(
        moved.backend() != Some("plain") && moved.set_cookies().len() == 1,
        "{moved:?}"
    );
    for _ in 0..10 {
        ensure!(lost.get("/check-17").await?.backend() == moved.backend());
    }
    Ok(())
}
