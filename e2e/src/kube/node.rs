//! A genuine node.

mod containerd;
mod kubelet;
mod load_balancer;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::daemon::Daemon;
use super::{ApiServer, Client, Release};
use crate::tools;

/// The node's name, and its address from e2e/tools/in-node.sh.
const NAME: &str = "node";
const ADDRESS: &str = "10.66.255.254";

const PODS: &str = "10.244.0.0/24";
const DNS_ADDRESS: &str = "10.67.0.10";

const KUBELET: &str = "system:node:node";
const PROXY: &str = "system:kube-proxy";
const SCHEDULER: &str = "system:kube-scheduler";
const CONTROLLERS: &str = "system:kube-controller-manager";

/// `CoreDNS` with one replica.
const DNS: &str = include_str!("node/dns.yaml");

/// A genuine Kubernetes cluster of one node, with the images of `e2e/tools/with-node.sh` and no registry; Services of
/// the type `LoadBalancer` get addresses. Its containers end with the namespaces of `e2e/tools/in-node.sh`.
#[derive(Debug)]
pub struct Node {
    daemons: Vec<Daemon>,
    server: ApiServer,
}

impl Node {
    /// The node shared by this binary's tests.
    ///
    /// # Errors
    /// If it does not start, or a part of it has ended.
    pub async fn shared() -> Result<&'static Self> {
        static NODE: OnceCell<Node> = OnceCell::const_new();
        let node = NODE.get_or_try_init(Self::start).await?;
        node.server.ensure_running()?;
        node.daemons.iter().try_for_each(Daemon::ensure_running)?;
        Ok(node)
    }

    /// Starts a cluster, and waits until its node is ready and resolves names.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start() -> Result<Self> {
        let users = [
            (KUBELET, "system:nodes"),
            (PROXY, "system:node-proxier"),
            (SCHEDULER, "system:kube-scheduler"),
            (CONTROLLERS, "system:kube-controller-manager"),
        ];
        let server = ApiServer::start_with(&users).await?;
        let mut node = Self {
            daemons: Vec::new(),
            server,
        };
        let (scheduler, controllers, proxy) = (node.scheduler()?, node.controllers()?, node.proxy()?);
        let containerd = containerd::start(node.server.directory()).await?;
        let kubelet = kubelet::start(&node.server)?;
        node.daemons = vec![kubelet, proxy, scheduler, controllers, containerd];
        node.until_ready().await?;
        load_balancer::start(node.admin())?;
        Ok(node)
    }

    /// The API server.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A client with all rights.
    #[must_use]
    pub fn admin(&self) -> Client {
        self.server.admin()
    }

    /// Adds this release's definitions of the Gateway API.
    ///
    /// # Errors
    /// If one is refused, or its kind is not served.
    pub async fn define(&self, release: Release) -> Result<()> {
        self.admin().define_all(&release.definitions()?).await
    }

    /// The names of the images for pods.
    ///
    /// # Errors
    /// If containerd does not list them.
    pub fn images(&self) -> Result<Vec<String>> {
        containerd::image_names()
    }

    async fn until_ready(&mut self) -> Result<()> {
        let admin = self.server.admin();
        admin.apply(DNS).await?;
        let [kubelet, ..] = self.daemons.as_mut_slice() else {
            return Ok(());
        };
        kubelet
            .until_ready(async || {
                let node = admin.find("v1/Node", NAME).await.ok()??;
                is_ready(&node).then_some(())
            })
            .await?;
        let served = |deployment: &Value| deployment["status"]["readyReplicas"] == 1;
        let dns = admin.in_namespace("kube-system");
        dns.until("CoreDNS", "Deployment", "coredns", served).await.map(drop)
    }

    fn scheduler(&self) -> Result<Daemon> {
        let mut command = self.component("kube-scheduler", SCHEDULER)?;
        command.args(["--leader-elect=false", "--secure-port=0"]);
        Daemon::start("kube-scheduler", &mut command, self.server.directory())
    }

    fn controllers(&self) -> Result<Daemon> {
        let certificates = self.server.certificates();
        let directory = self.server.directory();
        let mut command = self.component("kube-controller-manager", CONTROLLERS)?;
        command
            .args([
                "--leader-elect=false",
                "--secure-port=0",
                "--use-service-account-credentials",
            ])
            .arg("--service-account-private-key-file")
            .arg(&certificates.token_key)
            .arg("--root-ca-file")
            .arg(&certificates.authority_file)
            // Otherwise it makes a directory in /usr.
            .arg("--flex-volume-plugin-dir")
            .arg(directory.join("volume-plugins"));
        Daemon::start("kube-controller-manager", &mut command, directory)
    }

    fn proxy(&self) -> Result<Daemon> {
        let mut command = self.component("kube-proxy", PROXY)?;
        command
            .args(["--hostname-override", NAME, "--cluster-cidr", PODS])
            // One would change the whole machine, the other needs a capability that many containers lack.
            .args(["--conntrack-max-per-core=0", "--oom-score-adj=0"]);
        Daemon::start("kube-proxy", &mut command, self.server.directory())
    }

    fn component(&self, program: &str, user: &str) -> Result<Command> {
        let mut command = command(program)?;
        command.arg("--kubeconfig").arg(self.server.component_kubeconfig(user)?);
        Ok(command)
    }
}

fn command(program: &str) -> Result<Command> {
    let file = tools::node(program)?;
    let mut path: Vec<PathBuf> = file.parent().into_iter().map(PathBuf::from).collect();
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    path.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let mut command = Command::new(file);
    command.env("PATH", std::env::join_paths(path).context("PATH")?);
    Ok(command)
}

fn is_ready(node: &Value) -> bool {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
