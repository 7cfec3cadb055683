//! Entries outlast a configuration with their policy unchanged, and a draining backend.

use super::*;

const CLIENTS: std::ops::RangeInclusive<u8> = 1..=9;

async fn backends(site: &Site) -> Result<Vec<String>> {
    let mut backends = Vec::new();
    for number in CLIENTS {
        backends.push(backend(site, number).await?);
    }
    Ok(backends)
}

#[tokio::test]
async fn nobody_moves_when_the_filters_configuration_changes() -> Result<()> {
    let config = |timeout: &str| {
        json!({
            "keys": [{"id": 1, "env": "LIMPET_KEY"}],
            "policies": {
                "web": {"source": {"timeout": "1h"}},
                "more": {"cookie": {"name": "more"}, "idleTimeout": timeout},
            },
            "default": {"policy": "web", "scope": "default"},
        })
    };
    let mut site = Site::start(Config::load("ecds.yaml")?.filter(&config("1h"))).await?;
    let before = backends(&site).await?;
    let reloads = "extension_config_discovery.http_filter.limpet.config_reload";
    for hours in 2..=6 {
        let count = site.envoy.stat(reloads).await?;
        site.envoy.update(|kept| kept.filter(&config(&format!("{hours}h"))))?;
        while site.envoy.stat(reloads).await? == count {
            assert_eq!(backends(&site).await?, before, "after {hours} updates");
        }
    }
    for _ in 0..4 {
        assert_eq!(backends(&site).await?, before);
    }
    assert_eq!(site.envoy.metric("web.issued").await?, 9);
    Ok(())
}

#[tokio::test]
async fn another_number_of_entries_is_another_table() -> Result<()> {
    let mut site = Site::start(Config::load("ecds.yaml")?.policy(&json!({"source": {"entries": 1000}}))).await?;
    backends(&site).await?;
    let reloads = Build::tested()?.counter("web.issued");
    assert_eq!(site.envoy.stat(&reloads).await?, 9);
    site.envoy
        .update(|config| config.policy(&json!({"source": {"entries": 100_000}})))?;
    limpet_e2e::poll::until("the other table", async || {
        backend(&site, 1).await.ok()?;
        (site.envoy.stat(&reloads).await.ok()? > 9).then_some(())
    })
    .await
}

#[tokio::test]
async fn a_draining_backend_keeps_its_clients_and_gets_no_others() -> Result<()> {
    let mut site = Site::start(Config::load("draining.yaml")?.policy(&json!({"source": {}}))).await?;
    let first = ask(&site, 1).await?;
    let own = backend_of(&first)?;
    let address = site.backend_of(&first)?.address();
    site.envoy.update(|config| config.health(address, "DRAINING"))?;
    site.envoy.until_stat("cluster.backends.membership_healthy", 2).await?;
    for number in 20..40 {
        assert_ne!(backend(&site, number).await?, own, "a new client");
        assert_eq!(backend(&site, 1).await?, own);
    }
    Ok(())
}
