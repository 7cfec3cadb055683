use anyhow::Result;
use serde_json::{Value, json};

use super::{DEPLOYMENT, SERVICE, Site};
use crate::failures::rights::without;
use crate::kept::until_event;

#[tokio::test]
async fn somebody_elses_object_of_the_name_is_left_alone() -> Result<()> {
    let mut site = Site::prepare("taken", json!({})).await?;
    let name = site.envoys("web");
    site.namespace.service(&name, &[("app", "theirs")]).await?;
    site.gateway("web", &json!({})).await?;
    site.launch().await?;
    let message = site
        .until_condition("web", "Programmed", "False/EnvoysNotWritten")
        .await?;
    let words = format!("expected no other Service {}/{name}", site.namespace.name());
    assert!(message.contains(&words), "{message}");
    site.until("the rest", DEPLOYMENT, "web", |_| true).await?;
    let theirs = site.namespace.get(SERVICE, &name).await?;
    assert_eq!(theirs["spec"]["selector"], json!({"app": "theirs"}));
    site.namespace.delete("Gateway", "web").await?;
    site.namespace.until_gone(DEPLOYMENT, &name).await?;
    assert!(site.namespace.find(SERVICE, &name).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_missing_right_is_told_by_name_and_in_an_event() -> Result<()> {
    let mut site = Site::prepare("no-right", json!({})).await?;
    site.gateway("web", &json!({})).await?;
    let bound = site.namespace.cluster_role("limpet-envoys");
    site.namespace.delete("RoleBinding", &bound).await?;
    site.launch().await?;
    let message = site
        .until_condition("web", "Programmed", "False/EnvoysNotWritten")
        .await?;
    assert!(message.contains("cannot list resource"), "{message}");
    let told = async || {
        let events = site.namespace.list("events.k8s.io/v1/Event", "").await.ok()?;
        events.into_iter().find(|event| event["reason"] == "EnvoysNotWritten")
    };
    let event = limpet_e2e::poll::until("an Event", told).await?;
    assert_eq!(event["regarding"]["name"], "web");
    site.namespace.bind("limpet-envoys").await?;
    site.until_all_there("web").await?;
    site.until_condition("web", "Programmed", "False/AddressNotAssigned")
        .await?;
    let fine = |object: &Value| object["spec"]["ports"][0]["port"] == 8080;
    site.until("it", SERVICE, "web", fine).await?;
    Ok(())
}

#[tokio::test]
async fn what_may_not_be_deleted_is_an_event_and_the_rest_goes_on() -> Result<()> {
    let site = Site::start("no-deletion", json!({})).await?;
    for gateway in ["web", "shop"] {
        site.gateway(gateway, &json!({})).await?;
        site.until_all_there(gateway).await?;
    }
    let role = site.namespace.cluster_role("limpet-envoys");
    let rules = site.namespace.get("ClusterRole", &role).await?["rules"].take();
    let forbidden = ["deployments"];
    without(
        &site.namespace,
        "ClusterRole limpet-envoys",
        &rules,
        "delete",
        &forbidden,
    )
    .await?;
    site.namespace.delete("Gateway", "web").await?;

    let pod = format!("controller-{}", site.controller.http().ip());
    let name = site.envoys("web");
    let words = format!(
        "Deployment {}/{name} is not wanted any more and cannot be deleted",
        site.namespace.name()
    );
    let note = until_event(&site.namespace, "Pod", &pod, "DeleteRefused", &words).await?;
    assert!(note.contains("cannot delete resource \"deployments\""), "{note}");
    // Its other objects are deleted, and other Gateways' are written.
    site.namespace.until_gone(SERVICE, &name).await?;
    site.gateway("late", &json!({})).await?;
    site.until_all_there("late").await?;

    site.namespace
        .merge("ClusterRole", &role, &json!({"rules": rules}))
        .await?;
    site.namespace.until_gone(DEPLOYMENT, &name).await
}
