//! The site of `envoy-configs/istio`, in its own namespace.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{self, Client};
use limpet_e2e::{Answer, Request, Visitor, poll, tools};
use serde_json::{Value, json};

use crate::mesh::Mesh;

pub(crate) const COOKIE: &str = "limpet-session";
/// The Deployment that Istio makes for the Gateway.
const GATEWAY: &str = "web-istio";
pub(crate) const ROLLOUT: Duration = Duration::from_secs(180);

/// Istio's gateway, and three pods of the service `shop` behind it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) mesh: &'static Mesh,
    pub(crate) client: Client,
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
}

impl Site {
    /// Without sessions, in a namespace with these labels.
    pub(crate) async fn start(name: &'static str, labels: &Value) -> Result<Self> {
        let mesh = Mesh::shared().await?;
        let client = mesh.client(name);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        client.apply_object(&namespace).await?;
        client.apply_object(&mesh.key().await?).await?;
        client.apply_object(&kube::application("shop")).await?;
        client.apply(&text(name, "shop.yaml")?).await?;
        for deployment in [GATEWAY, "shop"] {
            kube::until_rolled_out(&client, deployment, ROLLOUT).await?;
        }
        let told = |service: &Value| !service["status"]["loadBalancer"]["ingress"].is_null();
        let service = client.until("an address", "v1/Service", GATEWAY, told).await?;
        let address = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        let site = Self {
            mesh,
            client,
            name,
            address: SocketAddr::new(address.context("no address")?.parse()?, 80),
        };
        let answers = async || site.visit(&mut site.visitor()).await.ok()?.backend().map(drop);
        poll::until("the route", answers).await?;
        Ok(site)
    }

    /// Removes everything: the next test needs the machine.
    pub(crate) async fn end(self) -> Result<()> {
        self.client.delete("v1/Namespace", self.name).await
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::of(self.address)
    }

    pub(crate) fn request(&self) -> Request {
        self.request_at(self.address)
    }

    /// The same request to another listener of the gateway.
    pub(crate) fn request_at(&self, address: SocketAddr) -> Request {
        Request::get(address, "/").header("host", host(self.name))
    }

    /// A pod must answer.
    pub(crate) async fn visit(&self, visitor: &mut Visitor) -> Result<Answer> {
        let answer = visitor.send(self.request()).await?;
        let said = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status == 200, "{}: {said}", answer.status);
        ensure!(answer.seen()?.internal_headers().is_empty(), "{said}");
        Ok(answer)
    }

    /// The policy of docs/get-started/istio.md. Waits until there are sessions.
    pub(crate) async fn sessions(&self) -> Result<()> {
        let page = std::fs::read_to_string(tools::checkout().join("docs/get-started/istio.md"))?;
        let (_, policy) = page.split_once("kind: BackendLBPolicy").context("no policy")?;
        let (policy, _) = policy.split_once("```").context("no end")?;
        let policy = policy.replace("namespace: shop", &format!("namespace: {}", self.name));
        let policy = format!("apiVersion: gateway.networking.k8s.io/v1alpha2\nkind: BackendLBPolicy{policy}");
        self.client.apply(&policy).await?;
        self.until_sessions().await
    }

    pub(crate) async fn until_sessions(&self) -> Result<()> {
        let mut last = None;
        let begun = async || {
            let mut visitor = self.visitor();
            last = Some(self.visit(&mut visitor).await.map(|answer| answer.headers));
            visitor.cookie(COOKIE).map(drop)
        };
        let begun = poll::until_within(ROLLOUT, "a session", begun).await;
        if begun.is_err() {
            let policy = self.client.get("BackendLBPolicy", "sticky").await?;
            let log = self.agent_log()?;
            return begun.with_context(|| format!("{log}\n{:#}\n{last:?}", policy["status"]));
        }
        Ok(())
    }

    /// The new pod's agent fetches the filter again.
    pub(crate) async fn restart_gateway(&self) -> Result<()> {
        let labels = "gateway.networking.k8s.io/gateway-name=web";
        for pod in self.client.list("v1/Pod", labels).await? {
            let name = pod["metadata"]["name"].as_str().context("no name")?;
            self.client.delete_now("v1/Pod", name).await?;
            self.client.until_gone("v1/Pod", name).await?;
        }
        let ready = async || {
            let pods = self.client.list("v1/Pod", labels).await.ok()?;
            let mut conditions = pods.first()?["status"]["conditions"].as_array()?.iter();
            conditions
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
                .then_some(())
        };
        poll::until_within(ROLLOUT, "another pod of the gateway", ready).await
    }

    /// The log of the gateway's agent and Envoy.
    pub(crate) fn agent_log(&self) -> Result<String> {
        let gateway = format!("deployment/{GATEWAY}");
        self.mesh
            .kubectl(&["--namespace", self.name, "logs", "--tail=60", &gateway])
    }

    /// Envoy's admin interface, which only the agent reaches.
    pub(crate) fn admin(&self, path: &str) -> Result<String> {
        let gateway = format!("deployment/{GATEWAY}");
        let ask = ["pilot-agent", "request", "GET", path];
        self.mesh
            .kubectl(&[&["--namespace", self.name, "exec", &gateway, "--"], &ask[..]].concat())
    }

    /// Begins sessions on all pods, and checks that each stays.
    pub(crate) async fn check_sessions_hold(&self) -> Result<()> {
        let mut pods = std::collections::BTreeSet::new();
        for _ in 0..12 {
            let mut visitor = self.visitor();
            let first = self.visit(&mut visitor).await?;
            let pod = first.backend().context("no pod")?.to_owned();
            for _ in 0..10 {
                let answer = self.visit(&mut visitor).await?;
                ensure!(
                    answer.backend() == Some(&pod),
                    "moved from {pod} to {:?}",
                    answer.backend()
                );
            }
            pods.insert(pod);
        }
        ensure!(pods.len() == 3, "all sessions began on {pods:?}");
        Ok(())
    }
}

/// One for each site: Gateways of one hostname would rename their cookies.
pub(crate) fn host(namespace: &str) -> String {
    format!("{namespace}.example.com")
}

/// A file of `envoy-configs/istio` for this namespace. The tests' backend listens at another port.
pub(crate) fn text(namespace: &str, file: &str) -> Result<String> {
    let path = tools::checkout().join("envoy-configs/istio").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text
        .replace("namespace: shop", &format!("namespace: {namespace}"))
        .replace("trafficextension/shop.", &format!("trafficextension/{namespace}."))
        .replace("shop.example.com", &host(namespace))
        .replace("targetPort: 8080", "targetPort: 8000"))
}
