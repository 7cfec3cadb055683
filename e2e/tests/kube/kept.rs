//! The controller's own objects are broken: an Event says so, and Envoys keep what they have.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
use limpet_e2e::{Visitor, poll};
use serde_json::{Value, json};

use crate::keyring::{KEK, KEYRING, KeyringSite};

const FENCES: &str = "limpet-fences";

/// Waits for a warning about a core object. Returns its note.
pub(crate) async fn until_event(
    namespace: &Namespace,
    kind: &str,
    name: &str,
    reason: &str,
    words: &str,
) -> Result<String> {
    let event = event(namespace, kind, name, reason, words).await?;
    assert_eq!(event["type"], "Warning");
    Ok(event["note"].as_str().context("no note")?.to_owned())
}

pub(crate) async fn event(namespace: &Namespace, kind: &str, name: &str, reason: &str, words: &str) -> Result<Value> {
    let mut seen = Vec::new();
    let told = async || {
        seen = namespace.list("events.k8s.io/v1/Event", "").await.ok()?;
        let found = seen.iter().find(|event| {
            let regarding = &event["regarding"];
            (&regarding["kind"], &regarding["name"], &event["reason"]) == (&json!(kind), &json!(name), &json!(reason))
                && event["note"].as_str().is_some_and(|note| note.contains(words))
        });
        found.cloned()
    };
    let event = poll::until(&format!("an event on the {kind} {name}"), told).await;
    let event = event.with_context(|| format!("{seen:#?}"))?;
    assert_eq!(event["regarding"]["namespace"], namespace.name());
    Ok(event)
}

/// New sessions begin, and this one continues.
async fn sessions_go_on(site: &KeyringSite, visitor: &mut Visitor, backend: &str) -> Result<()> {
    for _ in 0..4 {
        assert_eq!(visitor.get("/").await?.backend(), Some(backend));
        site.session().await?;
    }
    Ok(())
}

/// Waits until the controller says why it is not ready.
async fn until_waiting(controller: &Controller, words: &str) -> Result<()> {
    let mut last = None;
    let waiting = async || {
        let answer = controller.page("/readyz").await.ok()?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let says = answer.status == 503 && text.contains(words);
        last = Some(text);
        says.then_some(())
    };
    let waiting = poll::until("/readyz to say why", waiting).await;
    waiting.with_context(|| format!("it says {last:?}"))
}

#[tokio::test]
async fn a_bad_key_encryption_key_is_an_event_and_sessions_go_on() -> Result<()> {
    let mut site = KeyringSite::start_with("kek", "300ms", "1h").await?;
    let (mut visitor, backend) = site.session().await?;
    let before = site.reloads().await?;
    let good = site.namespace.get("v1/Secret", KEK).await?["data"]["LIMPET_KEK_1"].clone();
    let put = async |site: &KeyringSite, value: &Value| {
        let change = json!({"data": {"LIMPET_KEK_1": value}});
        site.namespace.merge("v1/Secret", KEK, &change).await.map(drop)
    };

    put(&site, &json!(STANDARD.encode("c2hvcnQ="))).await?;
    let words = "data[LIMPET_KEK_1]: expected 32 bytes in base64, as `limpet keys generate` prints them";
    let note = until_event(&site.namespace, "Secret", KEK, "Invalid", words).await?;
    assert!(!note.contains("c2hvcnQ"), "{note}");
    put(&site, &Value::Null).await?;
    until_event(&site.namespace, "Secret", KEK, "Invalid", "data: expected LIMPET_KEK_1").await?;
    sessions_go_on(&site, &mut visitor, &backend).await?;

    // A restarted controller has nothing to serve. Envoys keep their configuration.
    site.controller.kill();
    site.controller.launch()?;
    until_waiting(&site.controller, "the Secret limpet-key-encryption-key is broken").await?;
    sessions_go_on(&site, &mut visitor, &backend).await?;
    put(&site, &good).await?;
    site.controller.until_ready().await?;
    sessions_go_on(&site, &mut visitor, &backend).await?;
    assert_eq!(site.reloads().await?, before);
    Ok(())
}

