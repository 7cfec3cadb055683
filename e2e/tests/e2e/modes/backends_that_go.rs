use anyhow::{Context, Result};
use limpet_e2e::{Config, Site, poll};
use serde_json::json;

use super::*;

/// The new backend gets the application's value. Load is balanced until it sets a session itself.
#[tokio::test]
async fn a_session_moves_when_a_new_backend_sets_its_own() -> Result<()> {
    let mut site = Site::start(every_mode(&json!({}))?).await?;
    for mode in Mode::ALL {
        let mut client = Client::new(&site.envoy, mode);
        let first = client.begin("abc").await?;
        client.assert_holds(first.backend(), "abc").await?;
        site.stop_backend_of(&first).await?;

        let kept = client.kept()?.to_owned();
        let (name, value) = mode.seen(&kept, "abc");
        let mut reached = BTreeSet::new();
        for _ in 0..6 {
            let answer = client.get().await?;
            assert_eq!(answer.status, 200, "{mode:?}");
            assert_eq!(answer.seen()?.all(name), [&*value], "{mode:?}");
            assert_eq!(
                mode.set_by(&answer),
                None,
                "{mode:?}: a token that the application did not ask for"
            );
            reached.insert(answer.backend().context("no backend")?.to_owned());
        }
        assert_eq!(reached.len(), 2, "{mode:?}: not all remaining backends were reached");

        let moved = client.begin("def").await?;
        assert_ne!(moved.backend(), first.backend());
        assert_ne!(client.kept()?, kept);
        assert_eq!(site.envoy.metric(&format!("{}.reissued", mode.name())).await?, 1);
        site.backend_of(&first)?.restart()?;
        client.assert_holds(moved.backend(), "def").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_strict_session_fails_until_its_backend_is_back() -> Result<()> {
    let config = every_mode(&json!({"strict": true, "strictStatus": 410}))?
        .strict_routes()
        .health_checks();
    let site = Site::start(config).await?;
    let mut clients = Vec::new();
    for mode in Mode::ALL {
        let mut client = Client::new(&site.envoy, mode);
        poll::patiently("a session at backend a", async {
            while client.begin("abc").await?.backend() != Some("a") {
                client.kept = None;
            }
            Ok(())
        })
        .await?;
        client.assert_holds(Some("a"), "abc").await?;
        clients.push(client);
    }
    site.make_unhealthy(&["a"]).await?;
    for client in &mut clients {
        let kept = client.kept.clone();
        for _ in 0..3 {
            let refused = client.begin("of somebody else").await?;
            assert_eq!((refused.status, refused.backend()), (410, None), "{:?}", client.mode);
        }
        assert_eq!(client.kept, kept, "{:?}", client.mode);
        let mut anew = Client {
            kept: None,
            ..client.clone()
        };
        let begun = anew.begin("def").await?;
        anew.assert_holds(begun.backend(), "def").await?;
    }
    site.backends[0].set_healthy(true);
    site.envoy.until_stat("cluster.backends.membership_healthy", 3).await?;
    for client in &mut clients {
        poll::until("the session to continue", async || {
            client.get().await.ok().filter(|answer| answer.status == 200)
        })
        .await?;
        client.assert_holds(Some("a"), "abc").await?;
    }
    Ok(())
}

/// The route retries refused connections at other hosts.
#[tokio::test]
async fn a_strict_session_is_not_retried_elsewhere() -> Result<()> {
    let mut site = Site::start(every_mode(&json!({"strict": true}))?.strict_routes()).await?;
    for mode in Mode::ALL {
        let mut client = Client::new(&site.envoy, mode);
        let first = client.begin("abc").await?;
        site.stop_backend_of(&first).await?;
        for _ in 0..3 {
            let refused = client.get().await?;
            assert_eq!((refused.status, refused.backend()), (503, None), "{mode:?}");
        }
        site.backend_of(&first)?.restart()?;
        client.assert_holds(first.backend(), "abc").await?;
    }
    Ok(())
}

/// With the configuration that people copy.
#[tokio::test]
async fn a_draining_backend_keeps_its_sessions() -> Result<()> {
    let mut site = Site::start(Config::load("draining.yaml")?.policy(&Mode::CookiePrefix.policy(&json!({})))).await?;
    let mut client = Client::new(&site.envoy, Mode::CookiePrefix);
    let first = client.begin("abc").await?;
    let draining = site.backend_of(&first)?.address();
    let name = first.backend().context("no backend")?.to_owned();
    site.envoy.update(|config| config.health(draining, "DRAINING"))?;
    site.envoy
        .until_every_worker("sends no new client to a draining backend", |answer| {
            answer.backend() != Some(&*name)
        })
        .await?;
    client.assert_holds(Some(&*name), "abc").await
}
