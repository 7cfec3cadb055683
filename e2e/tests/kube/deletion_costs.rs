//! A scale-down by the genuine `ReplicaSet` controller, of pods with deletion costs by their sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, POD_PORT, Proxy, Release};
use limpet_e2e::{Backend, Visitor, poll};
use serde_json::{Value, json};

use crate::kept::until_event;
use crate::site::{POLICY, site_objects};

const WEB: &[(&str, &str)] = &[("app", "web")];
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const ASKS: &str = "session.limpet.dev/pod-deletion-cost";
const DRAIN: &str = "session.limpet.dev/drain";
/// The pod with the most is ready for the shortest time: without costs, it would go first.
const SESSIONS: [usize; 5] = [0, 3, 10, 40, 100];
/// Longer than the controller counts before it writes, and longer than it leaves a pod unchanged.
const PATIENCE: Duration = Duration::from_secs(60);

struct Member {
    name: String,
    backend: Backend,
    visitors: Vec<Visitor>,
}

struct Site {
    namespace: Namespace,
    controller: Controller,
    envoys: [Proxy; 2],
    /// In the order of [`SESSIONS`].
    members: Vec<Member>,
}

impl Site {
    async fn start() -> Result<Self> {
        let cluster = Cluster::shared(Release::V1_2_1).await?;
        let namespace = cluster.namespace("costs").await?;
        namespace.gateway_class().await?;
        namespace.service("web", WEB).await?;
        namespace.apply(&site_objects(&namespace)).await?;
        namespace.apply(POLICY).await?;
        let members = members(&namespace).await?;
        let controller = Controller::start(cluster.server(), &namespace, |config| {
            config["maxIdle"] = "1h".into();
        })
        .await?;
        let mut envoys = [
            controller.envoy("web", "one").await?,
            controller.envoy("web", "two").await?,
        ];
        for envoy in &mut envoys {
            envoy.until_ready().await?;
        }
        Ok(Self {
            namespace,
            controller,
            envoys,
            members,
        })
    }

    async fn fill(&mut self) -> Result<()> {
        let all: Vec<_> = self.members.iter().map(|member| member.name.clone()).collect();
        for (number, count) in SESSIONS.into_iter().enumerate() {
            for name in &all {
                let drains = (*name != all[number]).then_some("2026-11-23T06:00:00Z");
                annotate(&self.namespace, "v1/Pod", name, DRAIN, json!(drains)).await?;
            }
            self.until_draining(Some(number)).await?;
            // Envoy's workers have it a moment after its page.
            tokio::time::sleep(Duration::from_millis(300)).await;
            for _ in 0..count {
                let mut visitor = Visitor::of(self.controller.address(8080));
                let answer = visitor.get("/").await?;
                let begins = answer.backend() == Some(&*all[number]) && !answer.set_cookies().is_empty();
                ensure!(begins, "{answer:?}");
                self.members[number].visitors.push(visitor);
            }
        }
        for name in &all {
            annotate(&self.namespace, "v1/Pod", name, DRAIN, Value::Null).await?;
        }
        self.until_draining(None).await
    }

    /// Waits until both Envoys know that all pods drain but one (`None`: that none does).
    async fn until_draining(&self, other: Option<usize>) -> Result<()> {
        for envoy in &self.envoys {
            poll::until("pods to drain", async || {
                let clusters = envoy.admin().text("/clusters").await.ok()?;
                let as_expected = |(number, member): (usize, &Member)| {
                    let flags = format!("{}::health_flags::/eds_status_draining", member.backend.address());
                    let drains = other.is_some_and(|other| other != number);
                    clusters.contains(&member.backend.address().to_string()) && clusters.contains(&flags) == drains
                };
                self.members.iter().enumerate().all(as_expected).then_some(())
            })
            .await?;
        }
        Ok(())
    }

    async fn costs(&self) -> Result<Vec<Option<String>>> {
        let pods = self.namespace.list("v1/Pod", "app=web").await?;
        let cost = |name: &String| {
            let pod = pods.iter().find(|pod| pod["metadata"]["name"] == *name)?;
            pod["metadata"]["annotations"][COST].as_str().map(str::to_owned)
        };
        Ok(self.members.iter().map(|member| cost(&member.name)).collect())
    }

    async fn until_costs(&self, expected: &[Option<&str>]) -> Result<()> {
        let mut last = None;
        let found = poll::until_within(PATIENCE, &format!("the costs {expected:?}"), async || {
            last = self.costs().await.ok();
            let is_there = last.iter().flatten().map(Option::as_deref).eq(expected.iter().copied());
            is_there.then_some(())
        })
        .await;
        found.with_context(|| format!("{last:?}\n{}", self.controller.log().unwrap_or_default()))
    }

    async fn writes(&self) -> Result<usize> {
        let server = Cluster::shared(Release::V1_2_1).await?.server();
        let user = format!("system:serviceaccount:{}:limpet-controller", self.namespace.name());
        let requests = server.requests_of(&user)?.into_iter();
        let of_pods = requests.filter(|request| request.verb == "patch" && request.uri.contains("/pods/"));
        Ok(of_pods.count())
    }

    async fn stay(&mut self, members: std::ops::Range<usize>) -> Result<()> {
        for member in &mut self.members[members] {
            for visitor in &mut member.visitors {
                let answer = visitor.get("/").await?;
                ensure!(answer.backend() == Some(&*member.name), "a session moved: {answer:?}");
                ensure!(answer.set_cookies().is_empty(), "{answer:?}");
            }
        }
        Ok(())
    }
}

