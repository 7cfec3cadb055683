//! Backends that drain, stop, or have their own affinity.
//!
//! - 15: Service sessionAffinity `ClientIP` together with persistence: the route is rejected if the Service's IP is
//!   used. Limpet's Envoys use endpoints' addresses, so both count: the client's address chooses where a session
//!   begins.
//! - 16: Strict sessions of a backend that is gone get 503 or the configured status, others a new backend.
//! - 17: If a selector changes, existing sessions SHOULD be retained. A pod that is not selected any more is no
//!   endpoint, as if it were gone.
//!
//! Check 20 (reused addresses) is in the tests of fences.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Release;
use limpet_e2e::{Answer, Visitor, poll};
use serde_json::{Value, json};

use super::dialect::lb_policy;
use super::site::{GatewaySite, V1, V2, rule, stated};

#[tokio::test]
async fn check_15_the_address_chooses_the_pod_of_a_session() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let services = site.services("check-15").await?;
    let services = services.each_ref().map(String::as_str);
    let affine = json!({"spec": {"sessionAffinity": "ClientIP"}});
    site.namespace.merge("v1/Service", services[0], &affine).await?;
    let policy = lb_policy("check-15", &services, &json!({"sessionName": "check-15"}));
    site.namespace.apply_object(&policy).await?;
    let rules = [rule("/check-15", &[(services[0], 1), (services[1], 1)])];
    site.route("check-15", &rules).await?;
    site.until_sessions("/check-15").await?;

    let accepted =
        |object: &Value| stated(object, "Accepted") == ("True/Accepted".into(), "The policy is accepted".into());
    site.namespace
        .until("the policy", "BackendLBPolicy", "check-15", accepted)
        .await?;
    // All clients have one address, and either Envoy answers: one pod of the first Service has them all.
    let mut seen = BTreeMap::<String, usize>::new();
    for _ in 0..60 {
        let mut visitor = site.visitor();
        let first = visitor.get("/check-15").await?;
        assert_eq!(visitor.get("/check-15").await?.backend(), first.backend());
        *seen
            .entry(first.backend().context("no backend")?.to_owned())
            .or_default() += 1;
    }
    let of = |pods: [&str; 2]| pods.iter().filter(|pod| seen.contains_key(**pod)).count();
    assert_eq!((of(V1), of(V2)), (1, 2), "{seen:?}");
    Ok(())
}

async fn on(site: &GatewaySite, path: &str, pod: &str) -> Result<Visitor> {
    poll::until("a session at the pod", async || {
        let mut visitor = site.visitor();
        let answer = visitor.get(path).await.ok()?;
        (answer.backend() == Some(pod)).then_some(visitor)
    })
    .await
}

#[tokio::test]
async fn check_16_a_draining_backend_keeps_its_sessions() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let namespace = &site.namespace;
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
        site.annotated_route(&format!("check-16-{kind}"), &rules, annotations)
            .await?;
    }
    let mut sessions = Vec::new();
    for (kind, _) in &kinds {
        // Each rule of a policy has its own cookie. The oldest has the plain name.
        let own = |answer: &Answer| {
            let mut names = answer.set_cookies().into_iter().map(|cookie| cookie.name);
            names.any(|name| name.starts_with("check-16") && name.contains('~') == (*kind != "balanced"))
        };
        site.until("sessions of each rule", &path(kind), own).await?;
        sessions.push((on(site, &path(kind), "going").await?, path(kind)));
    }

    going.drain().await?;
    let elsewhere = |answer: &Answer| answer.backend().is_some_and(|backend| backend != "going");
    for (visitor, path) in &mut sessions {
        site.until("no new session to go there", path, elsewhere).await?;
        for _ in 0..10 {
            let answer = visitor.get(path).await?;
            assert_eq!(
                answer.backend(),
                Some("going"),
                "{path}: the draining pod lost its session"
            );
            assert!(answer.set_cookies().is_empty(), "{path}: {answer:?}");
        }
    }

    going.remove().await?;
    namespace
        .endpoints("check-16", |endpoints| endpoints.len() == 2)
        .await?;
    let expected = [200, 503, 410];
    for ((visitor, path), status) in sessions.iter_mut().zip(expected) {
        // An Envoy that does not know yet fails to connect: status 503, no token.
        let name = *visitor.cookie_names().first().context("no cookie")?;
        let pair = format!("{name}={}", visitor.cookie(name).unwrap_or_default());
        let request = || site.get(path).cookie(&pair);
        let settled =
            |answer: &Answer| answer.status == status && answer.set_cookies().len() == usize::from(status == 200);
        site.until_asked("the session to end as configured", request, settled)
            .await?;
    }
    let (visitor, path) = &mut sessions[0];
    let moved = visitor.get(path).await?;
    assert_eq!(moved.set_cookies().len(), 1, "not exactly one new token");
    for _ in 0..10 {
        let answer = visitor.get(path).await?;
        assert_eq!(answer.backend(), moved.backend(), "the session left its new pod");
        assert!(answer.set_cookies().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn check_17_a_changed_selector_keeps_sessions_of_selected_pods() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let namespace = &site.namespace;
    namespace.service("check-17", &[("app", "check-17")]).await?;
    let _pods = [
        namespace.pod("gold", &[("app", "check-17"), ("tier", "gold")]).await?,
        namespace
            .pod("plain", &[("app", "check-17"), ("tier", "plain")])
            .await?,
    ];
    let policy = lb_policy("check-17", &["check-17"], &json!({"sessionName": "check-17"}));
    namespace.apply_object(&policy).await?;
    site.route("check-17", &[rule("/check-17", &[("check-17", 1)])]).await?;
    site.until_sessions("/check-17").await?;
    let mut kept = on(site, "/check-17", "gold").await?;
    let mut lost = on(site, "/check-17", "plain").await?;

    // The selector matches neither pod any more.
    let _new = namespace.pod("silver", &[("app", "other"), ("tier", "gold")]).await?;
    let selector = json!({"spec": {"selector": {"app": null, "tier": "gold"}}});
    namespace.merge("v1/Service", "check-17", &selector).await?;
    let selected = |answer: &Answer| answer.backend().is_some_and(|backend| backend != "plain");
    site.until("new sessions to go to selected pods only", "/check-17", selected)
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
