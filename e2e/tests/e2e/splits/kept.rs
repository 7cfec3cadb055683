use anyhow::{Result, ensure};
use limpet_e2e::{Carrier, Crowd};

use super::site::{Session, SplitSite, policies, rules, service, split, visited};

#[tokio::test]
async fn all_requests_of_a_session_stay_at_weight_zero() -> Result<()> {
    for strict in [false, true] {
        let weights = |v1, v2| rules(strict, &[("shop-v1", v1), ("shop-v2", v2)]);
        let mut site = SplitSite::start(split(&weights(100, 0), &policies(strict))?).await?;
        let mut sessions = Vec::new();
        for carrier in Carrier::ALL {
            sessions.push(Session::begin(&site.envoy, carrier).await?);
        }
        let newcomers = |answer: &_| service(answer) == Some("shop-v2");
        site.change(&weights(0, 100), "new clients go to shop-v2", newcomers)
            .await?;
        for mut session in sessions {
            assert!(session.backend.starts_with("shop-v1/"));
            session.stays(&site.envoy, 50).await?;
            let counter = |name| format!("{}.{name}", session.carrier.name());
            assert_eq!(site.envoy.metric(&counter("steered")).await?, 50);
            assert_eq!(site.envoy.metric(&counter("refused.unknown_destination")).await?, 0);
        }
    }
    Ok(())
}

#[tokio::test]
async fn weights_that_change_under_load_move_no_session() -> Result<()> {
    let weights = |v1, v2, v3| rules(false, &[("shop-v1", v1), ("shop-v2", v2), ("shop-v3", v3)]);
    let mut site = SplitSite::start(split(&weights(40, 30, 30), &policies(false))?).await?;
    let crowd = Crowd::gather(24, &Carrier::ALL, &[site.envoy.address()]).await?;
    for (only, weights) in [
        ("shop-v2", weights(0, 100, 0)),
        ("shop-v3", weights(0, 0, 1)),
        ("shop-v1", weights(1000, 0, 0)),
    ] {
        let newcomers = |answer: &_| service(answer) == Some(only);
        site.change(&weights, &format!("new clients go to {only}"), newcomers)
            .await?;
        crowd.rounds(2).await?;
    }
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()?;
    for service in super::site::SERVICES {
        let any = journeys
            .0
            .iter()
            .any(|journey| visited(&journey.visits[0]) == Some(service));
        ensure!(any, "no session was at {service}");
    }
    Ok(())
}

/// The reason for routes in front of the weighted one.
#[tokio::test]
async fn without_the_clusters_routes_sessions_move() -> Result<()> {
    let weights = rules(false, &[("shop-v1", 50), ("shop-v2", 50)]);
    let without = |rule: &super::rule::Rule| rule.by_routes().pop();
    let config = split(&weights, &policies(false))?.routes(weights.iter().map(without).collect());
    let site = SplitSite::start(config).await?;
    let mut session = Session::begin(&site.envoy, Carrier::Cookie).await?;
    let mut moved = 0;
    for _ in 0..60 {
        moved += usize::from(session.carrier.token(&session.go_on(&site.envoy).await?).is_some());
    }
    assert!(moved > 0);
    Ok(())
}
