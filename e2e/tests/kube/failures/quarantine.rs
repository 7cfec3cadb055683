//! A configuration that Envoy refuses despite all checks costs only its own route.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{Answer, Connection, Request, Tls, poll};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::liar::Liar;
use super::{message, objects};
use crate::certificates::Authority;
use crate::site::condition;

const OTHERS: usize = 50;
/// What `limpet-outputs` spoils with the feature `refused-on-purpose`.
const BAD_ACTION: &str = "/limpet-test-refused-action";
const BAD_MATCH: &str = "/limpet-test-refused-match";

/// Answers with its version, and has another rule with this path.
fn route(name: &str, version: &str, other: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [{name}.street.example]
  rules:
  - backendRefs: [{{name: web, port: 80}}]
    filters:
    - type: ResponseHeaderModifier
      responseHeaderModifier: {{set: [{{name: x-version, value: '{version}'}}]}}
  - backendRefs: [{{name: web, port: 80}}]
    matches: [{{path: {{type: PathPrefix, value: {other}}}}}]
---
"
    )
}

#[derive(Clone, Copy, Default)]
struct Plan {
    /// Clients speak TLS, and one host has its own listener.
    tls: bool,
    /// Replicas that have Envoys, besides a leader without any. With 0, the leader has some.
    followers: usize,
}

/// A Gateway with a wildcard route and 50 others, and a client of each of these at each replica with Envoys.
struct Street {
    namespace: Namespace,
    controllers: Vec<Controller>,
    authority: Option<Authority>,
    doors: Vec<SocketAddr>,
    envoys: Vec<Proxy>,
    clients: JoinSet<Result<usize>>,
    done: Arc<AtomicBool>,
    _pods: [Pod; 2],
}

impl Street {
    async fn start(prefix: &str, plan: Plan) -> Result<Self> {
        let cluster = Cluster::shared(Release::V1_2_1).await?;
        let namespace = cluster.namespace(prefix).await?;
        let pods = objects(&namespace).await?;
        let authority = if plan.tls {
            Some(listen_with_tls(&namespace).await?)
        } else {
            None
        };
        let others: String = (0..OTHERS)
            .map(|number| route(&format!("other-{number}"), "1", "/other"))
            .collect();
        namespace.apply(&others).await?;
        let mut controllers = Vec::new();
        for _ in 0..=plan.followers {
            controllers.push(Controller::start(cluster.server(), &namespace, |_| ()).await?);
        }
        let with_envoys = controllers.split_off(usize::from(plan.followers > 0));
        let port = if plan.tls { 8443 } else { 8080 };
        let doors = with_envoys.iter().map(|controller| controller.address(port)).collect();
        // Those with Envoys come first.
        let controllers = with_envoys.into_iter().chain(controllers).collect();
        let mut street = Self {
            namespace,
            controllers,
            authority,
            doors,
            envoys: Vec::new(),
            clients: JoinSet::new(),
            done: Arc::default(),
            _pods: pods,
        };
        street.add_envoys("first").await?;
        for number in 0..OTHERS {
            let host = format!("other-{number}.street.example");
            street.until(&host, "/", 200, Some("1")).await?;
            for door in &street.doors {
                let (door, tls) = (*door, street.tls(&host)?);
                street
                    .clients
                    .spawn(visit(door, tls, host.clone(), Arc::clone(&street.done)));
            }
        }
        Ok(street)
    }

    fn tls(&self, host: &str) -> Result<Option<Tls>> {
        let authority = self.authority.as_ref();
        authority
            .map(|authority| Tls::new(&authority.certificate, host))
            .transpose()
    }

    /// One Envoy of each door for each form of the protocol, which share the port with those before.
    async fn add_envoys(&mut self, name: &str) -> Result<()> {
        for controller in &self.controllers[..self.doors.len()] {
            let delta = controller.envoy("web", &format!("{name}-delta")).await?;
            let world = controller.envoy_of_the_world("web", &format!("{name}-world")).await?;
            for mut envoy in [delta, world] {
                envoy.until_ready().await?;
                self.envoys.push(envoy);
            }
        }
        Ok(())
    }

