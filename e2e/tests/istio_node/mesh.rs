//! Istio and Limpet, installed once for all tests.

use std::path::Path;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Client, Network, Node, Release, until_rolled_out};
use limpet_e2e::{Registry, helm, tools};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::site::ROLLOUT;

/// The controller's namespace.
const LIMPET: &str = "limpet-istio";
const ISTIO: &str = "istio-system";

/// A node with Istio, the controller, and a registry with the wasm file's images.
#[derive(Debug)]
pub(crate) struct Mesh {
    node: Node,
    /// As an artefact, and as an image of one layer, as a `WasmPlugin` names them.
    pub(crate) images: [String; 2],
    pub(crate) registry: Registry,
    _network: Network,
}

impl Mesh {
    /// Tests share it, one after the other.
    pub(crate) async fn shared() -> Result<&'static Self> {
        static MESH: OnceCell<Mesh> = OnceCell::const_new();
        MESH.get_or_try_init(Self::install).await
    }

    /// Istio, then as in docs/get-started/istio.md.
    async fn install() -> Result<Self> {
        let node = Node::start().await?;
        node.define(Release::V1_6_1).await?;
        let network = Network::claim()?;
        let registry = Registry::start(network.next()?).await?;
        let push = |name: &str| anyhow::Ok(format!("oci://{}", registry.push(name)?));
        let mesh = Self {
            images: [push("limpet-wasm")?, push("limpet-wasm-compat")?],
            node,
            registry,
            _network: network,
        };
        let values = tools::checkout().join("e2e/tests/istio_node/istiod.yaml");
        let values = values.to_str().context("a path")?;
        mesh.helm("istio-base", &tools::istio_chart("base")?, ISTIO, &[])?;
        mesh.helm("istiod", &tools::istio_chart("istiod")?, ISTIO, &["--values", values])?;
        until_rolled_out(&mesh.client(ISTIO), "istiod", ROLLOUT).await?;
        let url = format!("config.istio.url={}", mesh.images[0]);
        let options = ["--set", "target=istio", "--set", &url];
        mesh.helm("limpet", &helm::chart(), LIMPET, &options)?;
        until_rolled_out(&mesh.client(LIMPET), "limpet-controller", ROLLOUT).await?;
        Ok(mesh)
    }

    fn helm(&self, release: &str, chart: &Path, namespace: &str, options: &[&str]) -> Result<()> {
        let kubeconfig = self.node.server().admin_kubeconfig()?;
        let kubeconfig = kubeconfig.to_str().context("a path")?;
        let chart = chart.to_str().context("a path")?;
        let install = [
            "install",
            release,
            chart,
            "--namespace",
            namespace,
            "--create-namespace",
        ];
        helm::run(&[&install, options, &["--kubeconfig", kubeconfig]].concat()).map(drop)
    }

    /// With all rights, in this namespace.
    pub(crate) fn client(&self, namespace: &str) -> Client {
        self.node.admin().in_namespace(namespace)
    }

    /// The Secret with the controller's key-encryption key, for another namespace.
    pub(crate) async fn key(&self) -> Result<Value> {
        let name = "limpet-key-encryption-key";
        let secret = self.client(LIMPET).until("a key", "v1/Secret", name, |_| true).await?;
        Ok(serde_json::json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "data": secret["data"],
        }))
    }

    /// Runs kubectl, for what needs more than one request.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = std::process::Command::new(tools::helm()?.with_file_name("kubectl"))
            .arg("--kubeconfig")
            .arg(self.node.server().admin_kubeconfig()?)
            .args(arguments)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "kubectl {}: {said}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }
}
