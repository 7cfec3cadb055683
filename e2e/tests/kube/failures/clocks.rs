//! Clocks that are wrong by an hour.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::{Carrier, Crowd, Visitor, poll};

use super::stopped::until_leading;
use crate::keyring::{KeyringSite, envoy_at, replica};

const WEB: &[(&str, &str)] = &[("app", "web")];
const HOUR: i64 = 3600;

fn now() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?)
}

/// A new pod gets a pod's address: sessions there last, and no request fails. Returns how many of the former pod's
/// sessions were refused, of how many.
async fn reused(site: &mut KeyringSite) -> Result<[u64; 2]> {
    let mut of_a = Vec::new();
    poll::until("sessions at the pod that goes", async || {
        let (visitor, backend) = site.session().await.ok()?;
        if backend == "a" {
            of_a.push(visitor);
        }
        (of_a.len() > 2).then_some(())
    })
    .await?;
    let crowd = site.crowd().await?;
    crowd.rounds(2).await?;
    let ip = end(site).await?;
    let _heir = site.namespace.pod_at("heir", WEB, ip).await?;
    let mut of_heir = poll::until("a session at the heir that lasts", async || {
        let (mut visitor, backend) = site.session().await.ok()?;
        if backend != "heir" {
            return None;
        }
        let token = visitor.cookie("limpet-session")?.to_owned();
        visitor.get("/").await.ok()?;
        (visitor.cookie("limpet-session")? == token).then_some(visitor)
    })
    .await?;
    let refused = async || {
        let stats = site.envoy.admin().stats("limpet.*refused.fenced").await?;
        Ok::<u64, anyhow::Error>(stats.values().sum())
    };
    let before = refused().await?;
    for visitor in &mut of_a {
        ensure!(visitor.get("/").await?.status == 200);
    }
    let fenced = refused().await? - before;
    for _ in 0..10 {
        ensure!(
            of_heir.get("/").await?.backend() == Some("heir"),
            "the heir's session moved"
        );
    }
    crowd.rounds(2).await?;
    crowd.leave().await.none_failed()?;
    Ok([fenced, of_a.len() as u64])
}

/// Ends the first pod as `docs/how-to/rollouts.md` says. Returns its address.
pub(super) async fn end(site: &mut KeyringSite) -> Result<IpAddr> {
    let pod = site.pods.remove(0);
    let address = pod.address().to_string();
    pod.drain().await?;
    pod.report(false).await?;
    poll::until("Envoy to be told", async || {
        let clusters = site.envoy.admin().text("/clusters").await.ok()?;
        (!clusters.contains(&format!("::{address}::"))).then_some(())
    })
    .await?;
    pod.remove().await
}

/// How many seconds Envoy's clock is off, by its own statistics.
async fn clock_of_envoy(site: &KeyringSite) -> Result<i64> {
    let millis = site.envoy.admin().stat("listener_manager.lds.update_time").await?;
    Ok(i64::try_from(millis / 1000)? - now()?)
}

async fn clock_of_controller(site: &KeyringSite) -> Result<i64> {
    let text = site.controller.metric("limpet_last_build_timestamp_seconds").await?;
    let whole = text.split('.').next().unwrap_or_default();
    Ok(whole.parse::<i64>()? - now()?)
}

/// Give or take the time that the test has taken.
fn is_about(found: i64, expected: i64) -> bool {
    (expected - 300..=expected + 5).contains(&found)
}

#[tokio::test]
async fn an_envoy_an_hour_behind_keeps_new_sessions() -> Result<()> {
    let mut site = KeyringSite::start_at("envoy-behind", "1m", "1h", [0, -HOUR]).await?;
    ensure!(is_about(clock_of_envoy(&site).await?, -HOUR));
    let [fenced, all] = reused(&mut site).await?;
    // It issued them before it had the fence, by its own clock.
    assert_eq!(fenced, all);
    Ok(())
}

#[tokio::test]
async fn an_envoy_an_hour_ahead_keeps_its_sessions() -> Result<()> {
    let site = KeyringSite::start_at("envoy-ahead", "1m", "1h", [0, HOUR]).await?;
    ensure!(is_about(clock_of_envoy(&site).await?, HOUR));
    let crowd = site.crowd().await?;
    crowd.rounds(10).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()
}

/// For the others, its tokens are from the future.
#[tokio::test]
async fn an_envoy_an_hour_ahead_fails_no_request_elsewhere() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = KeyringSite::start_at("one-ahead", "1m", "2h", [0, HOUR]).await?;
    let second = replica(cluster, &site.namespace, "1m", "2h").await?;
    let right = envoy_at(&second, &site.namespace, "two", 0).await?;
    let address = second.address(8080);
    poll::until("the second Envoy", async || {
        Visitor::of(address).get("/").await.ok()?.backend().map(drop)
    })
    .await?;
    let both = [site.controller.address(8080), address];
    let crowd = Crowd::gather(6, &[Carrier::Cookie], &both).await?;
    crowd.rounds(5).await?;
    crowd.leave().await.none_failed()?;
    let refused = right.admin().stats("limpet.*refused.from_the_future").await?;
    ensure!(refused.values().sum::<u64>() > 0, "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn a_controller_an_hour_ahead_keeps_new_sessions() -> Result<()> {
    let mut site = KeyringSite::start_at("ahead", "1m", "2h", [HOUR, 0]).await?;
    ensure!(is_about(clock_of_controller(&site).await?, HOUR));
    let [fenced, all] = reused(&mut site).await?;
    assert_eq!(fenced, all);
    ensure!(
        site.envoy.log()?.contains("as if a clock were wrong"),
        "Envoy's log does not say it"
    );
    Ok(())
}

/// Its fences are older than the sessions that they should end: this is not promised.
#[tokio::test]
async fn a_controller_an_hour_behind_fails_no_request() -> Result<()> {
    let mut site = KeyringSite::start_at("behind", "1m", "2h", [-HOUR, 0]).await?;
    ensure!(is_about(clock_of_controller(&site).await?, -HOUR));
    let [fenced, _] = reused(&mut site).await?;
    assert_eq!(fenced, 0, "design/reliability.md says otherwise");
    Ok(())
}

/// A Lease is judged by how long it has not changed, not by its times.
#[tokio::test]
async fn a_leader_with_another_clock_is_replaced() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let mut site = KeyringSite::start_at("apart", "1m", "1h", [HOUR, 0]).await?;
    let follower = replica(cluster, &site.namespace, "1m", "1h").await?;
    assert_eq!(site.controller.metric("limpet_leader").await?, "1");
    assert_eq!(follower.metric("limpet_leader").await?, "0");
    site.controller.kill();
    until_leading(&follower).await
}
