//! A running cluster.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use serde_json::json;
use tokio::sync::OnceCell;

use super::daemon::Daemon;
use super::{ApiServer, Namespace, Release, controllers, manifest};

/// The node of all pods.
pub(super) const NODE: &str = "node";

/// An API server with the Gateway API's kinds of one release, Kubernetes' own controllers, and a node that nothing runs on. It ends with
/// its value.
#[derive(Debug)]
pub struct Cluster {
    controllers: Daemon,
    server: ApiServer,
    names: AtomicUsize,
}

impl Cluster {
    /// The one that all tests of this binary share that want this release. Each has a namespace of its own in it.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn shared(release: Release) -> Result<&'static Self> {
        static V1_2_1: OnceCell<Cluster> = OnceCell::const_new();
        static V1_6_1: OnceCell<Cluster> = OnceCell::const_new();
        static V1_7_0: OnceCell<Cluster> = OnceCell::const_new();
        // It is used until the binary ends. What it started ends with the network namespace.
        let cell = match release {
            Release::V1_2_1 => &V1_2_1,
            Release::V1_6_1 => &V1_6_1,
            Release::V1_7_0 => &V1_7_0,
        };
        cell.get_or_try_init(async || Self::start(&release.definitions()?).await)
            .await
    }

    /// One of a test's own, with the custom resource definitions in these files.
    ///
    /// # Errors
    /// When it does not come up, or refuses a definition.
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
        let mut yaml = String::new();
        for file in definitions {
            yaml += &std::fs::read_to_string(file).with_context(|| format!("can not read {}", file.display()))?;
            yaml += "\n---\n";
        }
        cluster.define(&yaml).await?;
        Ok(cluster)
    }

    /// Adds or changes custom resource definitions (YAML), and waits until their kinds are there.
    ///
    /// # Errors
    /// When one is refused, or its kind does not come.
    pub async fn define(&self, definitions: &str) -> Result<()> {
        let admin = self.server.admin();
        let definitions = manifest::objects(definitions)?;
        for definition in &definitions {
            let applied = admin.apply_object(definition).await;
            applied.with_context(|| format!("the definition {}", definition["metadata"]["name"]))?;
        }
        // It takes the API server a moment for each, but not for one after the other.
        for definition in &definitions {
            admin.until_defined(definition).await?;
        }
        Ok(())
    }

    /// The API server.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The API server, to be stopped and started again.
    pub fn server_mut(&mut self) -> &mut ApiServer {
        &mut self.server
    }

    /// A namespace that nobody has yet, its name beginning with this.
    ///
    /// # Errors
    /// When it can not be created.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        let name = format!("{prefix}-{}", self.names.fetch_add(1, Ordering::Relaxed));
        let admin = self.server.admin();
        admin
            .apply_object(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await?;
        Namespace::new(&admin, name)
    }

    /// What the controllers have said.
    ///
    /// # Errors
    /// When it can not be read.
    pub fn controllers_log(&self) -> Result<String> {
        self.controllers.log()
    }
}
