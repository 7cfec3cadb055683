//! Requests to the API server while nothing happens. This waits for minutes, so the file's name comes early: tests
//! begin in the order of their names.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use limpet_e2e::kube::{AuditedRequest, Cluster, Controller, Namespace};
use limpet_e2e::poll;

use crate::clusters;
use crate::keyring::{SHORT_IDLE, key_encryption_key, replica};
use crate::site::{condition, site_objects};

const WINDOW: Duration = Duration::from_secs(75);
/// The count begins once only Leases were read or written for this long. After a start, served kinds are requested
/// several times in ten seconds.
const QUIET: Duration = Duration::from_secs(12);
const MINUTE: f64 = 60.0;

fn requests(cluster: &Cluster, namespace: &Namespace) -> Result<Vec<AuditedRequest>> {
    let user = format!("system:serviceaccount:{}:limpet-controller", namespace.name());
    cluster.server().requests_of(&user)
}

/// How often a watch is opened in a minute, by the time that it asks for.
fn reopened(watch: &AuditedRequest) -> Result<f64> {
    let (_, query) = watch.uri.split_once('?').context("a watch without parameters")?;
    let seconds = query.split('&').find_map(|part| part.strip_prefix("timeoutSeconds="));
    Ok(MINUTE / seconds.context("a watch without an end")?.parse::<f64>()?)
}

async fn until_quiet(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    let writes = || {
        let reads = ["get", "list", "watch"];
        let of_rest = |request: &AuditedRequest| request.uri.contains("/leases") || reads.contains(&&*request.verb);
        let all = requests(cluster, namespace).ok()?;
        Some(all.iter().filter(|request| !of_rest(request)).count())
    };
    poll::until("all writes to be done", async || {
        let before = writes()?;
        tokio::time::sleep(QUIET).await;
        (writes()? == before).then_some(())
    })
    .await
}

async fn requests_in_a_minute(cluster: &Cluster, namespace: &Namespace) -> Result<BTreeMap<String, f64>> {
    until_quiet(cluster, namespace).await?;
    let before = requests(cluster, namespace)?;
    tokio::time::sleep(WINDOW).await;
    let all = requests(cluster, namespace)?;
    let mut rates: BTreeMap<String, f64> = BTreeMap::new();
    for request in all.iter().skip(before.len()) {
        let path = request.uri.split('?').next().unwrap_or_default();
        *rates.entry(format!("{} {path}", request.verb)).or_default() += MINUTE / WINDOW.as_secs_f64();
    }
    // A watch outlasts the window: it counts by how often it is opened again.
    for watch in before.iter().filter(|request| request.verb == "watch") {
        *rates.entry("watches that end".to_owned()).or_default() += reopened(watch)?;
    }
    Ok(rates)
}

#[tokio::test]
async fn at_rest_the_api_server_gets_few_requests() -> Result<()> {
    // This cluster's definitions do not change: after a change, every controller asks for the served kinds.
    let cluster = clusters::of_all_kinds().await?;
    let namespace = cluster.namespace("rest").await?;
    namespace.gateway_class().await?;
    namespace.service("web", &[("app", "web")]).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    let start = async || -> Result<Controller> { replica(cluster, &namespace, "300ms", SHORT_IDLE).await };
    let mut replicas = vec![start().await?];
    let key = key_encryption_key(&namespace).await?;
    let mut envoy = replicas[0].envoy_with("web", "one", &[("LIMPET_KEK_1", &key)]).await?;
    envoy.until_ready().await?;
    let programmed =
        |object: &serde_json::Value| condition(&object["status"]["conditions"], "Programmed") == "True/Programmed";
    namespace.until("Programmed", "Gateway", "web", programmed).await?;

    for (count, most) in [(1, 15.0), (3, 25.0)] {
        while replicas.len() < count {
            replicas.push(start().await?);
        }
        let rates = requests_in_a_minute(cluster, &namespace).await?;
        let sum: f64 = rates.values().sum();
        println!("{count} replicas: {sum:.1} requests a minute: {rates:.1?}");
        assert!(
            sum <= most,
            "{count} replicas: {sum:.1} requests a minute: {rates:#.1?}"
        );
    }
    Ok(())
}
