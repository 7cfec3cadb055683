//! A running cluster.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use serde_json::json;
use tokio::sync::OnceCell;

use super::daemon::Daemon;
use super::{ApiServer, Namespace, Release, controllers};

/// The node of all pods.
pub(super) const NODE: &str = "node";

/// An API server with one release of the Gateway API, Kubernetes' controllers, and a node without a kubelet.
#[derive(Debug)]
pub struct Cluster {
    controllers: Daemon,
    server: ApiServer,
    names: AtomicUsize,
}

impl Cluster {
    /// The cluster of this release shared by this binary's tests, with a namespace for each.
    ///
    /// # Errors
    /// If it does not start, or a part of it has ended.
    pub async fn shared(release: Release) -> Result<&'static Self> {
        static V1_2_1: OnceCell<Cluster> = OnceCell::const_new();
        static V1_6_1: OnceCell<Cluster> = OnceCell::const_new();
        static V1_7_0: OnceCell<Cluster> = OnceCell::const_new();
        // It ends with the network namespace.
        let cell = match release {
            Release::V1_2_1 => &V1_2_1,
            Release::V1_6_1 => &V1_6_1,
            Release::V1_7_0 => &V1_7_0,
        };
        let cluster = cell
            .get_or_try_init(async || Self::start(&release.definitions()?).await)
            .await?;
        cluster.server.ensure_running()?;
        Ok(cluster)
    }

    /// Starts a cluster with these files of definitions. It takes seconds of a processor, so tests should share one.
    ///
    /// # Errors
    /// If it does not start, or refuses a definition.
    pub async fn start(definitions: &[PathBuf]) -> Result<Self> {
        let server = ApiServer::start().await?;
        let admin = server.admin();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
        admin.apply_object(&node).await?;
        let cluster = Self {
            controllers: controllers::start(&server.admin_kubeconfig()?, server.directory())?,
            server,
            names: AtomicUsize::new(1),
        };
        cluster.define_all(definitions).await?;
        Ok(cluster)
    }

    /// As [`super::Client::define`].
    ///
    /// # Errors
    /// As there.
    pub async fn define(&self, definitions: &str) -> Result<()> {
        self.server.admin().define(definitions).await
    }

    /// As [`super::Client::define_all`].
    ///
    /// # Errors
    /// As there.
    pub async fn define_all(&self, definitions: &[PathBuf]) -> Result<()> {
        self.server.admin().define_all(definitions).await
    }

    /// As [`super::Client::until_definitions_are_judged`].
    ///
    /// # Errors
    /// As there.
    pub async fn until_definitions_are_judged(&self, judged: bool) -> Result<()> {
        self.server.admin().until_definitions_are_judged(judged).await
    }

    /// The API server.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The API server, to stop and start.
    pub fn server_mut(&mut self) -> &mut ApiServer {
        &mut self.server
    }

    /// Creates a namespace with a unique name after `prefix`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        let name = format!("{prefix}-{}", self.names.fetch_add(1, Ordering::Relaxed));
        let admin = self.server.admin();
        admin
            .apply_object(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await?;
        Namespace::new(&admin, name)
    }

    /// The log of Kubernetes' controllers.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn controllers_log(&self) -> Result<String> {
        self.controllers.log()
    }
}
