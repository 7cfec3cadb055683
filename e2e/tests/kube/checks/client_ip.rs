//! Services with `sessionAffinity: ClientIP`, by kube-proxy's rules: a client's address keeps its pod until unused for
//! `timeoutSeconds`, and a pod that is gone is replaced at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_e2e::kube::{Pod, Release, filter};
use limpet_e2e::{Answer, Build, poll};
use serde_json::{Value, json};

use super::site::{GatewaySite, rule};

const NAME: &str = "client-ip";
const TO_BOTH: usize = 16;

/// The addresses of clients; `group` 0 to 7. All of 10.66.0.0/16 is this machine.
pub(super) fn clients(group: u8) -> Vec<IpAddr> {
    (1..=30)
        .map(|host| Ipv4Addr::new(10, 66, 255, group * 30 + host).into())
        .collect()
}

struct AffineSite {
    site: GatewaySite,
    pods: Vec<Pod>,
}

impl AffineSite {
    async fn start(build: Build) -> Result<Self> {
        let filter = filter(build)?;
        let change = move |config: &mut Value| config["envoy"]["filter"] = filter;
        let site = GatewaySite::start(Release::V1_7_0, NAME, change).await?;
        site.namespace.service(NAME, &[("app", NAME)]).await?;
        let mut affine = Self { site, pods: Vec::new() };
        affine.last_for(60).await?;
        for name in ["one", "two"] {
            affine.add(name).await?;
        }
        affine.site.route(NAME, &[rule("/", &[(NAME, 1)])]).await?;
        affine
            .site
            .until("the route", "/", |answer| answer.status == 200)
            .await?;
        Ok(affine)
    }

    async fn last_for(&self, seconds: u32) -> Result<()> {
        let config = json!({"clientIP": {"timeoutSeconds": seconds}});
        let spec = json!({"spec": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": config}});
        self.site.namespace.merge("v1/Service", NAME, &spec).await.map(drop)
    }

    async fn add(&mut self, name: &str) -> Result<()> {
        self.pods.push(self.site.namespace.pod(name, &[("app", NAME)]).await?);
        let count = self.pods.len();
        self.site
            .namespace
            .endpoints(NAME, |endpoints| endpoints.len() == count)
            .await
            .map(drop)
    }

    async fn ask(&self, client: IpAddr) -> Result<Answer> {
        let answer = self.site.get("/").from(client).send().await?;
        ensure!(answer.status == 200, "{client}: {answer:?}");
        ensure!(answer.set_cookies().is_empty(), "{client}: {answer:?}");
        Ok(answer)
    }

    async fn pods_of(&self, clients: &[IpAddr]) -> Result<BTreeMap<IpAddr, String>> {
        let mut pods = BTreeMap::new();
        for client in clients {
            let mut of_client = BTreeSet::new();
            for _ in 0..TO_BOTH {
                of_client.extend(self.ask(*client).await?.backend().map(str::to_owned));
            }
            ensure!(of_client.len() == 1, "{client} has no pod of its own: {of_client:?}");
            pods.extend(of_client.pop_first().map(|pod| (*client, pod)));
        }
        Ok(pods)
    }

    /// Waits until new clients reach exactly these pods, with both Envoys.
    async fn until_reached(&self, group: u8, expected: &[&str]) -> Result<()> {
        // Envoys with other pods hash otherwise.
        self.site.until_endpoints(NAME, expected.len()).await?;
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let mut hosts = clients(group).into_iter().cycle();
        poll::until(&format!("the pods {expected:?}"), async || {
            let mut seen = BTreeSet::new();
            for client in hosts.by_ref().take(60) {
                seen.extend(self.ask(client).await.ok()?.backend().map(str::to_owned));
            }
            (seen.iter().map(String::as_str).collect::<BTreeSet<_>>() == expected).then_some(())
        })
        .await
    }
}

#[tokio::test]
async fn an_address_keeps_its_pod_with_the_wasm_filter() -> Result<()> {
    keeps_its_pod(Build::Wasm).await
}

#[tokio::test]
async fn an_address_keeps_its_pod_with_the_module() -> Result<()> {
    keeps_its_pod(Build::Module).await
}

async fn keeps_its_pod(build: Build) -> Result<()> {
    let mut affine = AffineSite::start(build).await?;
    let clients_of_0 = clients(0);
    // Either Envoy hashes clients in no table alike.
    let before = affine.pods_of(&clients_of_0).await?;
    let reached: BTreeSet<&str> = before.values().map(String::as_str).collect();
    ensure!(reached == BTreeSet::from(["one", "two"]), "{before:?}");

    // Clients stay that the hash would lead elsewhere now.
    affine.add("three").await?;
    affine.add("four").await?;
    affine.until_reached(1, &["one", "two", "three", "four"]).await?;
    ensure!(affine.pods_of(&clients_of_0).await? == before, "a client moved");

    // Only the clients of a pod that is gone get another one, and keep it.
    affine.pods.remove(0).remove().await?;
    let moved = async || {
        for client in &clients_of_0 {
            (affine.ask(*client).await.ok()?.backend()? != "one").then_some(())?;
        }
        Some(())
    };
    poll::until("the clients of the pod to move", moved).await?;
    affine.until_reached(2, &["two", "three", "four"]).await?;
    let after = affine.pods_of(&clients_of_0).await?;
    for (client, pod) in &before {
        let stays = after.get(client) == Some(pod);
        ensure!(stays == (pod != "one"), "{client}: {pod} before, {after:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_address_that_was_idle_goes_by_the_hash() -> Result<()> {
    const TIMEOUT: u32 = 8;
    let timeout = Duration::from_secs(TIMEOUT.into());
    let mut affine = AffineSite::start(Build::Module).await?;
    affine.last_for(TIMEOUT).await?;
    let known = async || {
        for envoy in &affine.site.envoys {
            let dump = envoy.admin().text("/config_dump?resource=ecds_filters").await.ok()?;
            dump.contains(r#"\"timeout\":\"8s\""#).then_some(())?;
        }
        Some(())
    };
    poll::until("the timeout", known).await?;
    let clients = clients(0);
    let (used, idle) = clients.split_at(6);
    let mut last = Instant::now();
    let mut kept = Some(affine.pods_of(used).await?);
    let former = affine.pods_of(idle).await?;
    let begun = Instant::now();
    for name in ["three", "four"] {
        affine.add(name).await?;
    }
    while begun.elapsed() < timeout + Duration::from_secs(1) {
        let asked = Instant::now();
        let now = affine.pods_of(used).await;
        if last.elapsed() < timeout && kept.is_some() {
            let now = Some(now?);
            ensure!(now == kept, "a client moved before its timeout: {kept:?}, {now:?}");
        } else {
            // On a slow machine the timeout was over, perhaps for one Envoy only. From here on, clients keep their
            // pods.
            kept = now.ok();
        }
        last = asked;
    }
    let now = affine.pods_of(idle).await?;
    ensure!(now != former, "no client moved: {former:?}");
    Ok(())
}
