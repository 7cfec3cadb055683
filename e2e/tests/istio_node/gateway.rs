//! A gateway of Istio's, whose agent fetches the filter from a registry.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::site::Site;

#[tokio::test]
async fn sessions_hold_with_the_filter_of_a_registry() -> Result<()> {
    let site = Site::start("fetched", &json!({})).await?;
    site.sessions().await?;
    site.check_sessions_hold().await?;
    // The agent keeps what it has fetched in its own folder.
    let dump = site.admin("config_dump")?;
    ensure!(dump.contains("\"filename\": \"/var/lib/istio/data/"), "{dump}");
    site.end().await
}
