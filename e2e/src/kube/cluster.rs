//! A running cluster.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::daemon::Daemon;
use super::{ApiServer, Namespace, Release, controllers, manifest};
use crate::poll;

/// The node that all pods are on.
pub(super) const NODE: &str = "node";

/// An API server with the Gateway API's kinds of one release, Kubernetes' own controllers, and one node without a
/// kubelet. It stops when the value is dropped.
#[derive(Debug)]
pub struct Cluster {
    controllers: Daemon,
    server: ApiServer,
    names: AtomicUsize,
}

impl Cluster {
    /// The cluster of this release that all tests of this binary share. Each test has a namespace in it.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn shared(release: Release) -> Result<&'static Self> {
        static V1_2_1: OnceCell<Cluster> = OnceCell::const_new();
        static V1_6_1: OnceCell<Cluster> = OnceCell::const_new();
        static V1_7_0: OnceCell<Cluster> = OnceCell::const_new();
        // The cluster is used until the binary ends. Its processes end with the network namespace.
        let cell = match release {
            Release::V1_2_1 => &V1_2_1,
            Release::V1_6_1 => &V1_6_1,
            Release::V1_7_0 => &V1_7_0,
        };
        cell.get_or_try_init(async || Self::start(&release.definitions()?).await)
            .await
    }

    /// Starts a cluster for one test, with the custom resource definitions in these files.
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
        let mut yaml = String::new();
        for file in definitions {
            yaml += &std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            yaml += "\n---\n";
        }
        cluster.define(&yaml).await?;
        Ok(cluster)
    }

    /// Adds or changes custom resource definitions (YAML), and waits until their kinds are served. An admission policy
    /// of the Gateway API may be among them.
    ///
    /// # Errors
    /// If a definition is refused, or its kind is not served.
    pub async fn define(&self, definitions: &str) -> Result<()> {
        let admin = self.server.admin();
        let definitions = manifest::objects(definitions)?;
        for definition in &definitions {
            let applied = admin.apply_object(definition).await;
            applied.with_context(|| format!("the definition {}", definition["metadata"]["name"]))?;
        }
        // The API server needs a moment for each. All moments pass at the same time.
        for definition in &definitions {
            match definition["kind"].as_str() {
                Some("CustomResourceDefinition") => admin.until_defined(definition).await?,
                Some("ValidatingAdmissionPolicy") => self.until_definitions_are_judged(true).await?,
                _ => (),
            }
        }
        Ok(())
    }

    /// Waits until an admission policy of the Gateway API is in force, or is in force no longer.
    ///
    /// # Errors
    /// If that does not happen.
    pub async fn until_definitions_are_judged(&self, judged: bool) -> Result<()> {
        let admin = self.server.admin();
        poll::until("the admission policy of the Gateway API", async || {
            let answer = admin.dry_run(&of_no_release()).await;
            let refused = answer.is_err_and(|error| format!("{error:#}").contains("ValidatingAdmissionPolicy"));
            (refused == judged).then_some(())
        })
        .await
    }

    /// The API server.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The API server, to stop and start it.
    pub fn server_mut(&mut self) -> &mut ApiServer {
        &mut self.server
    }

    /// Creates a namespace whose name begins with `prefix` and is unique in this run.
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

/// A definition in the Gateway API's group that does not name its release.
fn of_no_release() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "probes.gateway.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "gateway.networking.k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "Probe", "plural": "probes"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}
