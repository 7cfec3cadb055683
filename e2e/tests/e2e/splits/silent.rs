//! A service of a split that issues no tokens.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use limpet_e2e::{Carrier, Config};
use serde_json::json;

use super::site::{Session, SplitSite, policies, rules, service, split};

fn half(strict: bool) -> Result<Config> {
    let config = split(&rules(strict, &[("shop-v1", 50), ("shop-v2", 50)]), &policies(strict))?;
    Ok(config.edit(|bootstrap| {
        let metadata = json!({"filter_metadata": {"limpet": {"session": "@none"}}});
        bootstrap["static_resources"]["clusters"][1]["metadata"] = metadata;
    }))
}

#[tokio::test]
async fn a_client_of_a_silent_service_follows_the_weights() -> Result<()> {
    for strict in [false, true] {
        let site = SplitSite::start(half(strict)?).await?;
        for carrier in Carrier::ALL {
            let mut reached = BTreeSet::new();
            for _ in 0..40 {
                let answer = site.envoy.get(&carrier.path()).send().await?;
                let service = service(&answer).context("no backend answered")?;
                assert_eq!(carrier.token(&answer).is_some(), service == "shop-v1", "{answer:?}");
                reached.insert(answer.backend().map(str::to_owned));
            }
            assert_eq!(reached.len(), 4, "both backends of both services: {reached:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_session_at_the_other_service_stays_there() -> Result<()> {
    let site = SplitSite::start(half(false)?).await?;
    for carrier in Carrier::ALL {
        let begun = limpet_e2e::poll::until("a session at shop-v1", async || {
            Session::begin(&site.envoy, carrier).await.ok()
        });
        begun.await?.stays(&site.envoy, 20).await?;
        let issued = site.envoy.metric(&format!("{}.issued", carrier.name())).await?;
        assert_eq!(issued, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_silent_service_makes_no_entries() -> Result<()> {
    let rule = super::rule::Rule::new("/", "web/shop")
        .to("shop-v2", 100)
        .to("shop-v1", 0);
    let config = split(&[rule], &json!({"web": {"source": {}}}))?.edit(|bootstrap| {
        let metadata = json!({"filter_metadata": {"limpet": {"session": "@none"}}});
        bootstrap["static_resources"]["clusters"][1]["metadata"] = metadata;
    });
    let site = SplitSite::start(config).await?;
    for _ in 0..6 {
        let answer = site.envoy.get("/").send().await?;
        assert_eq!(service(&answer), Some("shop-v2"));
    }
    assert_eq!(site.envoy.metric("web.issued").await?, 0);
    assert_eq!(site.envoy.metric("web.no_token").await?, 6);
    Ok(())
}
