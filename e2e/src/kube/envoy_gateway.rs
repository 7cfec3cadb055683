//! The control plane Envoy Gateway.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::daemon::Daemon;
use super::proxy::Proxy;
use super::root::Root;
use super::{Client, Cluster, Namespace, pod_template};
use crate::{Request, tools};

const SYSTEM: &str = "envoy-gateway-system";
/// Envoy Gateway's host name, which its certificate has.
const SERVICE: &str = "envoy-gateway.envoy-gateway-system.svc.cluster.local";
/// Envoy Gateway's `controllerName`.
const CONTROLLER: &str = "gateway.envoyproxy.io/gatewayclass-controller";

/// Envoy Gateway in Kubernetes mode with a cluster. It listens at all addresses, so a network namespace has room for
/// one.
///
/// No kubelet runs its Envoys' pods: [`EnvoyGateway::envoy`] does instead.
#[derive(Debug)]
pub struct EnvoyGateway {
    process: Daemon,
    cluster: Cluster,
    root: Root,
}

impl EnvoyGateway {
    /// The Envoy Gateway shared by this binary's tests.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<EnvoyGateway> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// A separate Envoy Gateway with its cluster.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start() -> Result<Self> {
        let program = tools::envoy_gateway()?;
        let cluster = Cluster::start(&definitions()?).await?;
        let admin = cluster.server().admin().in_namespace(SYSTEM);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}});
        admin.apply_object(&namespace).await?;
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": "eg"},
            "spec": {"controllerName": CONTROLLER},
        });
        admin.apply_object(&class).await?;

        let certificates = Command::new(&program)
            .args(["certgen", "--disable-topology-injector"])
            .env("KUBECONFIG", cluster.server().admin_kubeconfig()?)
            .output()?;
        ensure!(
            certificates.status.success(),
            "envoy-gateway certgen: {}",
            String::from_utf8_lossy(&certificates.stderr)
        );

        let (process, root) = launch(&cluster).await?;
        Ok(Self { process, cluster, root })
    }

    /// Kills Envoy Gateway.
    pub fn end(&mut self) {
        self.process.end();
    }

    /// Starts it again after [`EnvoyGateway::end`].
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start_again(&mut self) -> Result<()> {
        (self.process, self.root) = launch(&self.cluster).await?;
        Ok(())
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The cluster, with the `GatewayClass` `eg`.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A client for the Envoys' namespace and its Secrets.
    #[must_use]
    pub fn system(&self) -> Client {
        self.cluster.server().admin().in_namespace(SYSTEM)
    }

    /// Starts a stock Envoy for a Gateway as its Deployment says. `files` replace what init containers bring, by path.
    ///
    /// # Errors
    /// If there is no such Deployment, or Envoy does not start.
    pub async fn envoy(&self, namespace: &Namespace, gateway: &str, files: &[(&str, PathBuf)]) -> Result<Proxy> {
        let system = self.system();
        let labels = format!(
            "gateway.envoyproxy.io/owning-gateway-name={gateway},gateway.envoyproxy.io/owning-gateway-namespace={}",
            namespace.name()
        );
        let written = async || {
            system
                .list("apps/v1/Deployment", &labels)
                .await
                .ok()?
                .into_iter()
                .next()
        };
        let deployment = crate::poll::until(&format!("the Deployment of {gateway}"), written).await?;
        let name = deployment["metadata"]["name"].as_str().context("no name")?;
        let pod = pod_template::Container::of(&deployment["spec"]["template"]["spec"], "envoy", name)?;

        let root = Root::new()?;
        root.write("/etc/hosts", hosts())?;
        pod.mount_into(&root, &system).await?;
        for (path, file) in files {
            root.write(path, std::fs::read(file).with_context(|| file.display().to_string())?)?;
        }
        let environment = pod.environment(&system).await?;
        Proxy::start_in(root, &pod.arguments(&environment), &environment).await
    }

    /// Envoy Gateway's log.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn log(&self) -> Result<String> {
        self.process.log()
    }
}

async fn launch(cluster: &Cluster) -> Result<(Daemon, Root)> {
    let admin = cluster.server().admin().in_namespace(SYSTEM);
    let root = Root::new()?;
    for (file, content) in secret(&admin, "envoy-gateway").await? {
        root.write(&format!("/certs/{file}"), content)?;
    }
    root.write("/etc/hosts", hosts())?;
    // Envoy Gateway keeps the wasm files that it serves here.
    root.directory("/var/lib/eg")?;
    let config = json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": CONTROLLER},
        "provider": {"type": "Kubernetes", "kubernetes": {
            "proxyTopologyInjector": {"disabled": true},
            "leaderElection": {"disable": true},
        }},
        "extensionApis": {"enableEnvoyPatchPolicy": true, "enableLua": true},
    });
    root.write("/envoy-gateway.yaml", config.to_string())?;
    let mut command = root.command(tools::envoy_gateway()?);
    command
        .args(["server", "--config-path", "/envoy-gateway.yaml"])
        .env("KUBECONFIG", cluster.server().admin_kubeconfig()?);
    let mut process = Daemon::start("envoy-gateway", &mut command, root.as_ref())?;
    process.until_ready(ready).await?;
    Ok((process, root))
}

async fn ready() -> Option<()> {
    let answer = Request::get(([127, 0, 0, 1], 8081).into(), "/readyz").send().await;
    answer.ok().filter(|answer| answer.status == 200).map(drop)
}

/// `/etc/hosts`. Envoys also look up the name with a final dot as it is.
fn hosts() -> String {
    format!("127.0.0.1 localhost {SERVICE} {SERVICE}.\n")
}

pub(super) async fn secret(client: &Client, name: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let secret = client.get("v1/Secret", name).await?;
    let data = secret["data"].as_object().context("the Secret is empty")?;
    data.iter()
        .map(|(key, value)| {
            let content = BASE64_STANDARD.decode(value.as_str().unwrap_or_default())?;
            Ok((key.clone(), content))
        })
        .collect()
}

fn definitions() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(tools::envoy_gateway_crds()?)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// A field's value, which must be text.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("no {field} in {value}"))
}
