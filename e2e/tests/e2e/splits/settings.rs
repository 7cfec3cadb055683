//! Clusters whose names differ only behind a `#`: the same backends with other settings.

use anyhow::Result;
use limpet_e2e::{Backend, Carrier, Config, Envoy};
use serde_json::json;

use super::rule::{Rule, routes};
use super::site::{Session, policies, rules, service, split};

/// The clusters of shop-v1, before and after a change of its settings.
const BEFORE: &str = "shop-v1#before";
const AFTER: &str = "shop-v1#after";

fn with_clusters(config: Config, v1: &[Backend], v2: &[Backend]) -> Config {
    let config = config.backends_of("shop-v2", v2);
    let config = config.another_cluster(BEFORE, v1).another_cluster(AFTER, v1);
    config.edit(|bootstrap| {
        let clusters = bootstrap["static_resources"]["clusters"].as_array_mut();
        if let Some(after) = clusters.and_then(|clusters| clusters.last_mut()) {
            after["lb_policy"] = json!("RING_HASH");
        }
    })
}

fn backends(service: &str) -> Result<[Backend; 2]> {
    Ok([
        Backend::start(&format!("{service}/a"))?,
        Backend::start(&format!("{service}/b"))?,
    ])
}

#[tokio::test]
async fn a_session_outlives_other_settings_of_its_cluster() -> Result<()> {
    let (v1, v2) = (backends("shop-v1")?, backends("shop-v2")?);
    for strict in [false, true] {
        let config = split(&rules(strict, &[(BEFORE, 1), ("shop-v2", 0)]), &policies(strict))?;
        let mut envoy = Envoy::serve(with_clusters(config, &v1, &v2)).await?;
        let mut sessions = Vec::new();
        for carrier in Carrier::ALL {
            sessions.push(Session::begin(&envoy, carrier).await?);
        }
        let changed = rules(strict, &[(AFTER, 0), ("shop-v2", 1)]);
        envoy.update(|config| config.routes(routes(&changed)))?;
        let is_newcomer = |answer: &_| service(answer) == Some("shop-v2");
        envoy
            .until_every_worker("new clients go to shop-v2", is_newcomer)
            .await?;
        for mut session in sessions {
            assert!(session.backend.starts_with("shop-v1/"), "{session:?}");
            session.stays(&envoy, 20).await?;
            let counter = |name| format!("{}.{name}", session.carrier.name());
            assert_eq!(envoy.metric(&counter("steered")).await?, 20);
            assert_eq!(envoy.metric(&counter("refused.unknown_destination")).await?, 0);
        }
    }
    Ok(())
}

#[tokio::test]
async fn routes_with_other_settings_share_their_sessions() -> Result<()> {
    let (v1, v2) = (backends("shop-v1")?, backends("shop-v2")?);
    for strict in [false, true] {
        let rule = |prefix, cluster| Rule::new(prefix, "cookie/shop").strict(strict).to(cluster, 1);
        let rules = [rule("/cart", BEFORE), rule("/", AFTER)].map(|rule| rule.to("shop-v2", 0));
        let config = split(&rules, &policies(strict))?;
        let envoy = Envoy::serve(with_clusters(config, &v1, &v2)).await?;
        let session = Session::begin(&envoy, Carrier::Cookie).await?;
        for path in ["/cart", "/", "/cart", "/"].repeat(5) {
            let request = session.carrier.bring(&session.token, envoy.get(path));
            let answer = request.send().await?;
            assert_eq!(answer.backend(), Some(session.backend.as_str()), "{path} {session:?}");
            assert_eq!(session.carrier.token(&answer), None, "{path} {session:?}");
        }
    }
    Ok(())
}
