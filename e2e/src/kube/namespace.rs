//! Namespaces.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::pod::POD_PORT;
use super::{Client, Network, Pod};
use crate::{Protocol, poll};

/// A namespace of one test's own: a client that may do everything, and addresses for pods. It stays when the test is over.
#[derive(Debug)]
pub struct Namespace {
    client: Client,
    name: String,
    network: Network,
}

/// One endpoint of a Service, in whichever of its `EndpointSlices`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// The pod's name.
    pub pod: String,
    /// Whether it takes new sessions.
    pub ready: bool,
    /// Whether it answers.
    pub serving: bool,
    /// Whether it is about to go.
    pub terminating: bool,
}

impl Namespace {
    pub(super) fn new(client: &Client, name: String) -> Result<Self> {
        Ok(Self {
            client: client.in_namespace(&name),
            name,
            network: Network::claim()?,
        })
    }

    /// Its name, which no other test of this run has: a name for a `GatewayClass`, too.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An address for whatever is not a pod.
    ///
    /// # Errors
    /// When none is left.
    pub fn next_address(&self) -> Result<IpAddr> {
        self.network.next()
    }

    /// What the controller under test is called in a `GatewayClass`: other tests' controllers keep away from its objects.
    #[must_use]
    pub fn controller_name(&self) -> String {
        format!("limpet.dev/{}", self.name)
    }

    /// A `GatewayClass` of the namespace's name, for the controller under test.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn gateway_class(&self) -> Result<()> {
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": self.name},
            "spec": {"controllerName": self.controller_name()},
        });
        self.apply_object(&class).await.map(drop)
    }

    /// A Service with port 80, for the pods with these labels.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn service(&self, name: &str, selector: &[(&str, &str)]) -> Result<()> {
        let selector: Map<_, _> = selector
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": selector, "ports": [{"name": "http", "port": 80, "targetPort": POD_PORT}]},
        });
        self.apply_object(&service).await.map(drop)
    }

    /// A ready pod with a backend of its name, at an address of its own, port [`POD_PORT`].
    ///
    /// # Errors
    /// When it is refused.
    pub async fn pod(&self, name: &str, labels: &[(&str, &str)]) -> Result<Pod> {
        self.pod_at(name, labels, self.network.next()?).await
    }

    /// As [`Namespace::pod`], at this address: that of a pod that is gone, for example.
    ///
    /// # Errors
    /// When it is refused, or the address can not be had.
    pub async fn pod_at(&self, name: &str, labels: &[(&str, &str)], ip: IpAddr) -> Result<Pod> {
        Pod::start(self.client.clone(), name, labels, ip, &[]).await
    }

    /// As [`Namespace::pod`], with a backend that speaks these protocols too.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn pod_speaking(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        protocols: &[Arc<dyn Protocol>],
    ) -> Result<Pod> {
        Pod::start(self.client.clone(), name, labels, self.network.next()?, protocols).await
    }

    /// Waits until this holds for a Service's endpoints, which are sorted by their addresses. The answer is the endpoints then.
    ///
    /// # Errors
    /// When that does not happen: the message has the endpoints as they are.
    pub async fn endpoints(&self, service: &str, check: impl Fn(&[Endpoint]) -> bool) -> Result<Vec<Endpoint>> {
        let mut last = None;
        let found = poll::until(&format!("the endpoints of {service}"), async || {
            last = Some(self.current_endpoints(service).await);
            let endpoints = last.as_ref()?.as_ref().ok()?;
            check(endpoints).then(|| endpoints.clone())
        })
        .await;
        found.with_context(|| format!("the endpoints are {last:?}"))
    }

    async fn current_endpoints(&self, service: &str) -> Result<Vec<Endpoint>> {
        let labels = format!("kubernetes.io/service-name={service}");
        let mut endpoints = Vec::new();
        for slice in self.list("discovery.k8s.io/v1/EndpointSlice", &labels).await? {
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                endpoints.push(Endpoint::read(endpoint, &slice["ports"][0]["port"])?);
            }
        }
        endpoints.sort();
        Ok(endpoints)
    }
}

impl Endpoint {
    fn read(endpoint: &Value, port: &Value) -> Result<Self> {
        let ip = endpoint["addresses"][0].as_str().context("no address")?;
        let condition = |name: &str| {
            endpoint["conditions"][name]
                .as_bool()
                .with_context(|| format!("no condition {name}"))
        };
        Ok(Self {
            address: format!("{ip}:{port}").parse()?,
            pod: endpoint["targetRef"]["name"].as_str().unwrap_or_default().to_owned(),
            ready: condition("ready")?,
            serving: condition("serving")?,
            terminating: condition("terminating")?,
        })
    }
}

/// What a namespace's client can do, the namespace can.
impl Deref for Namespace {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
