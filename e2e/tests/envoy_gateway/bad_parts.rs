//! Missing or bad modules, wasm files and configurations.

use anyhow::Result;
use limpet_e2e::{Build, poll, tools};
use serde_json::json;

use crate::site::{EnvoyGatewaySite, MODULE};

/// It does not serve without sessions.
#[tokio::test]
async fn an_envoy_without_the_module_does_not_listen() -> Result<()> {
    let site = EnvoyGatewaySite::prepare("no-module", Build::Module).await?;
    site.namespace.apply(&site.manifest("module.yaml")?).await?;
    let envoy = site
        .gateway
        .envoy(&site.namespace, "web", &[(MODULE, tools::wasm()?)])
        .await?;
    envoy
        .admin()
        .until_stat("listener_manager.lds.update_rejected", 1)
        .await?;
    assert!(site.get("/").send().await.is_err(), "it listens");
    assert!(
        envoy.log()?.contains("Failed to load dynamic module"),
        "{}",
        envoy.log()?
    );
    // Envoy Gateway does not notice: its policy is accepted.
    site.until_policy("EnvoyExtensionPolicy", "shop-session", "Accepted", "True/Accepted")
        .await?;
    Ok(())
}

/// A mistake in the filter's configuration: the former one stays in effect.
async fn a_bad_configuration_changes_nothing(build: Build) -> Result<()> {
    let (site, envoy) = EnvoyGatewaySite::start("bad-config", build).await?;
    let mut visitor = site.session_on("a").await?;
    let rejected = envoy.admin().stat("listener_manager.lds.update_rejected").await?;
    let policy = site.namespace.get("EnvoyExtensionPolicy", "shop-session").await?;
    let field = match build {
        Build::Wasm => "wasm",
        Build::Module => "dynamicModule",
    };
    let mut entry = policy["spec"][field][0].clone();
    entry["config"]["policies"]["shop"]["cookie"]["nmae"] = json!("limpet-session");
    let change = json!({"spec": {field: [entry]}});
    site.namespace
        .merge("EnvoyExtensionPolicy", "shop-session", &change)
        .await?;
    let refused = async || {
        let log = envoy.log().ok()?;
        (log.contains("configuration refused") && log.contains("nmae")).then_some(())
    };
    poll::until("the refusal in Envoy's log", refused).await?;
    let now = envoy.admin().stat("listener_manager.lds.update_rejected").await?;
    assert!(now > rejected);
    for _ in 0..10 {
        assert_eq!(visitor.get("/").await?.backend(), Some("a"));
    }
    // Envoy Gateway does not notice.
    site.until_policy("EnvoyExtensionPolicy", "shop-session", "Accepted", "True/Accepted")
        .await?;
    let mend = json!({"spec": {field: policy["spec"][field]}});
    site.namespace
        .merge("EnvoyExtensionPolicy", "shop-session", &mend)
        .await?;
    site.until_sessions().await?;
    for _ in 0..10 {
        assert_eq!(visitor.get("/").await?.backend(), Some("a"));
    }
    Ok(())
}

#[tokio::test]
async fn a_bad_configuration_has_no_effect_with_the_module() -> Result<()> {
    a_bad_configuration_changes_nothing(Build::Module).await
}

#[tokio::test]
async fn a_bad_configuration_has_no_effect_with_wasm() -> Result<()> {
    a_bad_configuration_changes_nothing(Build::Wasm).await
}

/// The route answers 500, and the object's status says why.
#[tokio::test]
async fn another_wasm_file_fails_closed() -> Result<()> {
    let (site, _envoy) = EnvoyGatewaySite::start("bad-wasm", Build::Wasm).await?;
    let policy = site.namespace.get("EnvoyExtensionPolicy", "shop-session").await?;
    let mut entry = policy["spec"]["wasm"][0].clone();
    entry["code"]["http"]["sha256"] = json!("0".repeat(64));
    let change = json!({"spec": {"wasm": [entry]}});
    site.namespace
        .merge("EnvoyExtensionPolicy", "shop-session", &change)
        .await?;
    site.until_policy("EnvoyExtensionPolicy", "shop-session", "Accepted", "False/Invalid")
        .await?;
    site.until("500", |answer| answer.status == 500).await
}

/// A module that is not registered with the Gateway's Envoys.
#[tokio::test]
async fn an_unknown_module_is_refused() -> Result<()> {
    let (site, _envoy) = EnvoyGatewaySite::start("unknown", Build::Module).await?;
    let change = json!({"spec": {"dynamicModules": null}});
    site.namespace.merge("EnvoyProxy", "limpet", &change).await?;
    site.until_policy("EnvoyExtensionPolicy", "shop-session", "Accepted", "False/Invalid")
        .await?;
    site.until("500", |answer| answer.status == 500).await
}
