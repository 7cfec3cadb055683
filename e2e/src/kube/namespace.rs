//! Namespaces.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::cluster::NODE;
use super::pod::POD_PORT;
use super::{Client, Network, Pod};
use crate::{Protocol, poll};

/// The namespace of one test, with all rights and its own addresses. It is not deleted afterwards.
#[derive(Debug)]
pub struct Namespace {
    client: Client,
    name: String,
    network: Network,
}

/// One endpoint of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its address.
    pub address: SocketAddr,
    /// The pod's name.
    pub pod: String,
    /// Whether it takes new sessions.
    pub ready: bool,
    /// Whether it answers.
    pub serving: bool,
    /// Whether it is being removed.
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

    /// The namespace's name, unique in this run, also among `GatewayClass`es.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A free address for anything but a pod.
    ///
    /// # Errors
    /// If all addresses are used.
    pub fn next_address(&self) -> Result<IpAddr> {
        self.network.next()
    }

    /// The unique `controllerName` of the controller under test; other tests' controllers ignore its objects.
    #[must_use]
    pub fn controller_name(&self) -> String {
        format!("limpet.dev/{}", self.name)
    }

    /// Creates a `GatewayClass` of the namespace's name for the controller under test.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn gateway_class(&self) -> Result<()> {
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": self.name},
            "spec": {"controllerName": self.controller_name()},
        });
        self.apply_object(&class).await.map(drop)
    }

    /// This namespace's name for a cluster role of `controller/deploy`.
    #[must_use]
    pub fn cluster_role(&self, role: &str) -> String {
        format!("{role}:{}", self.name)
    }

    /// Binds the controller to a cluster role of `controller/deploy` in this namespace.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn bind(&self, role: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": self.cluster_role(role),
            },
            "subjects": [{"kind": "ServiceAccount", "name": "limpet-controller", "namespace": self.name}],
        });
        self.apply_object(&binding).await.map(drop)
    }

    /// Creates a Service with port 80 for pods with these labels.
    ///
    /// # Errors
    /// If it is refused.
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

    /// Creates a ready pod and its backend at a new address, port [`POD_PORT`].
    ///
    /// # Errors
    /// If it is refused.
    pub async fn pod(&self, name: &str, labels: &[(&str, &str)]) -> Result<Pod> {
        self.pod_at(name, labels, self.network.next()?).await
    }

    /// As [`Namespace::pod`], at this address, such as a removed pod's.
    ///
    /// # Errors
    /// If it is refused, or the address is in use.
    pub async fn pod_at(&self, name: &str, labels: &[(&str, &str)], ip: IpAddr) -> Result<Pod> {
        Pod::start(self.client.clone(), name, labels, ip, &[]).await
    }

    /// As [`Namespace::pod`], with these further protocols.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn pod_speaking(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        protocols: &[Arc<dyn Protocol>],
    ) -> Result<Pod> {
        Pod::start(self.client.clone(), name, labels, self.network.next()?, protocols).await
    }

    /// Creates a ready pod by whose labels and port commands find a controller, whose pages are at this address.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn controller_pod(&self, name: &str, pages: SocketAddr) -> Result<()> {
        let labels = json!({"app.kubernetes.io/name": "limpet-controller", "app.kubernetes.io/instance": "limpet"});
        let ports = json!([{"name": "http", "containerPort": pages.port()}]);
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": NODE, "containers": [{"name": "controller", "image": "none", "ports": ports}]},
        });
        self.apply_object(&pod).await?;
        let ip = pages.ip();
        let status = json!({
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        self.merge_status("v1/Pod", name, &status).await.map(drop)
    }

    /// Waits until `check` holds for a Service's endpoints, sorted by address, and returns them.
    ///
    /// # Errors
    /// If that does not happen.
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

impl Deref for Namespace {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
