//! The definition of `BackendTLSPolicy` comes, and changes its versions.

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{HOST, backends, grant, policy, trust, until_answered, visitor};
use crate::certificates::Authority;
use crate::site::site_objects;

fn definition(release: Release) -> Result<String> {
    let files = release.definitions()?;
    let file = files
        .iter()
        .find(|file| file.to_string_lossy().contains("backendtlspolicies"));
    Ok(std::fs::read_to_string(file.context("no definition")?)?)
}

#[tokio::test]
async fn definitions_that_change_keep_backends_on_tls() -> Result<()> {
    // A cluster of its own: at the end, no controller can read any version of its definition.
    let mut files = Release::V1_2_1.definitions()?;
    files.retain(|file| !file.to_string_lossy().contains("backendtlspolicies"));
    let cluster = Cluster::start(&files).await?;
    let namespace = cluster.namespace("tls-definitions").await?;
    let authority = Authority::new("backends")?;
    let pods = backends(&namespace, || authority.sign(HOST)).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    grant(&namespace).await?;
    trust(&namespace, &authority).await?;
    let mut controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    until_answered(&controller, 200).await?;

    cluster.define(&definition(Release::V1_2_1)?).await?;
    namespace.apply_object(&policy("v1alpha3", json!({}))).await?;
    let seen = || pods.iter().map(|(_, front)| front.seen());
    let reached = async || {
        visitor(&controller).get("/").await.ok()?;
        seen().any(|seen| !seen.tls.is_empty()).then_some(())
    };
    poll::until("TLS", reached).await?;
    let plain: usize = seen().map(|seen| seen.plain).sum();

    cluster.define(&definition(Release::V1_7_0)?).await?;
    let in_v1 = async || {
        let answer = visitor(&controller).get("/").await.ok()?;
        let log = controller.log().ok()?;
        (answer.status == 200
            && log.contains("gateway.networking.k8s.io/v1\"")
            && log
                .lines()
                .any(|line| line.contains("BackendTLSPolicy") && line.contains("k8s.io/v1\"")))
        .then_some(())
    };
    let in_v1 = poll::until("the other version", in_v1).await;
    in_v1.with_context(|| controller.log().unwrap_or_default())?;
    for _ in 0..20 {
        assert_eq!(visitor(&controller).get("/").await?.status, 200);
    }

    // The policies are still there, in an unreadable version.
    let mut newer: Value = serde_saphyr::from_str(&definition(Release::V1_7_0)?)?;
    let versions = newer["spec"]["versions"].as_array_mut().context("no versions")?;
    for version in &mut *versions {
        version["served"] = json!(false);
        version["storage"] = json!(false);
    }
    let mut v9 = versions[0].clone();
    v9["name"] = json!("v9");
    v9["served"] = json!(true);
    v9["storage"] = json!(true);
    versions.push(v9);
    cluster.define(&newer.to_string()).await?;
    let told = async || {
        controller
            .log()
            .ok()?
            .contains("served in no version that can be read")
            .then_some(())
    };
    let told = poll::until("the controller to tell", told).await;
    told.with_context(|| controller.log().unwrap_or_default())?;
    for _ in 0..20 {
        assert_eq!(visitor(&controller).get("/").await?.status, 200);
    }
    controller.kill();
    controller.launch()?;
    let waiting = async || {
        let ready = controller.page("/readyz").await.ok()?;
        let words = String::from_utf8_lossy(&ready.body).into_owned();
        (ready.status == 503 && words.contains("not read yet: BackendTLSPolicy")).then_some(())
    };
    let waiting = poll::until("the controller to wait", waiting).await;
    waiting.with_context(|| controller.log().unwrap_or_default())?;
    assert_eq!(visitor(&controller).get("/").await?.status, 200);
    let seen: usize = seen().map(|seen| seen.plain).sum();
    assert_eq!(seen, plain, "plain text after the policy");
    Ok(())
}
