//! Backends that the control plane reports as unhealthy, degraded or draining.

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Carrier, Config, Crowd, Envoy, Site, poll};
use serde_json::json;

/// Reports this health of backends, and waits until no worker sends them new sessions.
async fn take_out(site: &mut Site, names: &[&str], status: &str) -> Result<()> {
    let out: Vec<_> = site.backends.iter().filter(|b| names.contains(&b.name())).collect();
    site.envoy.update(|config| {
        out.into_iter()
            .fold(config, |config, backend| config.health(backend.address(), status))
    })?;
    site.envoy
        .until_every_worker("no new session goes to them", |answer| {
            answer.backend().is_some_and(|backend| !names.contains(&backend))
        })
        .await
}

#[tokio::test]
async fn draining_backends_keep_their_sessions_and_get_no_new_ones() -> Result<()> {
    let mut site = Site::start(Config::load("draining.yaml")?.both_carriers(&json!({}))).await?;
    let crowd = Crowd::gather(24, &Carrier::ALL, &[site.envoy.address()]).await?;
    take_out(&mut site, &["a", "b"], "DRAINING").await?;
    for carrier in Carrier::ALL {
        for _ in 0..20 {
            assert_eq!(site.envoy.get(&carrier.path()).send().await?.backend(), Some("c"));
        }
    }
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()?;
    let draining = |name| {
        journeys
            .0
            .iter()
            .any(|journey| journey.visits[0].backend() == Some(name))
    };
    ensure!(draining("a") && draining("b"), "no session was on a draining backend");
    Ok(())
}

#[tokio::test]
async fn new_sessions_go_to_draining_backends_if_no_others_are_left() -> Result<()> {
    let mut site = Site::start(Config::load("draining.yaml")?).await?;
    let crowd = Crowd::gather(6, &[Carrier::Cookie], &[site.envoy.address()]).await?;
    let all = &site.backends;
    let drain = |config| {
        all.iter().fold(config, |config: Config, backend| {
            config.health(backend.address(), "DRAINING")
        })
    };
    site.envoy.update(drain)?;
    site.envoy.until_stat("cluster.backends.membership_healthy", 0).await?;
    crowd.rounds(3).await?;
    for _ in 0..20 {
        assert_eq!(site.envoy.get("/").send().await?.status, 200);
    }
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Session {
    Stays,
    Moves,
    Fails,
}

async fn session(carrier: Carrier, envoy: &Envoy, token: &str, backend: &str) -> Result<Session> {
    let mut seen = Vec::new();
    for _ in 0..6 {
        let answer = carrier.bring(token, envoy.get(&carrier.path())).send().await?;
        let token = carrier.token(&answer);
        seen.push(match (answer.status, answer.backend()) {
            (200, Some(at)) if at == backend && token.is_none() => Session::Stays,
            (200, Some(at)) if at != backend && token.is_some() => Session::Moves,
            (503, None) if token.is_none() => Session::Fails,
            other => anyhow::bail!("{other:?}, with a token: {}", token.is_some()),
        });
    }
    seen.dedup();
    ensure!(seen.len() == 1, "sometimes {seen:?}");
    Ok(seen[0])
}

/// Each status that the control plane can report, with a strict policy and one that is not.
#[tokio::test]
async fn each_reported_health_affects_sessions_as_configured() -> Result<()> {
    for strict in [false, true] {
        let mut config = Config::load("draining.yaml")?.both_carriers(&json!({"strict": strict}));
        if strict {
            config = config.strict_routes();
        }
        let mut site = Site::start(config).await?;
        for carrier in Carrier::ALL {
            let first = site.envoy.get(&carrier.path()).send().await?;
            let token = carrier.token(&first).context("no token")?;
            let backend = first.backend().context("no backend")?;
            // Each status differs from the one before, so that its effect shows.
            for (status, balanced, kept) in [
                ("UNHEALTHY", Session::Moves, Session::Fails),
                ("DRAINING", Session::Stays, Session::Stays),
                ("TIMEOUT", Session::Moves, Session::Fails),
                ("DEGRADED", Session::Stays, Session::Stays),
            ] {
                let own = site.backend_of(&first)?.address();
                site.envoy.update(|config| config.health(own, status))?;
                let expected = if strict { kept } else { balanced };
                let what = format!("{status}, strict: {strict}, {carrier:?}: the session {expected:?}");
                poll::until(&what, async || {
                    let seen = session(carrier, &site.envoy, &token, backend).await.ok()?;
                    (seen == expected).then_some(())
                })
                .await?;
            }
            let well = &site.backends;
            site.envoy.update(|config| config.backends(well))?;
        }
    }
    Ok(())
}

/// A draining backend that fails its health check is unhealthy.
#[tokio::test]
async fn a_draining_and_unhealthy_backend_loses_its_sessions() -> Result<()> {
    let mut site = Site::start(Config::load("draining.yaml")?.health_checks()).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    let backend = first.backend().context("no backend")?;
    take_out(&mut site, &[backend], "DRAINING").await?;
    assert_eq!(visitor.get("/").await?.backend(), Some(backend));
    site.backend_of(&first)?.set_healthy(false);
    let failed = "cluster.backends.health_check.failure";
    poll::until("the health check to fail", async || {
        (site.envoy.stat(failed).await.ok()? > 0).then_some(())
    })
    .await?;
    let moved = poll::until("the session to move", async || {
        visitor
            .get("/")
            .await
            .ok()
            .filter(|answer| answer.backend() != Some(backend))
    })
    .await?;
    assert_eq!(moved.status, 200);
    Ok(())
}

/// The reason why `draining.yaml` lists the statuses with which sessions continue.
#[tokio::test]
async fn draining_moves_sessions_unless_the_cluster_allows_it() -> Result<()> {
    let without = json!({"common_lb_config": {"override_host_status": null}});
    let mut site = Site::start(Config::load("draining.yaml")?.cluster(&without)).await?;
    let first = site.envoy.get("/").send().await?;
    let token = Carrier::Cookie.token(&first).context("no token")?;
    let backend = first.backend().context("no backend")?;
    take_out(&mut site, &[backend], "DRAINING").await?;
    assert_eq!(
        session(Carrier::Cookie, &site.envoy, &token, backend).await?,
        Session::Moves
    );
    Ok(())
}
