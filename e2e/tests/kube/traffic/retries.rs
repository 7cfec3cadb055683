use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Pod, Release};
use limpet_e2e::{Answer, Answering};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{two_pods, with_sessions};
use crate::checks::GatewaySite;

fn apart<'a>([one, two]: &'a [Pod; 2], answer: &Answer) -> [&'a Pod; 2] {
    if answer.backend() == Some(one.name()) {
        [one, two]
    } else {
        [two, one]
    }
}

fn tries(pods: &[Pod; 2]) -> usize {
    pods.iter().map(|pod| pod.backend().requests()).sum()
}

/// Envoy does not lead a retry. The new token must name the pod that answered.
#[tokio::test]
async fn a_retried_session_goes_on_where_the_answer_is_from() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let pods = two_pods(site, "retried").await?;
    let mut rule = with_sessions("retried", &[("retried", 1)]);
    rule["retry"] = json!({"attempts": 2, "codes": [503], "backoff": "10ms"});
    rule["timeouts"] = json!({"request": "10s", "backendRequest": "500ms"});
    site.route("retried", &[rule]).await?;
    site.until_sessions("/retried").await?;
    let mut visitor = site.visitor();
    let late = Answering::ok().after(Duration::from_secs(2));
    for failure in [Answering::status(503), Answering::hanging_up(), late] {
        let [here, there] = apart(&pods, &visitor.get("/retried").await?);
        here.backend().answer_next(failure.clone());
        let answer = visitor.get("/retried").await?;
        ensure!(answer.status == 200, "{failure:?}: {answer:?}");
        ensure!(answer.backend() == Some(there.name()), "{failure:?}: {answer:?}");
        ensure!(answer.set_cookies().len() == 1, "{failure:?}: no new token: {answer:?}");
        for _ in 0..4 {
            let answer = visitor.get("/retried").await?;
            ensure!(
                answer.backend() == Some(there.name()),
                "{failure:?}: the token names another pod"
            );
            ensure!(answer.set_cookies().is_empty(), "{failure:?}: {answer:?}");
        }
    }
    for pod in &pods {
        pod.backend().answer(Answering::status(503));
    }
    let before = tries(&pods);
    ensure!(visitor.get("/retried").await?.status == 503);
    ensure!(tries(&pods) == before + 3, "{} tries", tries(&pods) - before);
    for pod in &pods {
        pod.backend().answer(Answering::status(500));
    }
    let before = tries(&pods);
    ensure!(visitor.get("/retried").await?.status == 500);
    ensure!(tries(&pods) == before + 1, "a status that is not listed is tried again");
    Ok(())
}

#[tokio::test]
async fn a_strict_session_is_not_retried_whatever_its_rule_asks() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let pods = two_pods(site, "strictly").await?;
    let mut rule = with_sessions("strictly", &[("strictly", 1)]);
    rule["retry"] = json!({"attempts": 2, "codes": [503]});
    site.annotated_route("strictly", &[rule], &json!({"strict": "true"}))
        .await?;
    site.until_sessions("/strictly").await?;
    let mut visitor = site.visitor();
    let [here, _] = apart(&pods, &visitor.get("/strictly").await?);
    here.backend().answer_next(Answering::status(503));
    let before = tries(&pods);
    let answer = visitor.get("/strictly").await?;
    ensure!(answer.status == 503 && tries(&pods) == before + 1, "{answer:?}");
    let answer = visitor.get("/strictly").await?;
    ensure!(answer.backend() == Some(here.name()), "{answer:?}");
    // A request without a session has nothing to lose.
    for pod in &pods {
        pod.backend().answer_next(Answering::status(503));
    }
    let before = tries(&pods);
    let answer = site.get("/strictly").send().await?;
    ensure!(answer.status == 200 && tries(&pods) == before + 3, "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn a_request_ends_with_its_timeout() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let pods = two_pods(site, "timed").await?;
    let mut rule = with_sessions("timed", &[("timed", 1)]);
    rule["retry"] = json!({"attempts": 5});
    rule["timeouts"] = json!({"request": "1s", "backendRequest": "400ms"});
    site.route("timed", &[rule]).await?;
    site.until_sessions("/timed").await?;
    for pod in &pods {
        pod.backend().answer(Answering::ok().after(Duration::from_secs(20)));
    }
    let before = tries(&pods);
    let answer = site.get("/timed").send().await?;
    let tries = tries(&pods) - before;
    ensure!(
        answer.status == 504 && (2..=3).contains(&tries),
        "{tries} tries: {answer:?}"
    );
    Ok(())
}

