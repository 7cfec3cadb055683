//! `limpet envoy drain` before an Envoy ends.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Carrier, Connection, Crowd, Request, Site, poll, tools};
use serde_json::{Value, json};

use super::LIMITS;
use super::overload::{READY, limited};

/// Runs the preStop hook of `controller/deploy/envoy/envoy.yaml` with this time.
fn drain(site: &Site, time: &str) -> Result<tokio::task::JoinHandle<Result<Output>>> {
    let manifests = std::fs::read_to_string(tools::checkout().join("controller/deploy/envoy/envoy.yaml"))?;
    let mut manifests = manifests.split("\n---\n");
    let deployment: Value = serde_saphyr::from_str(manifests.next().context("no Deployment")?)?;
    let hook = deployment.pointer("/spec/template/spec/containers/0/lifecycle/preStop/exec/command");
    let hook: Vec<String> = serde_json::from_value(hook.context("no preStop hook")?.clone())?;
    assert_eq!(hook[0], "/etc/limpet/limpet");
    let port = site.envoy.admin().port().to_string();
    let argument = |argument: &str| match argument {
        "19000" => port.clone(),
        "30s" => time.to_owned(),
        other => other.to_owned(),
    };
    let arguments: Vec<String> = hook[1..].iter().map(|word| argument(word)).collect();
    Ok(tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["-o", "json"]).collect();
        tools::run_limpet(&arguments, &[])
    }))
}

async fn until_drained(drain: tokio::task::JoinHandle<Result<Output>>) -> Result<(Option<i32>, Value)> {
    let output = drain.await??;
    ensure!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code(), serde_json::from_slice(&output.stdout)?))
}

async fn until_not_ready(site: &Site) -> Result<()> {
    poll::until("Envoy to drain", async || {
        let answer = Request::get(site.envoy.listener(READY).ok()?, "/ready")
            .send()
            .await
            .ok()?;
        (answer.status == 503).then_some(())
    })
    .await
}

/// Clients come until the last moment.
#[tokio::test]
async fn a_drain_loses_no_request_and_ends_when_clients_are_gone() -> Result<()> {
    let site = Site::start(limited(LIMITS)?.both_carriers(&json!({}))).await?;
    let mut kept = Connection::open(site.envoy.address(), false).await?;
    assert_eq!(kept.send(site.envoy.get("/")).await?.status, 200);
    let crowd = Crowd::gather(12, &Carrier::ALL, &[site.envoy.address()]).await?;
    let drain = drain(&site, "60s")?;
    until_not_ready(&site).await?;
    let last = kept.send(site.envoy.get("/")).await?;
    assert_eq!((last.status, last.header("connection")), (200, Some("close")));
    crowd.rounds(3).await?;
    ensure!(!drain.is_finished(), "it ended while clients were there");
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()?;
    let (code, said) = until_drained(drain).await?;
    ensure!(code == Some(0) && said["connections"] == 0, "{code:?} {said}");
    ensure!(said["seconds"].as_u64() < Some(50), "it waited for nobody: {said}");
    assert_eq!(site.envoy.get("/").send().await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn a_drain_does_not_wait_for_those_who_ask_for_readiness() -> Result<()> {
    let site = Site::start(limited(LIMITS)?).await?;
    let drain = drain(&site, "60s")?;
    let mut asked = 0;
    while !drain.is_finished() {
        let answer = Request::get(site.envoy.listener(READY)?, "/ready").send().await?;
        asked += usize::from(answer.status == 503);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let (code, said) = until_drained(drain).await?;
    ensure!(
        code == Some(0) && said["seconds"].as_u64() < Some(50),
        "{code:?} {said}"
    );
    ensure!(asked > 0, "nobody asked");
    Ok(())
}

#[tokio::test]
async fn a_drain_ends_with_its_time_and_tells_of_requests() -> Result<()> {
    let site = Site::start(limited(LIMITS)?).await?;
    let mut idle = Connection::open(site.envoy.address(), false).await?;
    assert_eq!(idle.send(site.envoy.get("/")).await?.status, 200);
    let (code, said) = until_drained(drain(&site, "2s")?).await?;
    ensure!(code == Some(0), "a connection without a request: {code:?} {said}");
    assert_eq!((&said["connections"], &said["requests"]), (&json!(1), &json!(0)));

    let mut busy = Connection::open(site.envoy.address(), false).await?;
    let _answer = busy.exchange(site.envoy.get("/events")).await?;
    site.envoy.until_stat("http.web.downstream_rq_active", 1).await?;
    let (code, said) = until_drained(drain(&site, "1s")?).await?;
    ensure!(code == Some(1) && said["requests"] == 1, "{code:?} {said}");
    Ok(())
}