async fn annotate(namespace: &Namespace, kind: &str, object: &str, name: &str, value: Value) -> Result<()> {
    let change = json!({"metadata": {"annotations": {name: value}}});
    namespace.merge(kind, object, &change).await.map(drop)
}

/// A `ReplicaSet` with five pods. There is no kubelet: the test gives addresses and readiness.
async fn members(namespace: &Namespace) -> Result<Vec<Member>> {
    let container = json!({"name": "web", "image": "none", "ports": [{"name": "http", "containerPort": POD_PORT}]});
    let replicas = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": SESSIONS.len(),
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"nodeName": "node", "containers": [container]},
            },
        },
    });
    namespace.apply_object(&replicas).await?;
    let pods = poll::until("the pods of the ReplicaSet", async || {
        let pods = namespace.list("v1/Pod", "app=web").await.ok()?;
        (pods.len() == SESSIONS.len()).then_some(pods)
    })
    .await?;
    let mut members = Vec::new();
    for (number, pod) in pods.iter().enumerate() {
        let name = pod["metadata"]["name"].as_str().context("no name")?;
        let ip = namespace.next_address()?;
        let backend = Backend::start_at(name, SocketAddr::new(ip, POD_PORT))?;
        // Each is ready for several times as long as the next one: Kubernetes compares the logarithms.
        let age = time::Duration::days(1 << (2 * (SESSIONS.len() - number)));
        let since = format!("{}T00:00:00Z", (time::OffsetDateTime::now_utc() - age).date());
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
        let status = json!({
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [condition("ContainersReady"), condition("Ready")],
        });
        namespace.merge_status("v1/Pod", name, &status).await?;
        members.push(Member {
            name: name.to_owned(),
            backend,
            visitors: Vec::new(),
        });
    }
    namespace
        .endpoints("web", |endpoints| {
            endpoints.iter().filter(|endpoint| endpoint.ready).count() == SESSIONS.len()
        })
        .await?;
    Ok(members)
}

#[tokio::test]
async fn a_scale_down_takes_the_pods_with_fewest_sessions() -> Result<()> {
    let mut site = Site::start().await?;
    site.fill().await?;
    // Costs by others, of the fullest and the emptiest.
    for (number, cost) in [(4, "1"), (0, "2")] {
        let name = &site.members[number].name;
        annotate(&site.namespace, "v1/Pod", name, COST, json!(cost)).await?;
    }

    // Without the right, the Service says so.
    annotate(&site.namespace, "v1/Service", "web", ASKS, json!("true")).await?;
    until_event(
        &site.namespace,
        "Service",
        "web",
        "WriteRefused",
        &site.namespace.cluster_role("limpet-pod-deletion-cost"),
    )
    .await?;
    site.stay(0..5).await?;
    assert_eq!(site.costs().await?[1..4], [None, None, None]);
    site.namespace.bind("limpet-pod-deletion-cost").await?;
    let refused = site.writes().await?;
    site.until_costs(&[Some("0"), Some("3"), Some("10"), Some("40"), Some("100")])
        .await?;

    // Costs are not written again while their order is the same.
    site.stay(0..5).await?;
    tokio::time::sleep(Duration::from_secs(32)).await;
    let again = site.writes().await? - refused;
    ensure!(
        (5..=6).contains(&again),
        "{again} writes, one of which may have been refused"
    );

    let scale = json!({"spec": {"replicas": 2}});
    site.namespace.merge("apps/v1/ReplicaSet", "web", &scale).await?;
    let ending = poll::until("three pods to end", async || {
        let pods = site.namespace.list("v1/Pod", "app=web").await.ok()?;
        let ends = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_string());
        let names: BTreeSet<_> = ends
            .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        (names.len() == 3).then_some(names)
    })
    .await?;
    let emptiest: BTreeSet<_> = site.members[..3].iter().map(|member| member.name.clone()).collect();
    assert_eq!(ending, emptiest);

    // While a kubelet ends the others, and after that.
    site.stay(3..5).await?;
    for member in &mut site.members[..3] {
        member.backend.stop().await;
        site.namespace.delete_now("v1/Pod", &member.name).await?;
    }
    site.namespace
        .endpoints("web", |endpoints| endpoints.len() == 2)
        .await?;
    site.stay(3..5).await?;
    let mut homes: BTreeMap<String, usize> = BTreeMap::new();
    for member in &mut site.members[..3] {
        for visitor in &mut member.visitors {
            let home = visitor.get("/").await?.backend().context("no backend")?.to_owned();
            *homes.entry(home).or_default() += 1;
        }
    }
    assert_eq!(homes.values().sum::<usize>(), 13, "{homes:?}");

    // The controller's costs go with the last route to the Service, and come back with it.
    let route = site_objects(&site.namespace);
    site.namespace.delete("HTTPRoute", "web").await?;
    site.until_costs(&[None; 5]).await?;
    site.namespace.apply(&route).await?;
    poll::until_within(PATIENCE, "costs of pods that a route leads to again", async || {
        let costs = site.costs().await.ok()?;
        costs[3..].iter().all(Option::is_some).then_some(())
    })
    .await?;

    // They go with the annotation, too, also where they replaced others' costs.
    annotate(&site.namespace, "v1/Service", "web", ASKS, Value::Null).await?;
    site.until_costs(&[None; 5]).await?;
    let name = &site.members[4].name;
    annotate(&site.namespace, "v1/Pod", name, COST, json!("7")).await?;
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(site.costs().await?[4].as_deref(), Some("7"));
    Ok(())
}
