//! Sessions as clients see them.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use limpet_e2e::protocols::{Echo, EchoClient, Note, Session};
use limpet_e2e::{Carrier, Crowd, Protocol, poll};
use serde_json::json;

use super::ControlledSite;
use crate::removal::traces;

/// The pods that are called over gRPC.
const CALLS: &[(&str, &str)] = &[("app", "calls")];

#[tokio::test]
async fn a_policy_becomes_a_session_that_outlives_the_controller() -> Result<()> {
    let mut controlled = ControlledSite::start("by-controller").await?;
    controlled.until_programmed("True/Programmed").await?;
    let mut visitor = controlled.site.visitor();
    let first = visitor.get("/").await?;
    assert!(first.set_cookie("limpet-session").is_some());
    for _ in 0..10 {
        let answer = visitor.get("/").await?;
        assert_eq!(answer.backend(), first.backend());
        assert!(answer.set_cookie("limpet-session").is_none());
    }
    let mut forger = controlled.site.session_on("a").await?;
    let token = forger.cookie("limpet-session").context("no token")?.to_owned();
    let (head, tail) = token.split_at(token.len() - 2);
    forger.keep(
        "limpet-session",
        &format!("{head}{}", if tail == "AA" { "BA" } else { "AA" }),
    );
    assert!(forger.get("/").await?.set_cookie("limpet-session").is_some());

    // Only Envoy Gateway may write the statuses of class, Gateway and route.
    let limpet = |status: &serde_json::Value| status.to_string().contains("limpet.dev");
    let route = controlled.site.namespace.get("HTTPRoute", "shop").await?;
    let gateway = controlled.site.namespace.get("Gateway", "web").await?;
    assert!(!limpet(&route["status"]), "{route}");
    assert!(!limpet(&gateway["status"]), "{gateway}");

    // A restarted controller writes nothing without a change.
    let written = controlled.written().await?;
    assert_eq!(written.len(), 2, "{written:?}");
    controlled.controller.kill();
    assert_eq!(visitor.get("/").await?.backend(), first.backend());
    let mut late = controlled.site.visitor();
    assert!(late.get("/").await?.set_cookie("limpet-session").is_some());
    controlled.controller.launch()?;
    controlled.controller.until_ready().await?;
    controlled
        .site
        .namespace
        .merge(
            "v1/Service",
            "shop",
            &json!({"metadata": {"labels": {"changed": "yes"}}}),
        )
        .await?;
    let builds = async || {
        let count: u64 = controlled
            .controller
            .metric("limpet_build_seconds_count")
            .await
            .ok()?
            .parse()
            .ok()?;
        (count >= 2).then_some(())
    };
    poll::until("another build", builds).await?;
    controlled.until_programmed("True/Programmed").await?;
    assert_eq!(controlled.written().await?, written);
    assert!(
        !controlled.controller.log()?.contains("written"),
        "{}",
        controlled.controller.log()?
    );
    assert_eq!(visitor.get("/").await?.backend(), first.backend());
    assert_eq!(late.get("/").await?.set_cookies().len(), 0);
    assert!(
        !controlled.controller.log()?.to_lowercase().contains("forbidden"),
        "{}",
        controlled.controller.log()?
    );
    Ok(())
}

#[tokio::test]
async fn a_rotation_under_load_loses_no_session() -> Result<()> {
    let controlled = ControlledSite::start("keys-by-controller").await?;
    let crowd = Crowd::gather(12, &[Carrier::Cookie], &[controlled.site.address()]).await?;
    let objects = async || -> Result<BTreeSet<String>> {
        let policies = controlled
            .site
            .namespace
            .list("EnvoyExtensionPolicy", "app.kubernetes.io/managed-by=limpet")
            .await?;
        let text = |policy: &serde_json::Value| {
            policy["spec"]["dynamicModule"][0]["config"]["wrappedKeys"]["text"].to_string()
        };
        Ok(policies.iter().map(text).collect())
    };
    let mut last = objects().await?;
    for _ in 0..4 {
        controlled.controller.keyring().rotate()?;
        let changed = poll::until("the keyring in the object", async || {
            let now = objects().await.ok()?;
            (now != last).then_some(now)
        })
        .await?;
        let text = changed.first().context("no keyring")?.trim_matches('"').to_owned();
        poll::until("the keyring in Envoy", async || {
            let dump = controlled
                .envoy
                .admin()
                .text("/config_dump?resource=dynamic_listeners")
                .await
                .ok()?;
            dump.contains(&text).then_some(())
        })
        .await?;
        crowd.rounds(4).await?;
        last = changed;
    }
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.all_stayed()?;
    for journey in &journeys.0 {
        ensure!(
            journey.tokens().len() == 2,
            "a session had {} tokens",
            journey.tokens().len()
        );
    }
    Ok(())
}

