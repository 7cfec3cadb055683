//! A service leaves the split: its route and its entry go.

use anyhow::{Result, ensure};
use limpet_e2e::{Carrier, Crowd};

use super::shop::{Session, Shop, policies, rules, service, split, visited};

/// The sessions on it end: each gets a new token, nobody gets an error, and those on other services notice nothing.
#[tokio::test]
async fn its_sessions_end_without_an_error() -> Result<()> {
    for strict in [false, true] {
        let all = rules(strict, &[("shop-v1", 50), ("shop-v2", 50)]);
        let mut shop = Shop::start(split(&all, &policies(strict))?).await?;
        let crowd = Crowd::gather(24, &Carrier::ALL, &[shop.envoy.address()]).await?;
        let left = rules(strict, &[("shop-v2", 50)]);
        let newcomers = |answer: &_| service(answer) == Some("shop-v2");
        shop.change(&left, "newcomers go to shop-v2", newcomers).await?;
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
        ensure!(0 < ended && ended < 24, "sessions on one service only");
        let mut refused = 0;
        for carrier in Carrier::ALL {
            let counter = format!("{}.refused.unknown_destination", carrier.name());
            refused += shop.envoy.metric(&counter).await?;
        }
        assert_eq!(refused, ended);
    }
    Ok(())
}

/// The other way round, for a service that is to come back: its token is as good as ever when its route is there again.
#[tokio::test]
async fn a_service_that_comes_back_has_its_sessions_again() -> Result<()> {
    let weights = |v1, v2| rules(true, &[("shop-v1", v1), ("shop-v2", v2)]);
    let mut shop = Shop::start(split(&weights(100, 0), &policies(true))?).await?;
    let mut session = Session::begin(&shop.envoy, Carrier::Header).await?;
    let token = session.token.clone();
    let gone = rules(true, &[("shop-v2", 1)]);
    let newcomers = |answer: &_| service(answer) == Some("shop-v2");
    shop.change(&gone, "newcomers go to shop-v2", newcomers).await?;
    let answer = session.go_on(&shop.envoy).await?;
    assert_eq!((answer.status, service(&answer)), (200, Some("shop-v2")));
    let newcomers = |answer: &_| service(answer) == Some("shop-v1");
    shop.change(&weights(1, 0), "newcomers go to shop-v1", newcomers)
        .await?;
    session.token = token;
    session.stays(&shop.envoy, 10).await
}