#[tokio::test]
async fn unreadable_fences_are_an_event_and_the_last_good_ones_stay() -> Result<()> {
    let mut site = KeyringSite::start_with("unfenced", "1h", "1h").await?;
    let (mut visitor, backend) = site.session().await?;
    // An unused address, with a fence in an hour, which does not expire during the test.
    let address = std::net::SocketAddr::new(site.namespace.next_address()?, 8080);
    let later = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_secs()
        + 3600;
    let good =
        json!([{"namespace": site.namespace.name(), "address": address, "notBefore": later, "owner": "somebody"}])
            .to_string();
    let map = |text: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": FENCES},
            "data": {"fences.json": text},
        })
    };
    site.namespace.apply_object(&map(&good)).await?;
    let fence = address.to_string();
    let fenced = async || {
        site.envoy
            .admin()
            .text("/config_dump?resource=ecds_filters")
            .await
            .ok()?
            .contains(&fence)
            .then_some(())
    };
    poll::until("Envoy to have the fence", fenced).await?;
    let before = site.reloads().await?;

    let broken = good.replace("notBefore", "nowAndThen");
    site.namespace.apply_object(&map(&broken)).await?;
    let words = "data[fences.json]: [0].nowAndThen: unknown field";
    let note = until_event(&site.namespace, "ConfigMap", FENCES, "Invalid", words).await?;
    assert!(note.contains("the previous fences stay in use"), "{note}");
    sessions_go_on(&site, &mut visitor, &backend).await?;
    assert_eq!(site.controller.metric("limpet_fences").await?, "1");

    // A restarted controller does not know the fences, and removes them from no Envoy.
    site.controller.kill();
    site.controller.launch()?;
    until_waiting(&site.controller, words).await?;
    sessions_go_on(&site, &mut visitor, &backend).await?;
    let left = site.namespace.get("v1/ConfigMap", FENCES).await?;
    assert_eq!(
        left["data"]["fences.json"], broken,
        "the controller changed the broken fences"
    );
    assert!(
        site.envoy
            .admin()
            .text("/config_dump?resource=ecds_filters")
            .await?
            .contains(&fence)
    );
    site.namespace.apply_object(&map(&good)).await?;
    site.controller.until_ready().await?;
    sessions_go_on(&site, &mut visitor, &backend).await?;
    assert_eq!(site.reloads().await?, before);
    Ok(())
}

#[tokio::test]
async fn a_missing_right_is_an_event() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("denied").await?;
    namespace.gateway_class().await?;
    let mut controller = Controller::prepare(cluster.server(), &namespace, |config| {
        config["keyring"] = json!({});
    })
    .await?;
    let rules = namespace
        .get("rbac.authorization.k8s.io/v1/Role", "limpet-controller")
        .await?["rules"]
        .take();
    let rules = rules.as_array().context("no rules")?.iter();
    let of = |rule: &&Value, resource: &str| {
        rule["resources"]
            .as_array()
            .is_some_and(|all| all.contains(&json!(resource)))
    };
    let leases: Vec<_> = rules.filter(|rule| of(rule, "leases")).cloned().collect();
    let change = json!({"rules": leases});
    namespace
        .merge("rbac.authorization.k8s.io/v1/Role", "limpet-controller", &change)
        .await?;
    controller.launch()?;
    for (kind, name, resource) in [
        ("Secret", KEYRING, "secrets"),
        ("Secret", KEK, "secrets"),
        ("ConfigMap", FENCES, "configmaps"),
    ] {
        let words = format!("grant list and watch on the {kind}");
        let note = until_event(&namespace, kind, name, "ReadRefused", &words).await?;
        assert!(note.contains(&format!("cannot list resource \"{resource}\"")), "{note}");
    }
    until_waiting(
        &controller,
        "the Secret limpet-keyring was not read yet: grant list and watch on the Secret",
    )
    .await
}
