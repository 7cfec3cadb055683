//! Services with `sessionAffinity: ClientIP` in a weighted split, each on its own, while the weights choose the Service
//! of every request: a client's address keeps its pod of a Service until unused for that Service's `timeoutSeconds`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Pod, Release, filter};
use limpet_e2e::{Build, poll};
use serde_json::{Value, json};

use super::client_ip::clients;
use super::site::{GatewaySite, rule};

const LONG: &str = "split-long";
const SHORT: &str = "split-short";
const TIMEOUT: Duration = Duration::from_secs(12);
/// So many requests reach both Services, mostly by both Envoys.
const TO_ALL: usize = 40;

/// A client's pods by Service, and when it began to ask for them.
#[derive(Debug)]
struct Held {
    pods: BTreeMap<&'static str, String>,
    asked: Instant,
}

impl Held {
    /// Whether, on a slow machine, the short timeout may be over since then, for one Envoy only.
    fn is_old(&self) -> bool {
        self.asked.elapsed() >= TIMEOUT
    }
}

struct SplitSite {
    site: GatewaySite,
    pods: BTreeMap<String, Pod>,
}

impl SplitSite {
    async fn start(build: Build) -> Result<Self> {
        let filter = filter(build)?;
        let change = move |config: &mut Value| config["envoy"]["filter"] = filter;
        let site = GatewaySite::start(Release::V1_7_0, "client-ip-split", change).await?;
        let mut split = Self {
            site,
            pods: BTreeMap::new(),
        };
        for (service, seconds) in [(LONG, 600), (SHORT, TIMEOUT.as_secs())] {
            split.site.namespace.service(service, &[("app", service)]).await?;
            let config = json!({"clientIP": {"timeoutSeconds": seconds}});
            let spec = json!({"spec": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": config}});
            split.site.namespace.merge("v1/Service", service, &spec).await?;
            split.add(service, &["one", "two"]).await?;
        }
        let rules = [rule("/", &[(LONG, 1), (SHORT, 1)])];
        split.site.route("split", &rules).await?;
        split
            .site
            .until("the route", "/", |answer| answer.status == 200)
            .await?;
        Ok(split)
    }

    async fn add(&mut self, service: &str, names: &[&str]) -> Result<()> {
        for name in names {
            let name = format!("{service}-{name}");
            let pod = self.site.namespace.pod(&name, &[("app", service)]).await?;
            self.pods.insert(name, pod);
        }
        let count = self.pods.keys().filter(|name| name.starts_with(service)).count();
        let are_there = self
            .site
            .namespace
            .endpoints(service, |endpoints| endpoints.len() == count);
        are_there.await.map(drop)
    }

    async fn ask(&self, client: IpAddr) -> Result<String> {
        let answer = self.site.get("/").from(client).send().await?;
        ensure!(
            answer.status == 200 && answer.set_cookies().is_empty(),
            "{client}: {answer:?}"
        );
        Ok(answer.backend().context("no backend")?.to_owned())
    }

    /// The clients' pods with both Envoys. `before` is what they had last.
    async fn held(&self, clients: &[IpAddr], before: &BTreeMap<IpAddr, Held>) -> Result<BTreeMap<IpAddr, Held>> {
        let mut all = BTreeMap::new();
        for client in clients {
            let mut held = Held {
                pods: BTreeMap::new(),
                asked: Instant::now(),
            };
            for _ in 0..TO_ALL {
                let pod = self.ask(*client).await?;
                let service = service_of(&pod)?;
                let known = held.pods.entry(service).or_insert_with(|| pod.clone());
                let is_over = || held.asked.elapsed() >= TIMEOUT || before.get(client).is_some_and(Held::is_old);
                ensure!(
                    *known == pod || (service == SHORT && is_over()),
                    "{client} has {known} and {pod} of one Service"
                );
            }
            ensure!(held.pods.len() == 2, "{client} reaches one Service alone: {held:?}");
            all.insert(*client, held);
        }
        Ok(all)
    }

    /// Waits until both Envoys have all pods, which changes their hashes, and new clients reach them.
    async fn until_all_reached(&self) -> Result<()> {
        for service in [LONG, SHORT] {
            let own = self.pods.keys().filter(|name| name.starts_with(service));
            self.site.until_endpoints(service, own.count()).await?;
        }
        let expected: BTreeSet<&str> = self.pods.keys().map(String::as_str).collect();
        let mut strangers = clients(1).into_iter().cycle();
        let reached = async || {
            let mut seen = BTreeSet::new();
            for client in strangers.by_ref().take(90) {
                seen.insert(self.ask(client).await.ok()?);
            }
            (seen.iter().map(String::as_str).collect::<BTreeSet<_>>() == expected).then_some(())
        };
        poll::until("all pods to be reached", reached).await
    }
}

fn service_of(pod: &str) -> Result<&'static str> {
    let mut services = [LONG, SHORT].into_iter();
    services
        .find(|service| pod.starts_with(service))
        .context("the pod of no Service")
}

fn of<'h>(service: &str, held: &'h BTreeMap<IpAddr, Held>) -> BTreeMap<IpAddr, &'h String> {
    held.iter()
        .map(|(client, held)| (*client, &held.pods[service]))
        .collect()
}

