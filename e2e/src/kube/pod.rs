//! Pods.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::Client;
use super::cluster::NODE;
use crate::{Backend, Protocol};

/// The port of every pod. Control planes listen at 8080 of all addresses.
pub const POD_PORT: u16 = 8000;

/// A pod in the API, and its backend until dropped. Without a kubelet, the test reports its status.
#[derive(Debug)]
pub struct Pod {
    backend: Backend,
    client: Client,
}

impl Pod {
    pub(super) async fn start(
        client: Client,
        name: &str,
        labels: &[(&str, &str)],
        ip: IpAddr,
        protocols: &[Arc<dyn Protocol>],
    ) -> Result<Self> {
        let backend = Backend::start_speaking(name, SocketAddr::new(ip, POD_PORT), protocols)?;
        let labels: Map<_, _> = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "nodeName": NODE,
                "containers": [{
                    "name": "web",
                    "image": "none",
                    "ports": [{"name": "http", "containerPort": POD_PORT}],
                }],
            },
        });
        client.apply_object(&pod).await?;
        let pod = Self { backend, client };
        pod.report(true).await?;
        Ok(pod)
    }

    /// The pod's and its backend's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.backend.name()
    }

    /// The backend's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.backend.address()
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The backend, to stop and restart.
    pub fn backend_mut(&mut self) -> &mut Backend {
        &mut self.backend
    }

    /// Reports the condition `Ready`.
    ///
    /// # Errors
    /// If that is refused.
    pub async fn report(&self, ready: bool) -> Result<()> {
        let status = if ready { "True" } else { "False" };
        let condition = |kind: &str| json!({"type": kind, "status": status});
        let ip = self.address().ip();
        let status: Value = json!({
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [condition("ContainersReady"), condition("Ready")],
        });
        self.client.merge_status("v1/Pod", self.name(), &status).await.map(drop)
    }

    /// Deletes the pod with its grace period; it serves, terminating, until [`Pod::remove`].
    ///
    /// # Errors
    /// If that is refused.
    pub async fn drain(&self) -> Result<()> {
        self.client.delete("v1/Pod", self.name()).await
    }

    /// Stops the backend, deletes the pod at once, and frees its address.
    ///
    /// # Errors
    /// If that is refused.
    pub async fn remove(mut self) -> Result<IpAddr> {
        self.backend.stop().await;
        self.client.delete_now("v1/Pod", self.name()).await?;
        self.client.until_gone("v1/Pod", self.name()).await?;
        Ok(self.address().ip())
    }
}
