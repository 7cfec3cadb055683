//! A gateway of Istio's, whose agent fetches the filter from a registry.

use anyhow::{Result, ensure};
use limpet_e2e::poll;
use serde_json::json;

use crate::site::{COOKIE, ROLLOUT, Site};

const PLUGIN: &str = "extensions.istio.io/v1alpha1/WasmPlugin";

#[tokio::test]
async fn sessions_hold_with_the_filter_of_a_registry() -> Result<()> {
    let site = Site::start("fetched", &json!({})).await?;
    site.sessions().await?;
    site.check_sessions_hold().await?;
    // The agent keeps the filter in its own folder.
    let dump = site.admin("config_dump")?;
    ensure!(dump.contains("\"filename\": \"/var/lib/istio/data/"), "{dump}");
    site.end().await
}

#[tokio::test]
async fn requests_pass_while_the_registry_is_away() -> Result<()> {
    let site = Site::start("registry", &json!({})).await?;
    site.sessions().await?;
    site.mesh.registry.stop();
    let away = without_registry(&site).await;
    site.mesh.registry.launch().await?;
    away?;

    // The agent tries again when the plugin is written.
    let change = json!({"metadata": {"annotations": {"example.com/again": "1"}}});
    site.client.merge(PLUGIN, "limpet-web", &change).await?;
    site.until_sessions().await?;
    site.check_sessions_hold().await?;
    site.end().await
}

/// A gateway with the filter, and then one that starts.
async fn without_registry(site: &Site) -> Result<()> {
    site.check_sessions_hold().await?;
    site.restart_gateway().await?;
    let failed = async || {
        site.agent_log()
            .ok()?
            .contains("cannot fetch Wasm module")
            .then_some(())
    };
    poll::until_within(ROLLOUT, "the agent to fail", failed).await?;
    for _ in 0..20 {
        let mut visitor = site.visitor();
        site.visit(&mut visitor).await?;
        ensure!(visitor.cookie(COOKIE).is_none(), "a session without the filter");
    }
    Ok(())
}