#[tokio::test]
async fn each_services_own_timeout_holds_in_a_split_with_the_wasm_filter() -> Result<()> {
    each_services_own_timeout_holds(Build::Wasm).await
}

#[tokio::test]
async fn each_services_own_timeout_holds_in_a_split_with_the_module() -> Result<()> {
    each_services_own_timeout_holds(Build::Module).await
}

async fn each_services_own_timeout_holds(build: Build) -> Result<()> {
    let mut split = SplitSite::start(build).await?;
    let clients = clients(0);
    let (used, idle) = clients.split_at(6);
    let none = BTreeMap::new();
    let former = split.held(idle, &none).await?;
    let idle_since = Instant::now();
    let mut kept = split.held(used, &none).await?;
    // Clients stay, while their session lasts, that the hash would lead elsewhere now.
    for service in [LONG, SHORT] {
        split.add(service, &["three", "four"]).await?;
    }
    while idle_since.elapsed() < TIMEOUT + Duration::from_secs(1) {
        let now = split.held(used, &kept).await?;
        ensure!(of(LONG, &now) == of(LONG, &kept), "a client moved: {kept:?}, {now:?}");
        for (client, before) in &kept {
            let stays = before.pods[SHORT] == now[client].pods[SHORT];
            ensure!(stays || before.is_old(), "{client} moved: {kept:?}, {now:?}");
        }
        kept = now;
    }
    split.until_all_reached().await?;
    // A client that used neither Service has lost its pod of the one whose timeout is over.
    let before = split.held(idle, &none).await?;
    ensure!(
        of(LONG, &before) == of(LONG, &former),
        "a client moved: {former:?}, {before:?}"
    );
    ensure!(of(SHORT, &before) != of(SHORT, &former), "no client moved: {former:?}");

    let gone = format!("{SHORT}-one");
    split.pods.remove(&gone).context("no such pod")?.remove().await?;
    let replaced = async || {
        for client in clients.iter().cycle().take(3 * TO_ALL) {
            (split.ask(*client).await.ok()? != gone).then_some(())?;
        }
        Some(())
    };
    poll::until("the pod to be replaced", replaced).await?;
    let after = split.held(idle, &before).await?;
    ensure!(
        of(LONG, &before) == of(LONG, &after),
        "a client moved: {before:?}, {after:?}"
    );
    for (client, before) in &before {
        let (pod, now) = (&before.pods[SHORT], &after[client].pods[SHORT]);
        ensure!(
            *now != gone && (now == pod || *pod == gone || before.is_old()),
            "{client}: {pod} before, {now} now"
        );
    }
    Ok(())
}
