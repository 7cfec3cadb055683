//! Carriers and beginnings of sessions by annotations.

use anyhow::{Result, ensure};
use limpet_e2e::poll;
use serde_json::{Value, json};

use crate::by_controller::ControlledSite;
use crate::elsewhere::{Front, by_address, by_login, by_query};
use crate::site::{IstioSite, names};

async fn start(prefix: &str, annotations: &Value) -> Result<ControlledSite> {
    let controlled = ControlledSite::without_sessions(prefix).await?;
    let policy = json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1",
        "kind": "XBackendTrafficPolicy",
        "metadata": {"name": "sticky", "annotations": annotations},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "shop"}],
            "sessionPersistence": {"sessionName": "limpet-session"},
        },
    });
    controlled.site.namespace.apply_object(&policy).await?;
    Ok(controlled)
}

fn front(site: &IstioSite) -> Front {
    Front(site.gateway.address())
}

/// The clients' pods after Envoy has been replaced, which has no table then.
async fn replaced(site: &mut IstioSite) -> Result<Vec<String>> {
    site.restart_envoy().await?;
    front(site).until_known(site.envoy.admin()).await?;
    front(site).pods().await
}

#[tokio::test]
async fn an_address_holds_its_session() -> Result<()> {
    let mut controlled = start("source", &by_address()).await?;
    let hash = "a DestinationRule with consistentHash: {useSourceIp: true}";
    controlled
        .programmed(|told| told.starts_with("True/PartiallyProgrammed") && told.contains(hash))
        .await?;
    let site = &mut controlled.site;
    front(site).until_known(site.envoy.admin()).await?;
    let first = front(site).pods().await?;
    let anew = replaced(site).await?;
    ensure!(anew != first, "two Envoys choose alike without a hash");

    let rule = json!({
        "apiVersion": "networking.istio.io/v1",
        "kind": "DestinationRule",
        "metadata": {"name": "shop"},
        "spec": {
            "host": format!("shop.{}.svc.cluster.local", site.namespace.name()),
            "trafficPolicy": {"loadBalancer": {"consistentHash": {"useSourceIp": true}}},
        },
    });
    site.namespace.apply_object(&rule).await?;
    let has_hash = async || {
        let dump = site.envoy.admin().text("/config_dump").await.ok()?;
        (dump.contains("RING_HASH") && dump.contains("hash_policy")).then_some(())
    };
    poll::until("Envoy to hash addresses", has_hash).await?;
    assert_eq!(front(site).pods().await?, anew, "clients with an entry have moved");
    let hashed = replaced(site).await?;
    assert_eq!(replaced(site).await?, hashed, "two Envoys do not choose alike");
    Ok(())
}

#[tokio::test]
async fn a_query_holds_its_session_at_weight_0_too() -> Result<()> {
    let controlled = start("query", &by_query()).await?;
    let site = &controlled.site;
    front(site).until_told().await?;
    controlled
        .programmed(|told| told.starts_with("True/Programmed"))
        .await?;
    for session in front(site).sessions_at(&["shop-0", "shop-1"]).await? {
        session.holds().await?;
    }

    site.weights(50, 50).await?;
    let pods = ["shop-0", "shop-1", "shop-canary-0", "shop-canary-1"];
    let sessions = front(site).sessions_at(&pods).await?;
    site.weights(100, 0).await?;
    let canary_is_out = async || (site.spread(20).await.ok()? == names(&["shop-0", "shop-1"])).then_some(());
    poll::until("new sessions to be at shop only", canary_is_out).await?;
    for session in &sessions {
        session.holds().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_login_begins_a_session_in_any_carrier_and_a_logout_ends_it() -> Result<()> {
    let controlled = start("login", &by_login()).await?;
    front(&controlled.site).check_login().await?;
    controlled.programmed(|told| told.starts_with("True/Programmed")).await
}