    /// Waits until every Envoy is likely to answer so.
    async fn until(&self, host: &str, path: &str, status: u16, version: Option<&str>) -> Result<()> {
        let tls = self.tls(host)?;
        let (what, mut last) = (format!("{host}{path}: {status} {version:?}"), String::new());
        let all = poll::until(&what, async || {
            for door in &self.doors {
                for _ in 0..8 * self.envoys.len() / self.doors.len() {
                    let found = match get(*door, tls.as_ref(), host, path).await {
                        Ok(answer) if (answer.status, answer.header("x-version")) == (status, version) => continue,
                        Ok(answer) => format!("{} {:?}", answer.status, answer.header("x-version")),
                        Err(error) => format!("{error:#}"),
                    };
                    last = format!("the last was {found}");
                    return None;
                }
            }
            Some(())
        });
        all.await.with_context(|| last)
    }

    async fn until_said(&self, name: &str, accepted: &str, said: &str) -> Result<Value> {
        let said = |route: &Value| {
            let conditions = &route["status"]["parents"][0]["conditions"];
            let whole = conditions.to_string();
            condition(conditions, "Accepted") == accepted && whole.contains(said)
        };
        self.namespace.until("a status", "HTTPRoute", name, said).await
    }

    /// No request of the other hosts failed, and each Envoy answered some.
    async fn leave(mut self) -> Result<()> {
        for envoy in &self.envoys {
            let listener = if self.authority.is_some() {
                "https-8443/https"
            } else {
                "http-8080"
            };
            let answered = format!("http.{listener}.downstream_rq_2xx");
            envoy.admin().until_some(&answered).await?;
        }
        self.done.store(true, Ordering::Relaxed);
        while let Some(visits) = self.clients.join_next().await {
            ensure!(visits?? > 0, "a client has seen nothing");
        }
        Ok(())
    }
}

/// Two HTTPS listeners of one port. The first host has one for itself.
async fn listen_with_tls(namespace: &Namespace) -> Result<Authority> {
    namespace.bind("limpet-certificates").await?;
    let authority = Authority::new("street")?;
    let certificate = authority.sign_all(&["*.street.example"])?;
    namespace.apply_object(&certificate.secret("street")).await?;
    let tls = json!({"certificateRefs": [{"name": "street"}]});
    let listeners = json!({"spec": {"listeners": [
        {"name": "https", "port": 8443, "protocol": "HTTPS", "tls": tls},
        {"name": "own", "port": 8443, "protocol": "HTTPS", "tls": tls, "hostname": "other-0.street.example"},
    ]}});
    namespace.merge("Gateway", "web", &listeners).await?;
    // On a listener for one host, a route for any host is as specific as that host's, and the older one counts.
    let parents = json!({"spec": {"parentRefs": [{"name": "web", "sectionName": "https"}]}});
    namespace.merge("HTTPRoute", "web", &parents).await?;
    Ok(authority)
}

async fn get(door: SocketAddr, tls: Option<&Tls>, host: &str, path: &str) -> Result<Answer> {
    let request = Request::get(door, path).header("host", host);
    let Some(tls) = tls else {
        return request.send().await;
    };
    Connection::open_tls(door, tls, false).await?.send(request).await
}

