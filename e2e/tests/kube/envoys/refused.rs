//! Objects that the controller may not write.

use anyhow::Result;
use limpet_e2e::kube::Controller;
use serde_json::{Value, json};

use super::{DEPLOYMENT, SERVICE, Site, gateway, namespace};

#[tokio::test]
async fn somebody_elses_object_of_the_name_is_left_alone() -> Result<()> {
    let (cluster, namespace) = namespace("taken").await?;
    let controller = Controller::prepare(cluster.server(), &namespace, |config| {
        config["envoy"]["managed"] = json!({});
    })
    .await?;
    let mut site = Site {
        cluster,
        namespace,
        controller,
    };
    let name = site.envoys("web");
    site.namespace.service(&name, &[("app", "theirs")]).await?;
    gateway(&site.namespace, "web", &json!({})).await?;
    site.controller.launch()?;
    site.controller.until_ready().await?;
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
    let (cluster, namespace) = namespace("no-right").await?;
    let controller = Controller::prepare(cluster.server(), &namespace, |config| {
        config["envoy"]["managed"] = json!({});
    })
    .await?;
    let mut site = Site {
        cluster,
        namespace,
        controller,
    };
    gateway(&site.namespace, "web", &json!({})).await?;
    let bound = site.namespace.cluster_role("limpet-envoys");
    site.namespace.delete("RoleBinding", &bound).await?;
    site.controller.launch()?;
    site.controller.until_ready().await?;
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
