//! A new pod gets a dead pod's address. A fence from the control plane precedes the address's return to Envoy.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Answer, Backend, Carrier, Config, Crowd, Envoy, filter_with_both, poll};
use serde_json::json;

use super::{moved_only_where_it_had_to, retire};

/// Its client sends no requests while the address changes its owner.
struct PausedSession {
    carrier: Carrier,
    token: String,
    backend: String,
}

impl PausedSession {
    async fn begin(carrier: Carrier, envoy: &Envoy) -> Result<Self> {
        let first = envoy.get(&carrier.path()).send().await?;
        Ok(Self {
            carrier,
            token: carrier.token(&first).context("no token")?,
            backend: first.backend().context("no backend")?.to_owned(),
        })
    }

    async fn visit(&self, envoy: &Envoy) -> Result<Answer> {
        let request = self.carrier.bring(&self.token, envoy.get(&self.carrier.path()));
        request.send().await
    }

    async fn stays(&self, envoy: &Envoy) -> Result<()> {
        let answer = self.visit(envoy).await?;
        ensure!(answer.backend() == Some(&*self.backend) && self.carrier.token(&answer).is_none());
        Ok(())
    }
}

async fn fenced(envoy: &Envoy) -> Result<u64> {
    Ok(envoy.metric("cookie.refused.fenced").await? + envoy.metric("header.refused.fenced").await?)
}

fn unix_seconds() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

#[tokio::test]
async fn a_new_pod_on_a_dead_pods_address_does_not_get_its_sessions() -> Result<()> {
    let start = |name, ip: &str| Backend::start_at(name, format!("{ip}:0").parse()?);
    let mut dead = start("dead", "127.0.0.11")?;
    let others = [start("b", "127.0.0.12")?, start("c", "127.0.0.13")?];
    let config = Config::load("ecds.yaml")?
        .both_carriers(&json!({}))
        .discover_endpoints();
    let mut envoy = Envoy::serve(config.backends([&dead].into_iter().chain(&others))).await?;
    let crowd = Crowd::gather(12, &Carrier::ALL, &[envoy.address()]).await?;
    let mut sessions = Vec::new();
    for _ in 0..9 {
        for carrier in Carrier::ALL {
            sessions.push(PausedSession::begin(carrier, &envoy).await?);
        }
    }

    let taken_out = BTreeMap::from([("dead".to_owned(), Instant::now())]);
    envoy.update(|config| config.backends(&others))?;
    retire(&mut dead, &crowd).await?;

    // In whole seconds, and later than any token of the dead pod.
    let not_before = unix_seconds()? + 1;
    let mut filter = filter_with_both(&json!({}));
    filter["fences"] = json!([{"address": "127.0.0.11", "notBefore": not_before}]);
    envoy.update(|config| config.filter(&filter))?;
    let (of_dead, of_others): (Vec<_>, Vec<_>) = sessions.iter().partition(|session| session.backend == "dead");
    ensure!(!of_dead.is_empty() && !of_others.is_empty());
    poll::until("every worker to have the fence", async || {
        let before = fenced(&envoy).await.ok()?;
        for _ in 0..20 {
            of_dead[0].visit(&envoy).await.ok()?;
        }
        (fenced(&envoy).await.ok()? == before + 20).then_some(())
    })
    .await?;
    poll::until("the fence's time to come", async || {
        (unix_seconds().ok()? >= not_before).then_some(())
    })
    .await?;

    let new = Backend::start_at("new", dead.address())?;
    envoy.update(|config| config.backends([&new].into_iter().chain(&others)))?;
    let of_new = poll::until("sessions at the new pod", async || {
        let carrier = Carrier::ALL[new.requests() % 2];
        let session = PausedSession::begin(carrier, &envoy).await.ok()?;
        (session.backend == "new").then_some(session)
    })
    .await?;

    let before = fenced(&envoy).await?;
    for session in &of_dead {
        let answer = session.visit(&envoy).await?;
        ensure!(
            answer.status == 200 && session.carrier.token(&answer).is_some(),
            "the dead pod's session continues"
        );
    }
    assert_eq!(fenced(&envoy).await? - before, of_dead.len() as u64);
    for session in of_others {
        session.stays(&envoy).await?;
    }
    for _ in 0..6 {
        of_new.stays(&envoy).await?;
    }

    crowd.rounds(2).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    for journey in &journeys.0 {
        moved_only_where_it_had_to(journey, &taken_out)?;
    }
    Ok(())
}