/// Sends requests on new connections until `done`.
async fn visit(door: SocketAddr, tls: Option<Tls>, host: String, done: Arc<AtomicBool>) -> Result<usize> {
    let mut visits = 0;
    while !done.load(Ordering::Relaxed) {
        let answer = get(door, tls.as_ref(), &host, "/").await;
        let answer = answer.with_context(|| format!("visit {visits} of {host}"))?;
        let version = answer.header("x-version").context("an answer of another route")?;
        ensure!(answer.status == 200, "{host} {version}: {}", answer.status);
        visits += 1;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(visits)
}

/// A refused route's former version is served, and a neighbour's change arrives.
async fn falls_back(street: &Street) -> Result<()> {
    let namespace = &street.namespace;
    namespace.apply(&route("bad", "1", "/other")).await?;
    street.until("bad.street.example", "/", 200, Some("1")).await?;
    namespace.apply(&route("bad", "2", BAD_ACTION)).await?;
    let said = "Fall Back: Envoy refuses generation 2, so generation 1 stays in use";
    let bad = street.until_said("bad", "True/Accepted", said).await?;
    let conditions = &bad["status"]["parents"][0]["conditions"];
    assert_eq!(condition(conditions, "PartiallyInvalid"), "True/UnsupportedValue");
    let words = message(conditions, "PartiallyInvalid");
    assert!(words.contains("limpet.test"), "Envoy's words: {words}");
    namespace.apply(&route("other-0", "2", "/other")).await?;
    street.until("other-0.street.example", "/", 200, Some("2")).await?;
    street.until("bad.street.example", "/", 200, Some("1")).await
}

/// New Envoys get the rest from their first request on, and the mark ends with the change.
async fn recovers(street: &mut Street) -> Result<()> {
    street.add_envoys("second").await?;
    street.until("bad.street.example", "/", 200, Some("1")).await?;
    let namespace = &street.namespace;
    namespace.apply(&route("bad", "3", "/other")).await?;
    street.until("bad.street.example", "/", 200, Some("3")).await?;
    let good = |route: &Value| !route["status"].to_string().contains("PartiallyInvalid");
    namespace.until("no mark", "HTTPRoute", "bad", good).await.map(drop)
}

#[tokio::test]
async fn what_envoy_refuses_costs_its_own_route_alone() -> Result<()> {
    let mut street = Street::start("street", Plan::default()).await?;
    falls_back(&street).await?;
    // Without a former version, the answer is 500 or none, but not the wildcard route's.
    let namespace = &street.namespace;
    namespace.apply(&route("worse", "1", BAD_ACTION)).await?;
    namespace.apply(&route("worst", "1", BAD_MATCH)).await?;
    let said = "Envoy refuses generation 1, so its requests are answered with status 500";
    street.until_said("worse", "False/UnsupportedValue", said).await?;
    street.until("worse.street.example", "/", 500, None).await?;
    let said = "Envoy refuses generation 1, so it is not served";
    street.until_said("worst", "False/UnsupportedValue", said).await?;
    street.until("worst.street.example", "/", 404, None).await?;

    recovers(&mut street).await?;
    street.until("worse.street.example", "/", 500, None).await?;
    street.namespace.apply(&route("worse", "2", "/other")).await?;
    street.until("worse.street.example", "/", 200, Some("2")).await?;
    street.until_said("worse", "True/Accepted", "").await?;
    street.leave().await
}

#[tokio::test]
async fn what_envoy_refuses_costs_no_other_tls_listener() -> Result<()> {
    let plan = Plan {
        tls: true,
        ..Plan::default()
    };
    let mut street = Street::start("tls-street", plan).await?;
    falls_back(&street).await?;
    recovers(&mut street).await?;
    street.leave().await
}

/// A replica that learns of the refusal from the others writes the status.
#[tokio::test]
async fn replicas_agree_on_what_envoys_refuse() -> Result<()> {
    let plan = Plan {
        followers: 2,
        ..Plan::default()
    };
    let mut street = Street::start("streets", plan).await?;
    let [one, two, leader] = &street.controllers[..] else {
        anyhow::bail!("not three replicas");
    };
    for (controller, leads) in [(one, "0"), (two, "0"), (leader, "1")] {
        assert_eq!(controller.metric("limpet_leader").await?, leads);
    }
    falls_back(&street).await?;
    for controller in &street.controllers {
        assert_eq!(controller.metric("limpet_quarantined_routes").await?, "1");
    }
    recovers(&mut street).await?;
    street.leave().await
}

#[tokio::test]
async fn an_envoy_that_lies_takes_no_route_away() -> Result<()> {
    let street = Street::start("liar-street", Plan::default()).await?;
    let controller = &street.controllers[0];
    let group = format!("{}/web", street.namespace.name());
    let all = Liar::connect(controller.xds(), &group, "all", "").await?;
    let some = Liar::connect(controller.xds(), &group, "some", "told-otherwise").await?;
    street
        .namespace
        .apply(&route("other-0", "told-otherwise", "/other"))
        .await?;
    street
        .until("other-0.street.example", "/", 200, Some("told-otherwise"))
        .await?;
    for liar in [&all, &some] {
        poll::until("lies", async || (liar.lies() > 0).then_some(())).await?;
    }
    assert_eq!(controller.metric("limpet_quarantined_routes").await?, "0");
    let route = street.until_said("other-0", "True/Accepted", "").await?;
    assert!(!route["status"].to_string().contains("PartiallyInvalid"), "{route}");
    street.leave().await
}
