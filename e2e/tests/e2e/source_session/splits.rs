use limpet_e2e::{Envoy, poll};

use super::*;
use crate::splits::rule::Rule;
use crate::splits::site::{SplitSite, service, split};

async fn split_site(strict: bool, weights: [u32; 2]) -> Result<SplitSite> {
    let policies = json!({"web": {"source": {}, "strict": strict}});
    SplitSite::start(split(&[rule(strict, weights)], &policies)?).await
}

fn rule(strict: bool, [v1, v2]: [u32; 2]) -> Rule {
    Rule::new("/", "web/shop")
        .strict(strict)
        .to("shop-v1", v1)
        .to("shop-v2", v2)
}

async fn ask(envoy: &Envoy, number: u8) -> Result<Answer> {
    envoy.get("/").from(client(number)).send().await
}

#[tokio::test]
async fn a_client_stays_at_its_service_at_weight_zero() -> Result<()> {
    for strict in [false, true] {
        let mut site = split_site(strict, [100, 0]).await?;
        let first = ask(&site.envoy, 1).await?;
        assert_eq!(service(&first), Some("shop-v1"));
        let rules = [rule(strict, [0, 100])];
        // The harness asks from one address, which has a session already.
        site.change(&rules, "answers", |answer| answer.status == 200).await?;
        let mut strangers = 10..=250;
        poll::until("many new clients at the other service", async || {
            for number in strangers.by_ref().take(8) {
                let answer = ask(&site.envoy, number).await.ok()?;
                if service(&answer) != Some("shop-v2") {
                    return None;
                }
            }
            Some(())
        })
        .await?;
        for _ in 0..10 {
            assert_eq!(ask(&site.envoy, 1).await?.backend(), first.backend());
        }
        let other = ask(&site.envoy, 2).await?;
        assert_eq!(service(&other), Some("shop-v2"));
        assert_eq!(site.envoy.metric("web.refused.unknown_destination").await?, 0);
    }
    Ok(())
}