/// By default, Envoy allows only three concurrent retries to a cluster.
#[tokio::test]
async fn many_requests_are_retried_at_once() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let mut pods = two_pods(site, "many").await?;
    site.route("many", &[with_sessions("many", &[("many", 1)])]).await?;
    site.until_sessions("/many").await?;
    let mut visitor = site.visitor();
    let answer = visitor.get("/many").await?;
    let [gone, left] = &mut pods;
    let (gone, left) = if answer.backend() == Some(gone.name()) {
        (gone, left)
    } else {
        (left, gone)
    };
    gone.backend_mut().stop().await;
    left.backend().answer(Answering::ok().after(Duration::from_secs(1)));
    let mut requests = JoinSet::new();
    for _ in 0..24 {
        let mut visitor = visitor.clone();
        requests.spawn(async move { visitor.get("/many").await });
    }
    while let Some(answer) = requests.join_next().await {
        let answer = answer??;
        ensure!(
            answer.status == 200 && answer.backend() == Some(left.name()),
            "{answer:?}"
        );
    }
    Ok(())
}

/// Silences this address: its queue of connections is full, so the kernel drops requests for more.
async fn silence(address: SocketAddr) -> Result<(TcpListener, Vec<TcpStream>)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(1)?;
    let mut queued = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        queued.push(connected?);
    }
    Ok((listener, queued))
}

#[tokio::test]
async fn a_session_of_a_silent_pod_moves_within_the_request() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let mut pods = two_pods(site, "silent").await?;
    site.route("silent", &[with_sessions("silent", &[("silent", 1)])])
        .await?;
    site.until_sessions("/silent").await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/silent").await?;
    let gone = pods.iter_mut().find(|pod| first.backend() == Some(pod.name()));
    let gone = gone.context("no pod")?;
    gone.backend_mut().stop().await;
    let _silence = silence(gone.address()).await?;
    let start = Instant::now();
    let moved = visitor.get("/silent").await?;
    let took = start.elapsed();
    ensure!(moved.status == 200 && moved.backend() != first.backend(), "{moved:?}");
    ensure!(moved.set_cookies().len() == 1, "no new token: {moved:?}");
    // The default is a second.
    ensure!((900..4000).contains(&took.as_millis()), "it took {took:?}");
    for _ in 0..4 {
        let answer = visitor.get("/silent").await?;
        ensure!(answer.backend() == moved.backend(), "the token names another pod");
    }
    Ok(())
}

#[tokio::test]
async fn a_rule_may_forbid_retries() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let mut pods = two_pods(site, "once").await?;
    let mut rule = with_sessions("once", &[("once", 1)]);
    rule["retry"] = json!({"attempts": 0});
    site.route("once", &[rule]).await?;
    site.until_sessions("/once").await?;
    let mut visitor = site.visitor();
    let here = apart(&pods, &visitor.get("/once").await?)[0].name().to_owned();
    let here = pods.iter_mut().find(|pod| pod.name() == here).context("no pod")?;
    here.backend_mut().stop().await;
    let answer = visitor.get("/once").await?;
    ensure!(
        answer.status == 503,
        "the refused connection is tried again: {answer:?}"
    );
    Ok(())
}
