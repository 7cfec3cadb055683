//! A service leaves the split: its route and its entry are removed.

use anyhow::{Result, ensure};
use limpet_e2e::{Carrier, Crowd};

use super::site::{Session, SplitSite, policies, rules, service, split, visited};

/// Each gets a new token, and sessions at other services do not change.
#[tokio::test]
async fn sessions_of_a_removed_service_end_without_an_error() -> Result<()> {
    for strict in [false, true] {
        let all = rules(strict, &[("shop-v1", 50), ("shop-v2", 50)]);
        let mut site = SplitSite::start(split(&all, &policies(strict))?).await?;
        let crowd = Crowd::gather(24, &Carrier::ALL, &[site.envoy.address()]).await?;
        let left = rules(strict, &[("shop-v2", 50)]);
        let newcomers = |answer: &_| service(answer) == Some("shop-v2");
        site.change(&left, "new clients go to shop-v2", newcomers).await?;
        crowd.rounds(3).await?;
        let journeys = crowd.leave().await;
        journeys.none_failed()?;
        let mut ended = 0;
        for journey in &journeys.0 {
            let began_there = visited(&journey.visits[0]) == Some("shop-v1");
            let tokens = journey.tokens();
            ensure!(tokens.len() == 1 + usize::from(began_there), "{strict}: {journey:#?}");
            ensure!(
                journey.moves().len() == usize::from(began_there),
                "{strict}: {journey:#?}"
            );
            ensure!(
                journey.visits.last().and_then(visited) == Some("shop-v2"),
                "{strict}: {journey:#?}"
            );
            ended += u64::from(began_there);
        }
        ensure!(0 < ended && ended < 24, "all sessions were at one service");
        let mut refused = 0;
        for carrier in Carrier::ALL {
            let counter = format!("{}.refused.unknown_destination", carrier.name());
            refused += site.envoy.metric(&counter).await?;
        }
        assert_eq!(refused, ended);
    }
    Ok(())
}

/// Its tokens are good again as soon as its route exists.
#[tokio::test]
async fn a_service_that_comes_back_has_its_sessions_again() -> Result<()> {
    let weights = |v1, v2| rules(true, &[("shop-v1", v1), ("shop-v2", v2)]);
    let mut site = SplitSite::start(split(&weights(100, 0), &policies(true))?).await?;
    let mut session = Session::begin(&site.envoy, Carrier::Header).await?;
    let token = session.token.clone();
    let gone = rules(true, &[("shop-v2", 1)]);
    let newcomers = |answer: &_| service(answer) == Some("shop-v2");
    site.change(&gone, "new clients go to shop-v2", newcomers).await?;
    let answer = session.go_on(&site.envoy).await?;
    assert_eq!((answer.status, service(&answer)), (200, Some("shop-v2")));
    let newcomers = |answer: &_| service(answer) == Some("shop-v1");
    site.change(&weights(1, 0), "new clients go to shop-v1", newcomers)
        .await?;
    session.token = token;
    session.stays(&site.envoy, 10).await
}
