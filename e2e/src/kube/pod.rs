//! Pods.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::Client;
use super::cluster::NODE;
use crate::{Backend, Protocol};

/// The port of every pod. Not 8080, where control planes listen at all addresses of the machine.
pub const POD_PORT: u16 = 8000;

/// A pod in the API, and a backend of its name at its address. The API server believes what a kubelet would tell it: here, what the test
/// tells. Its value dropped, the backend ends.
#[derive(Debug)]
pub struct Pod {
    backend: Backend,
    client: Client,
}

impl Pod {
    /// Creates the pod at an address, with its backend, and reports it as ready.
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
                "containers": [{"name": "web", "image": "none", "ports": [{"name": "http", "containerPort": POD_PORT}]}],
            },
        });
        client.apply_object(&pod).await?;
        let pod = Self { backend, client };
        pod.report(true).await?;
        Ok(pod)
    }

    /// Its name, and that of its backend.
    #[must_use]
    pub fn name(&self) -> &str {
        self.backend.name()
    }

    /// Where its backend listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.backend.address()
    }

    /// What answers for it.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// What answers for it, to be stopped and started again.
    pub fn backend_mut(&mut self) -> &mut Backend {
        &mut self.backend
    }

    /// Reports whether it is ready (the condition `Ready`).
    ///
    /// # Errors
    /// When the API server does not take it.
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

    /// Deletes it with its grace period: it goes on answering, serving and terminating, until [`Pod::remove`].
    ///
    /// # Errors
    /// When the API server does not take it.
    pub async fn drain(&self) -> Result<()> {
        self.client.delete("v1/Pod", self.name()).await
    }

    /// Stops its backend and deletes it at once, drained or not. Its address is free then.
    ///
    /// # Errors
    /// When the API server does not take it.
    pub async fn remove(mut self) -> Result<IpAddr> {
        self.backend.stop().await;
        self.client.delete_now("v1/Pod", self.name()).await?;
        self.client.until_gone("v1/Pod", self.name()).await?;
        Ok(self.address().ip())
    }
}
