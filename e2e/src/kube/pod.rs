//! Pods.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::Client;
use super::cluster::NODE;
use crate::{Backend, Protocol};

/// The port of every pod. It is not 8080, because control planes listen there at all addresses.
pub const POD_PORT: u16 = 8000;

/// A pod in the API, and a backend of its name at its address. There is no kubelet: the test tells the API server the
/// pod's status. Dropping the value stops the backend.
#[derive(Debug)]
pub struct Pod {
    backend: Backend,
    client: Client,
}

impl Pod {
    /// Creates the pod at an address, starts its backend, and reports it as ready.
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

    /// The name of the pod and of its backend.
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

    /// The backend, to stop and restart it.
    pub fn backend_mut(&mut self) -> &mut Backend {
        &mut self.backend
    }

    /// Reports whether the pod is ready (the condition `Ready`).
    ///
    /// # Errors
    /// If the API server refuses the status.
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

    /// Deletes the pod with its grace period: it keeps answering, serving and terminating, until [`Pod::remove`].
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn drain(&self) -> Result<()> {
        self.client.delete("v1/Pod", self.name()).await
    }

    /// Stops the backend and deletes the pod at once, drained or not. Its address is then free.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn remove(mut self) -> Result<IpAddr> {
        self.backend.stop().await;
        self.client.delete_now("v1/Pod", self.name()).await?;
        self.client.until_gone("v1/Pod", self.name()).await?;
        Ok(self.address().ip())
    }
}
