//! Limpet as Helm installs it, a Gateway with managed Envoys, and an application.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use limpet_api::ObjectName;
use limpet_e2e::kube::{self, Client, Node, Release};
use limpet_e2e::{Build, helm};
use limpet_model::envoys_name;
use serde_json::{Value, json};

/// The chart's release and `GatewayClass`, and their namespace.
const RELEASE: &str = "limpet";
pub(crate) const SYSTEM: &str = "limpet-system";
pub(crate) const CONTROLLER: &str = "limpet-controller";
pub(crate) const WEB: &str = "web";

pub(crate) const GRPC_HOST: &str = "grpc.example";

/// A Deployment's pods drain one after the other, and other events delay it.
const ROLLOUT: Duration = Duration::from_secs(900);

/// Three Envoys, because two may end at once. A key is rotated in half a minute, not in two.
const VALUES: &str = "
config:
  keyring: {phaseTime: 5s}
  envoy: {managed: {defaults: {replicas: 3, filter: FILTER}}}
";

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) node: Node,
    pub(crate) default: Client,
    pub(crate) system: Client,
    pub(crate) address: SocketAddr,
    pub(crate) envoys: String,
}

impl Site {
    pub(crate) async fn install(filter: Build) -> Result<Self> {
        let node = Node::start().await?;
        node.define(Release::V1_7_0).await?;
        install(&node, filter)?;
        let (default, system) = (node.admin(), node.admin().in_namespace(SYSTEM));
        for object in [
            application(),
            kube::service_of(WEB),
            budget(),
            gateway(),
            http_routes(),
            grpc_routes(),
        ] {
            default.apply_object(&object).await?;
        }
        until_rolled_out(&default, WEB).await?;
        let envoys = envoys_name(&ObjectName::new("default", WEB));
        system
            .until("its Envoys", "apps/v1/Deployment", &envoys, |_| true)
            .await?;
        until_rolled_out(&system, &envoys).await?;
        let is_programmed = |gateway: &Value| kube::has_condition(gateway, "Programmed");
        let gateway = default.until("acknowledgements", "Gateway", WEB, is_programmed).await?;
        let address = gateway["status"]["addresses"][0]["value"].as_str();
        let address = SocketAddr::new(address.context("no address")?.parse()?, 80);
        kube::until_led(address).await?;
        Ok(Self {
            node,
            default,
            system,
            address,
            envoys,
        })
    }
}

fn install(node: &Node, filter: Build) -> Result<()> {
    let filter = match filter {
        Build::Wasm => "Wasm",
        Build::Module => "Module",
    };
    let values = tempfile::NamedTempFile::new()?;
    std::fs::write(values.path(), VALUES.replace("FILTER", filter))?;
    let (chart, kubeconfig) = (helm::chart(), node.server().admin_kubeconfig()?);
    let texts = [chart.as_path(), values.path(), kubeconfig.as_path()].map(|path| path.to_str().context("a path"));
    let [chart, values, kubeconfig] = texts;
    helm::run(&[
        "install",
        RELEASE,
        chart?,
        "--namespace",
        SYSTEM,
        "--create-namespace",
        "--wait",
        "--values",
        values?,
        "--kubeconfig",
        kubeconfig?,
    ])
    .map(drop)
}

pub(crate) async fn until_rolled_out(client: &Client, deployment: &str) -> Result<()> {
    kube::until_rolled_out(client, deployment, ROLLOUT).await
}

/// It ends as in docs/how-to/rollouts.md.
fn application() -> Value {
    let mut application = kube::application(WEB);
    let container = &mut application["spec"]["template"]["spec"]["containers"][0];
    container["readinessProbe"]["failureThreshold"] = 1.into();
    container["lifecycle"]["preStop"]["sleep"]["seconds"] = 5.into();
    application
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": WEB},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": WEB}}},
    })
}

fn gateway() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": WEB},
        "spec": {
            "gatewayClassName": RELEASE,
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
        },
    })
}

fn http_routes() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": WEB, "annotations": {"session.limpet.dev/forward": "false"}},
        "spec": {
            "parentRefs": [{"name": WEB}],
            "rules": [{
                "name": "all",
                "backendRefs": [{"name": WEB, "port": 80}],
                "sessionPersistence": {"type": "Cookie", "cookie": {"name": "limpet-session"}},
            }],
        },
    })
}

fn grpc_routes() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GRPCRoute",
        "metadata": {"name": WEB, "annotations": {"session.limpet.dev/forward": "false"}},
        "spec": {
            "parentRefs": [{"name": WEB}],
            "hostnames": [GRPC_HOST],
            "rules": [{
                "name": "all",
                "backendRefs": [{"name": WEB, "port": 80}],
                "sessionPersistence": {"type": "Header", "header": {"name": "x-session"}},
            }],
        },
    })
}
