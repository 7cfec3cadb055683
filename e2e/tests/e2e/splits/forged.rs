use std::collections::BTreeSet;

use anyhow::Result;
use limpet_core::token::DestinationId;
use limpet_e2e::{Carrier, Config};

use super::rule::{Rule, by_specifier};
use super::site::{SERVICES, Session, SplitSite, policies, service, split};

/// shop-v2 and shop-v3 get no new sessions.
fn config() -> Result<Config> {
    let rule = Rule::new("/", "cookie/shop")
        .to("shop-v1", 1)
        .to("shop-v2", 0)
        .to("shop-v3", 0);
    split(&[rule], &policies(false))
}

/// The services that answer forged requests, without a session and with this one.
async fn reached(site: &SplitSite, session: Option<&Session>) -> Result<BTreeSet<String>> {
    let mut reached = BTreeSet::new();
    for forged in SERVICES {
        let hash = DestinationId::of_cluster(forged.as_bytes()).to_string();
        for http2 in [false, true] {
            let request = || {
                let request = site.envoy.get("/").header("X-Limpet-Destination", &hash);
                if http2 { request.http2() } else { request }
            };
            let mut requests = vec![request()];
            requests.extend(session.map(|session| session.carrier.bring(&session.token, request())));
            for request in requests {
                let answer = request.send().await?;
                assert_eq!(answer.seen()?.internal_headers(), Vec::<&str>::new());
                reached.insert(service(&answer).unwrap_or("none").to_owned());
            }
        }
    }
    Ok(reached)
}

#[tokio::test]
async fn forged_headers_reach_nothing_with_the_filter() -> Result<()> {
    let site = SplitSite::start(config()?).await?;
    let mut session = Session::begin(&site.envoy, Carrier::Cookie).await?;
    assert_eq!(reached(&site, Some(&session)).await?, ["shop-v1".to_owned()].into());
    session.stays(&site.envoy, 3).await
}

#[tokio::test]
async fn forged_headers_reach_nothing_without_the_filter() -> Result<()> {
    let site = SplitSite::start(config()?.without_limpet()).await?;
    assert_eq!(reached(&site, None).await?, ["shop-v1".to_owned()].into());
    Ok(())
}

/// Shows that the two tests above can fail.
#[tokio::test]
async fn without_the_early_removal_forged_headers_steer() -> Result<()> {
    // A specifier ignores the header.
    let steered = if by_specifier() { &SERVICES[..1] } else { &SERVICES };
    let steered: BTreeSet<String> = steered.iter().map(|&service| service.to_owned()).collect();
    for present in [true, false] {
        let early = serde_json::json!({"early_header_mutation_extensions": []});
        let config = config()?.connection_manager(&early);
        let config = if present { config } else { config.without_limpet() };
        let site = SplitSite::start(config).await?;
        assert_eq!(reached(&site, None).await?, steered, "{present}");
    }
    Ok(())
}
