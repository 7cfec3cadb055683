//! `controller/deploy` as it is shipped, and an application behind it.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{self, ApiServer, Client, Node, Release};
use limpet_e2e::{Visitor, poll, tools};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// A pod drains for half a minute, and a Deployment replaces one pod after the other.
const ROLLOUT: Duration = Duration::from_secs(300);

/// The name of the application's Deployment, Service and routes.
pub(crate) const APPLICATION: &str = "web";

const SYSTEM: &str = "limpet-system";

/// The name of the Envoys' Deployment and Service.
pub(crate) const ENVOYS: &str = "limpet-envoy-web";

/// The controller, two Envoys for the Gateway `default/web`, and an application of three pods with sessions in a cookie
/// and in a header.
#[derive(Debug)]
pub(crate) struct Site {
    node: &'static Node,
    envoys: SocketAddr,
}

impl Site {
    /// Tests share it, one after the other.
    pub(crate) async fn shared() -> Result<&'static Self> {
        static SITE: OnceCell<Site> = OnceCell::const_new();
        Node::shared().await?;
        SITE.get_or_try_init(Self::install).await
    }

    /// As in docs/how-to/operate-the-controller.md.
    async fn install() -> Result<Self> {
        let node = Node::shared().await?;
        node.define(Release::V1_7_0).await?;
        let admin = node.admin();
        admin.apply(&deployed("namespace.yaml")?).await?;
        for folder in ["", "envoy/"] {
            kustomize(&admin, folder).await?;
        }
        let system = admin.in_namespace(SYSTEM);
        until_rolled_out(&system, "limpet-controller").await?;
        until_rolled_out(&system, ENVOYS).await?;
        let service = system.get("v1/Service", ENVOYS).await?;
        let (address, port) = (&service["spec"]["clusterIP"], &service["spec"]["ports"][0]["port"]);
        let site = Self {
            node,
            envoys: format!("{}:{port}", address.as_str().context("no address")?).parse()?,
        };

        for object in [kube::application(APPLICATION), kube::service_of(APPLICATION)] {
            admin.apply_object(&object).await?;
        }
        admin.apply_object(&routes("web", "/")).await?;
        until_rolled_out(&admin, APPLICATION).await?;
        for pod in pods(&system, ENVOYS).await? {
            let mut visitor = Visitor::of(address_of(&system.get("v1/Pod", &pod).await?)?);
            poll::until(&format!("a session at {pod}"), async || {
                visitor.get("/cookie").await.ok()?;
                visitor.cookie("limpet-session").map(drop)
            })
            .await?;
        }
        Ok(site)
    }

    pub(crate) fn server(&self) -> &'static ApiServer {
        self.node.server()
    }

    pub(crate) fn default(&self) -> Client {
        self.node.admin()
    }

    pub(crate) fn system(&self) -> Client {
        self.node.admin().in_namespace(SYSTEM)
    }

    pub(crate) fn envoys(&self) -> SocketAddr {
        self.envoys
    }

    /// Opens a connection for each request.
    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::of(self.envoys)
    }
}

fn address_of(pod: &Value) -> Result<SocketAddr> {
    let address = pod["status"]["podIP"].as_str().context("no address")?;
    let port = &pod["spec"]["containers"][0]["ports"][0]["containerPort"];
    Ok(format!("{address}:{port}").parse()?)
}

/// As `kubectl rollout restart`. Waits until the former pods are gone, and returns their names.
pub(crate) async fn restart(client: &Client, deployment: &str) -> Result<BTreeSet<String>> {
    let former = pods(client, deployment).await?;
    // Any new value will do.
    let change = json!({"spec": {"template": {"metadata": {"annotations": {
        "kubectl.kubernetes.io/restartedAt": former.first(),
    }}}}});
    client.merge("apps/v1/Deployment", deployment, &change).await?;
    until_rolled_out(client, deployment).await?;
    let now = pods(client, deployment).await?;
    ensure!(now.is_disjoint(&former), "not replaced: {former:?}, now {now:?}");
    Ok(former)
}

/// Waits until all pods of a Deployment are ready and have its present template, and no others are left.
pub(crate) async fn until_rolled_out(client: &Client, deployment: &str) -> Result<()> {
    kube::until_rolled_out(client, deployment, ROLLOUT).await?;
    let wanted = client.get("apps/v1/Deployment", deployment).await?["spec"]["replicas"].take();
    let what = format!("the former pods of {deployment} to be gone");
    poll::until_within(ROLLOUT, &what, async || {
        let pods = pods(client, deployment).await.ok()?;
        (Some(pods.len() as u64) == wanted.as_u64()).then_some(())
    })
    .await?;
    hooks_ran(client, deployment).await
}

/// Without its preStop hook, a pod would end at once, and a crowd may or may not notice.
async fn hooks_ran(client: &Client, deployment: &str) -> Result<()> {
    let events = client.list("v1/Event", "").await?;
    let of_pods = |event: &&Value| {
        let pod = event["involvedObject"]["name"].as_str();
        event["reason"] == "FailedPreStopHook" && pod.is_some_and(|pod| pod.starts_with(deployment))
    };
    let failed: Vec<_> = events.iter().filter(of_pods).collect();
    ensure!(failed.is_empty(), "preStop hooks of {deployment} failed: {failed:#?}");
    Ok(())
}

/// The pods of a Deployment, also those that are ending.
pub(crate) async fn pods(client: &Client, deployment: &str) -> Result<BTreeSet<String>> {
    let object = client.get("apps/v1/Deployment", deployment).await?;
    let labels = object["spec"]["selector"]["matchLabels"]
        .as_object()
        .context("no labels")?;
    let labels: Vec<_> = labels
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    let pods = client.list("v1/Pod", &labels.join(",")).await?;
    let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

pub(crate) fn deployed(file: &str) -> Result<String> {
    let file = tools::checkout().join("controller/deploy").join(file);
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// As `kubectl apply -k`.
async fn kustomize(client: &Client, folder: &str) -> Result<()> {
    let kustomization: Value = serde_saphyr::from_str(&deployed(&format!("{folder}kustomization.yaml"))?)?;
    for file in kustomization["resources"].as_array().context("no resources")? {
        let file = format!("{folder}{}", file.as_str().context("not a file")?);
        let yaml = deployed(&file)?;
        let applied = if file.starts_with("crds/") {
            client.define(&yaml).await
        } else {
            client.apply(&yaml).await
        };
        applied.context(file)?;
    }
    Ok(())
}

/// A path for each [`limpet_e2e::Carrier`]. Cookies of two Gateways need two paths to keep their names.
pub(crate) fn routes(gateway: &str, cookie_path: &str) -> Value {
    let rule = |path: &str, session: Value| {
        json!({
            "matches": [{"path": {"type": "PathPrefix", "value": path}}],
            "backendRefs": [{"name": APPLICATION, "port": 80}],
            "sessionPersistence": session,
        })
    };
    let cookie = json!({"name": "limpet-session", "path": cookie_path});
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        // The crowd counts tokens that a backend sees.
        "metadata": {"name": gateway, "annotations": {"session.limpet.dev/forward": "false"}},
        "spec": {
            "parentRefs": [{"name": gateway}],
            "rules": [
                rule("/cookie", json!({"type": "Cookie", "cookie": cookie})),
                rule("/header", json!({"type": "Header", "header": {"name": "x-session"}})),
            ],
        },
    })
}
