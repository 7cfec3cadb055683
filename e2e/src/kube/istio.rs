//! Istio's control plane, and stock Envoys as its gateways.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::daemon::Daemon;
use super::{Cluster, Namespace, Network, Pod, Proxy, Release};
use crate::{Request, tools};

/// The label of a pod with its Gateway's name.
const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";

/// Stock Envoys have no filters for mutual TLS, and nothing has certificates.
const MESH: &str = "enableAutoMtls: false\n";
const WITHOUT: [(&str, &str); 2] = [
    ("PILOT_ENABLE_METADATA_EXCHANGE", "false"),
    ("PILOT_ENABLE_ALPN_FILTER", "false"),
];

/// A real istiod, with a cluster that has its kinds and the Gateway API's.
#[derive(Debug)]
pub struct Istiod {
    process: Daemon,
    cluster: Cluster,
    xds: SocketAddr,
    ports: AtomicU16,
    _directory: TempDir,
    _network: Network,
}

impl Istiod {
    /// The istiod shared by this binary's tests.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn shared() -> Result<&'static Self> {
        // It ends with the network namespace.
        static SHARED: OnceCell<Istiod> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> Result<Self> {
        let mut definitions = Release::V1_6_1.definitions()?;
        definitions.push(tools::istio_definitions()?);
        let cluster = Cluster::start(&definitions).await?;
        let admin = cluster.server().admin();
        admin
            .apply("{apiVersion: v1, kind: Namespace, metadata: {name: istio-system}}")
            .await?;
        let (network, directory) = (Network::claim()?, TempDir::with_prefix("limpet-e2e-")?);
        let ip = network.next()?;
        let (http, xds) = (SocketAddr::new(ip, 8080), SocketAddr::new(ip, 15010));
        let mesh = directory.path().join("mesh.yaml");
        std::fs::write(&mesh, MESH)?;
        let mut command = Command::new(tools::istiod()?);
        command
            .arg("discovery")
            .arg("--kubeconfig")
            .arg(cluster.server().admin_kubeconfig()?)
            .arg("--meshConfig")
            .arg(mesh)
            .args(["--networksConfig", "/nonexistent"])
            .args(["--httpAddr", &http.to_string(), "--grpcAddr", &xds.to_string()])
            .args(["--monitoringAddr", &SocketAddr::new(ip, 15014).to_string()])
            .envs([("POD_NAME", "istiod"), ("POD_NAMESPACE", "istio-system")])
            .envs(WITHOUT)
            // istiod makes certificates below its working directory.
            .current_dir(directory.path());
        let mut process = Daemon::start("istiod", &mut command, directory.path())?;
        let ready = async || {
            let answer = Request::get(http, "/ready").send().await.ok()?;
            (answer.status == 200).then_some(())
        };
        process.until_ready(ready).await?;
        Ok(Self {
            process,
            cluster,
            xds,
            ports: AtomicU16::new(20000),
            _directory: directory,
            _network: network,
        })
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// istiod's log.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn log(&self) -> Result<String> {
        self.process.log()
    }

    /// Creates the Service of a Gateway with one port, as Istio's controller does. The Envoys listen at its target
    /// port.
    ///
    /// # Errors
    /// If an object is refused.
    pub async fn gateway(&self, namespace: &Namespace, name: &str, port: u16) -> Result<Gateway> {
        let target = self.ports.fetch_add(1, Ordering::Relaxed);
        let service = format!("{name}-istio");
        let labels = json!({(GATEWAY_NAME): name});
        namespace
            .apply_object(&json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": service, "labels": labels},
                "spec": {"selector": labels, "ports": [{"name": "http", "port": port, "targetPort": target}]},
            }))
            .await?;
        let pod = namespace.pod(&service, &[(GATEWAY_NAME, name)]).await?;
        Ok(Gateway {
            name: name.to_owned(),
            namespace: namespace.name().to_owned(),
            address: SocketAddr::new(pod.address().ip(), target),
            pod,
            xds: self.xds,
        })
    }
}

/// A Gateway's Service, and the pod of its Envoys.
#[derive(Debug)]
pub struct Gateway {
    name: String,
    namespace: String,
    address: SocketAddr,
    pod: Pod,
    xds: SocketAddr,
}

impl Gateway {
    /// The Envoy's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts a stock Envoy for the Gateway with these environment variables; it may not have its configuration yet.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn envoy(&self, environment: &[(&str, &str)]) -> Result<Proxy> {
        Proxy::start(&self.bootstrap().to_string(), environment).await
    }

    /// The bootstrap of Istio's agent, without what a stock Envoy or this machine lacks.
    fn bootstrap(&self) -> Value {
        let (ip, pod, namespace) = (self.pod.address().ip(), self.pod.name(), &self.namespace);
        let socket =
            |address: SocketAddr| json!({"socket_address": {"address": address.ip(), "port_value": address.port()}});
        let ads = json!({"ads": {}, "resource_api_version": "V3"});
        let protocol = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        json!({
            "node": {
                "id": format!("router~{ip}~{pod}.{namespace}~{namespace}.svc.cluster.local"),
                "cluster": format!("{pod}.{namespace}"),
                "metadata": {
                    "NAMESPACE": namespace,
                    "CLUSTER_ID": "Kubernetes",
                    "INSTANCE_IPS": ip,
                    "LABELS": {(GATEWAY_NAME): self.name},
                },
            },
            "admin": {"address": socket(SocketAddr::new(ip, 0))},
            "dynamic_resources": {
                "ads_config": {
                    "api_type": "DELTA_GRPC",
                    "transport_api_version": "V3",
                    "grpc_services": [{"envoy_grpc": {"cluster_name": "istiod"}}],
                },
                "cds_config": ads,
                "lds_config": ads,
            },
            "static_resources": {"clusters": [{
                "name": "istiod",
                "type": "STATIC",
                "connect_timeout": "5s",
                "typed_extension_protocol_options": {(protocol): {
                    "@type": format!("type.googleapis.com/{protocol}"),
                    "explicit_http_config": {"http2_protocol_options": {}},
                }},
                "load_assignment": {
                    "cluster_name": "istiod",
                    "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket(self.xds)}}]}],
                },
            }]},
        })
    }
}
