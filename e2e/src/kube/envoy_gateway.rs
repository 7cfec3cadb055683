//! Envoy Gateway, the control plane.

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

/// Where Envoy Gateway is installed, and where it puts its Envoys.
const SYSTEM: &str = "envoy-gateway-system";
/// Its name in the cluster, which its own certificate has.
const SERVICE: &str = "envoy-gateway.envoy-gateway-system.svc.cluster.local";
/// Who it is in a `GatewayClass`.
const CONTROLLER: &str = "gateway.envoyproxy.io/gatewayclass-controller";

/// A genuine Envoy Gateway in Kubernetes mode, alone in a cluster with the definitions that come with it. There can be one for a network
/// namespace, since it listens at all addresses.
///
/// What it wants to run it writes as Deployments. Nobody runs their pods; [`EnvoyGateway::envoy`] does what a kubelet would.
#[derive(Debug)]
pub struct EnvoyGateway {
    process: Daemon,
    cluster: Cluster,
    _root: Root,
}

impl EnvoyGateway {
    /// The one that all tests of this binary share.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<EnvoyGateway> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> Result<Self> {
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

        let kubeconfig = cluster.server().admin_kubeconfig()?;
        let certificates = Command::new(&program)
            .args(["certgen", "--disable-topology-injector"])
            .env("KUBECONFIG", &kubeconfig)
            .output()?;
        ensure!(
            certificates.status.success(),
            "envoy-gateway certgen: {}",
            String::from_utf8_lossy(&certificates.stderr)
        );

        let root = Root::new()?;
        for (file, content) in secret(&admin, "envoy-gateway").await? {
            root.write(&format!("/certs/{file}"), content)?;
        }
        root.write("/etc/hosts", hosts())?;
        // Where it keeps the wasm files that it serves.
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
        let mut command = root.command(program);
        command
            .args(["server", "--config-path", "/envoy-gateway.yaml"])
            .env("KUBECONFIG", kubeconfig);
        let mut process = Daemon::start("envoy-gateway", &mut command, root.as_ref())?;
        process.until_ready(ready).await?;
        Ok(Self {
            process,
            cluster,
            _root: root,
        })
    }

    /// The cluster. It has the `GatewayClass` `eg`.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What may be done in the namespace of the Envoys, where the Secrets for them are.
    #[must_use]
    pub fn system(&self) -> Client {
        self.cluster.server().admin().in_namespace(SYSTEM)
    }

    /// A stock Envoy for a Gateway, as the Deployment says that Envoy Gateway has written for it: its arguments, environment and volumes. Files
    /// that its init containers would bring are given here, by the paths at which it sees them.
    ///
    /// # Errors
    /// When there is no such Deployment, or Envoy does not come up.
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

    /// What it has said.
    ///
    /// # Errors
    /// When that can not be read.
    pub fn log(&self) -> Result<String> {
        self.process.log()
    }
}

async fn ready() -> Option<()> {
    let answer = Request::get(([127, 0, 0, 1], 8081).into(), "/readyz").send().await;
    answer.ok().filter(|answer| answer.status == 200).map(drop)
}

/// Envoys ask with a dot at the end, too, which their library does not leave out for this file.
fn hosts() -> String {
    format!("127.0.0.1 localhost {SERVICE} {SERVICE}.\n")
}

/// What is in a Secret.
pub(super) async fn secret(client: &Client, name: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let secret = client.get("v1/Secret", name).await?;
    let data = secret["data"].as_object().context("an empty Secret")?;
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

/// The value of an object's field that has to be a text.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("no {field} in {value}"))
}
