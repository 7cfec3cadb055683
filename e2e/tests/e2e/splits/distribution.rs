use anyhow::{Context, Result};
use limpet_e2e::{Carrier, Connection, Envoy};
use tokio::task::JoinSet;

use super::site::{SERVICES, SplitSite, policies, rules, service, split};
use super::statistics::{TOO_MUCH_FOR_THREE, chi_squared};

/// Sends first requests over four connections. Returns each service's number of answers.
async fn first_requests(envoy: &Envoy, count: usize) -> Result<[u32; 3]> {
    let mut clients = JoinSet::new();
    for client in 0..4 {
        let carrier = Carrier::ALL[client % 2];
        let requests: Vec<_> = (0..count / 4).map(|_| envoy.get(&carrier.path())).collect();
        let mut connection = Connection::open(envoy.address(), false).await?;
        clients.spawn(async move {
            let mut counts = [0; 3];
            for request in requests {
                let answer = connection.send(request).await?;
                assert!(carrier.token(&answer).is_some(), "the answer has no token");
                let at = SERVICES.iter().position(|name| service(&answer) == Some(name));
                counts[at.context("no service")?] += 1;
            }
            anyhow::Ok(counts)
        });
    }
    let mut counts = [0; 3];
    while let Some(own) = clients.join_next().await {
        for (count, own) in counts.iter_mut().zip(own??) {
            *count += own;
        }
    }
    Ok(counts)
}

#[tokio::test]
async fn two_thousand_first_requests_are_split_by_the_weights() -> Result<()> {
    let weights = [50, 30, 20];
    let named: Vec<_> = SERVICES.into_iter().zip(weights).collect();
    let site = SplitSite::start(split(&rules(false, &named), &policies(false))?).await?;
    let counts = first_requests(&site.envoy, 2000).await?;
    let found = chi_squared(&counts, &weights);
    assert!(found < TOO_MUCH_FOR_THREE, "{counts:?}: chi-squared is {found}");
    // The check sees a wrong split: other weights do not fit the counts.
    for wrong in [[60, 20, 20], [1, 1, 1], [40, 40, 20], [50, 20, 30]] {
        let found = chi_squared(&counts, &wrong);
        assert!(
            found > TOO_MUCH_FOR_THREE,
            "{counts:?} for {wrong:?}: chi-squared is {found}"
        );
    }
    Ok(())
}
