//! Three backends behind an Envoy.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{Answer, Backend, Config, Envoy, Protocol, Visitor, poll};

/// Backends a, b and c, and an Envoy in front of them.
#[derive(Debug)]
pub struct Site {
    /// Backends a, b and c.
    pub backends: [Backend; 3],
    /// The Envoy.
    pub envoy: Envoy,
}

impl Site {
    /// Starts three backends, in place of those in the file of `envoy-configs/`, and an Envoy.
    ///
    /// # Errors
    /// If Envoy does not start.
    pub async fn start(config: Config) -> Result<Self> {
        Self::start_speaking(config, &[]).await
    }

    /// As [`Site::start`], with these further protocols.
    ///
    /// # Errors
    /// If Envoy does not start.
    pub async fn start_speaking(config: Config, protocols: &[Arc<dyn Protocol>]) -> Result<Self> {
        let backends = Backend::three_speaking(protocols)?;
        let mut config = config.three_backends(&backends);
        let (cluster, size) = config.first_cluster();
        let envoy = Envoy::serve(config).await?;
        let healthy = format!("cluster.{cluster}.membership_healthy");
        envoy.until_stat(&healthy, size as u64).await?;
        Ok(Self { backends, envoy })
    }

    /// Starts `cookie.yaml` with this policy.
    ///
    /// # Errors
    /// If Envoy does not start.
    pub async fn with_policy(policy: &Value) -> Result<Self> {
        Self::start(Config::load("cookie.yaml")?.policy(policy)).await
    }

    /// The backend that answered.
    ///
    /// # Errors
    /// If Envoy answered without a backend.
    pub fn backend_of(&mut self, answer: &Answer) -> Result<&mut Backend> {
        self.backend(answer.backend().context("Envoy answered without a backend")?)
    }

    /// Stops the backend that answered, and waits until Envoy has noticed, whose requests on closed connections would
    /// fail.
    ///
    /// # Errors
    /// If Envoy answered without a backend, or keeps connections to it.
    pub async fn stop_backend_of(&mut self, answer: &Answer) -> Result<()> {
        let backend = self.backend_of(answer)?;
        let idle = format!("::{}::cx_active::0", backend.address());
        backend.stop().await;
        poll::until("Envoy to close its connections to a stopped backend", async || {
            let clusters = self.envoy.admin_text("/clusters").await.ok()?;
            clusters.lines().any(|line| line.ends_with(&idle)).then_some(())
        })
        .await
    }

    /// The backend of this name.
    ///
    /// # Errors
    /// If there is no such backend.
    pub fn backend(&mut self, name: &str) -> Result<&mut Backend> {
        let backend = self.backends.iter_mut().find(|backend| backend.name() == name);
        backend.with_context(|| format!("the site has no backend {name}"))
    }

    /// Fails these backends' health checks, and waits until every worker knows.
    ///
    /// # Errors
    /// If that does not happen.
    pub async fn make_unhealthy(&self, names: &[&str]) -> Result<()> {
        for backend in self.backends.iter().filter(|backend| names.contains(&backend.name())) {
            backend.set_healthy(false);
        }
        let left = self.backends.len() - names.len();
        self.envoy
            .until_stat("cluster.backends.membership_healthy", left as u64)
            .await?;
        self.envoy
            .until_every_worker("sends no request to unhealthy backends", |answer| {
                !answer.backend().is_some_and(|backend| names.contains(&backend))
            })
            .await
    }

    /// A visitor without cookies.
    #[must_use]
    pub fn visitor(&self) -> Visitor {
        Visitor::new(&self.envoy)
    }
}
