//! Carriers and beginnings of sessions by annotations.

use anyhow::{Result, ensure};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::ControlledSite;
use crate::elsewhere::{Front, by_address, by_login, by_query};

async fn start(prefix: &str, annotations: &Value) -> Result<ControlledSite> {
    let controlled = ControlledSite::start(prefix).await?;
    let change = json!({"metadata": {"annotations": annotations}});
    let namespace = &controlled.site.namespace;
    namespace.merge("XBackendTrafficPolicy", "shop", &change).await?;
    Ok(controlled)
}

impl ControlledSite {
    fn front(&self) -> Front {
        Front(self.site.address())
    }

    /// The clients' pods after Envoy has been replaced, which has no table then.
    async fn replaced(&mut self) -> Result<Vec<String>> {
        self.envoy = self.site.envoy().await?;
        self.front().until_known(self.envoy.admin()).await?;
        self.front().pods().await
    }
}

#[tokio::test]
async fn an_address_holds_its_session() -> Result<()> {
    let mut controlled = start("source-by-controller", &by_address()).await?;
    controlled.front().until_known(controlled.envoy.admin()).await?;
    let message = controlled.until_programmed("True/PartiallyProgrammed").await?;
    let hash = "a BackendTrafficPolicy with consistentHash: {type: SourceIP} is there for the route";
    ensure!(message.contains(hash), "{message}");
    let first = controlled.front().pods().await?;
    let anew = controlled.replaced().await?;
    ensure!(anew != first, "two Envoys choose alike without a hash");

    // Envoy Gateway follows one such policy for a route: the one already there.
    let balancer = json!({"type": "ConsistentHash", "consistentHash": {"type": "SourceIP"}});
    let change = json!({"spec": {"loadBalancer": balancer}});
    let namespace = &controlled.site.namespace;
    namespace.merge("BackendTrafficPolicy", "shop-retries", &change).await?;
    let has_hash = async || {
        let dump = controlled.envoy.admin().text("/config_dump").await.ok()?;
        dump.contains("source_ip").then_some(())
    };
    poll::until("Envoy to hash addresses", has_hash).await?;
    assert_eq!(
        controlled.front().pods().await?,
        anew,
        "clients with an entry have moved"
    );
    let hashed = controlled.replaced().await?;
    assert_eq!(controlled.replaced().await?, hashed, "two Envoys do not choose alike");
    Ok(())
}

#[tokio::test]
async fn a_query_holds_its_session() -> Result<()> {
    let controlled = start("query-by-controller", &by_query()).await?;
    let front = controlled.front();
    front.until_told().await?;
    controlled.until_programmed("True/Programmed").await?;
    let _canary = crate::splits::canary(&controlled.site).await?;
    let policy = json!({"spec": {"targetRefs": [
        {"group": "", "kind": "Service", "name": "shop"},
        {"group": "", "kind": "Service", "name": "canary"},
    ]}});
    let namespace = &controlled.site.namespace;
    namespace.merge("XBackendTrafficPolicy", "shop", &policy).await?;
    crate::splits::split(&controlled.site, [50, 50]).await?;
    let sessions = front.sessions_at(&["a", "b", "canary"]).await?;
    crate::splits::split(&controlled.site, [1, 99]).await?;
    for session in &sessions {
        session.holds().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_login_begins_a_session_in_any_carrier_and_a_logout_ends_it() -> Result<()> {
    let controlled = start("login-by-controller", &by_login()).await?;
    controlled.front().check_login().await?;
    controlled.until_programmed("True/Programmed").await.map(drop)
}