#[tokio::test]
async fn sessions_stay_at_a_draining_pod() -> Result<()> {
    let controlled = ControlledSite::start("drain-by-controller").await?;
    let patches = controlled
        .site
        .namespace
        .list("EnvoyPatchPolicy", "app.kubernetes.io/managed-by=limpet")
        .await?;
    let name = patches[0]["metadata"]["name"].as_str().context("no patch")?.to_owned();
    controlled
        .site
        .until_policy("EnvoyPatchPolicy", &name, "Programmed", "True/Programmed")
        .await?;
    let mut of_a = controlled.site.session_on("a").await?;
    controlled.site.pods[0].drain().await?;
    controlled
        .site
        .until("no new sessions at a", |answer| answer.backend() == Some("b"))
        .await?;
    for _ in 0..20 {
        assert_eq!(of_a.get("/").await?.backend(), Some("a"));
    }
    Ok(())
}

/// Envoy Gateway reads no sessions of its own in `GRPCRoute`s.
#[tokio::test]
async fn calls_of_a_session_reach_one_pod() -> Result<()> {
    let controlled = ControlledSite::start("grpc-by-controller").await?;
    let namespace = &controlled.site.namespace;
    namespace.service("calls", CALLS).await?;
    let echo: [Arc<dyn Protocol>; 1] = [Arc::new(Echo)];
    let mut pods = Vec::new();
    for name in ["c", "d", "e"] {
        pods.push(namespace.pod_speaking(name, CALLS, &echo).await?);
    }
    let route = "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls}
spec:
  parentRefs: [{name: web}]
  rules:
  - matches: [{method: {service: limpet.test.Echo}}]
    backendRefs: [{name: calls, port: 80}]
";
    namespace.apply(route).await?;
    // With two rules, the cookies' names would end in eight characters of their rules.
    let policy = json!({"spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "calls"}]}});
    namespace.merge("XBackendTrafficPolicy", "shop", &policy).await?;
    let say = async |session: &mut Session| {
        // Each call's own connection may reach another worker.
        let mut client = EchoClient::connect(controlled.site.address()).await?;
        let call = session.call(Note::new("hello"))?;
        session.taken(client.say(call).await?)
    };
    for _ in 0..10 {
        let mut last = None;
        let begun = poll::until("a call to begin a session", async || {
            let said = say(&mut Session::new(Carrier::Cookie)).await;
            last = said.as_ref().err().map(|error| format!("{error:#}"));
            said.ok()
        })
        .await;
        begun.with_context(|| format!("the last call: {last:?}"))?;
    }
    let mut session = Session::new(Carrier::Cookie);
    for _ in 0..=50 {
        let note = say(&mut session).await?;
        assert_eq!(note.backend, session.backend());
    }
    assert_eq!(session.continued, 50);
    Ok(())
}

#[tokio::test]
async fn a_weight_of_0_is_reported() -> Result<()> {
    let controlled = ControlledSite::start("split-by-controller").await?;
    let site = &controlled.site;
    let _canary = crate::splits::canary(site).await?;
    let policy = json!({"spec": {"targetRefs": [
        {"group": "", "kind": "Service", "name": "shop"},
        {"group": "", "kind": "Service", "name": "canary"},
    ]}});
    site.namespace.merge("XBackendTrafficPolicy", "shop", &policy).await?;
    crate::splits::split(site, [90, 10]).await?;
    let mut visitor = site.session_on("canary").await?;
    for _ in 0..20 {
        assert_eq!(visitor.get("/").await?.backend(), Some("canary"));
    }
    controlled.until_programmed("True/Programmed").await?;
    crate::splits::split(site, [100, 0]).await?;
    let message = controlled.until_programmed("True/PartiallyProgrammed").await?;
    assert!(message.contains("a weight of at least 1 for the Service"), "{message}");
    assert!(message.contains("spec.rules[0]: backendRefs"), "{message}");
    Ok(())
}

#[tokio::test]
async fn unused_objects_are_deleted() -> Result<()> {
    let controlled = ControlledSite::start("gone-by-controller").await?;
    let namespace = &controlled.site.namespace;
    // Others' objects: one for another route, and one that looks like the controller's.
    let own = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyExtensionPolicy
metadata: {name: limpet-own, labels: {app.kubernetes.io/managed-by: limpet}}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: other}]
  lua: [{type: Inline, inline: 'function envoy_on_request(handle) end'}]
";
    namespace.apply(own).await?;
    namespace.delete("XBackendTrafficPolicy", "shop").await?;
    let mut left = Vec::new();
    let gone = poll::until("no trace of sessions in Envoy", async || {
        let dump = controlled.envoy.admin().text("/config_dump?include_eds").await.ok()?;
        left = traces(&dump).ok()?;
        left.is_empty().then_some(())
    })
    .await;
    ensure!(gone.is_ok(), "not removed: {left:#?}");
    let left = controlled.written().await?;
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].contains("limpet-own"), "{left:?}");
    controlled
        .site
        .until("no more sessions", |answer| {
            answer.status == 200 && answer.set_cookies().is_empty()
        })
        .await
}
