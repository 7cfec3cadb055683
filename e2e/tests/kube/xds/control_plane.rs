//! An xDS server in this process, and the bootstraps of its Envoys.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use limpet_e2e::kube::Proxy;
use limpet_e2e::poll;
use limpet_resources::Resources;
use limpet_xds::{Server, ServerOptions, ServerSecurity, Snapshots};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(super) const GROUP: &str = "default/web";

/// The two forms of the protocol, as values of `api_type`.
pub(super) const BOTH: [&str; 2] = ["DELTA_GRPC", "GRPC"];

pub(super) struct ControlPlane {
    pub(super) snapshots: Snapshots,
    pub(super) address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<()>>,
}

impl ControlPlane {
    pub(super) async fn start() -> Result<Self> {
        Self::start_at(
            SocketAddr::from(([127, 0, 0, 1], 0)),
            ServerSecurity::PlaintextOnLoopback,
        )
        .await
    }

    pub(super) async fn start_at(address: SocketAddr, security: ServerSecurity) -> Result<Self> {
        let snapshots = Snapshots::new();
        let server = Server::bind(ServerOptions { address, security }, snapshots.clone()).await?;
        let (end, ended) = oneshot::channel();
        Ok(Self {
            snapshots,
            address: server.address(),
            end: Some(end),
            task: tokio::spawn(async {
                let ended = async { ended.await.unwrap_or(()) };
                Ok(server.serve(ended).await?)
            }),
        })
    }

    /// Ends the streams first.
    pub(super) async fn stop(mut self) -> Result<()> {
        drop(self.end.take());
        poll::patiently("the server to end", async { (&mut self.task).await? }).await
    }

    pub(super) fn publish(&self, resources: &Resources) {
        self.snapshots.publish(GROUP, resources.clone());
    }

    pub(super) async fn until_settled(&self, nodes: usize) -> Result<()> {
        let status = self.snapshots.status();
        let settled = async || (status.connected(GROUP) == nodes && status.is_settled(GROUP)).then_some(());
        let waited = poll::until("the Envoys to have everything", settled).await;
        waited.with_context(|| {
            format!(
                "{:?}, refused: {:?}",
                status.nodes(GROUP),
                status.refusals(GROUP, usize::MAX)
            )
        })
    }

    /// A stock Envoy that gets everything from this server.
    pub(super) async fn envoy(&self, api_type: &str) -> Result<Proxy> {
        Proxy::start(&bootstrap(self.address, api_type, &Value::Null).to_string(), &[]).await
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A bootstrap for ADS. `transport_socket` is for the server's cluster.
pub(super) fn bootstrap(server: SocketAddr, api_type: &str, transport_socket: &Value) -> Value {
    let ads = json!({"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "60s"});
    json!({
        "node": {"id": "envoy", "cluster": GROUP},
        "admin": {"address": socket_address(SocketAddr::from(([127, 0, 0, 1], 0)))},
        "dynamic_resources": {
            "ads_config": api_config(api_type),
            "cds_config": ads,
            "lds_config": ads,
        },
        "static_resources": {"clusters": [xds_cluster(server, transport_socket)]},
    })
}

pub(super) fn api_config(api_type: &str) -> Value {
    json!({
        "api_type": api_type,
        "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {
            "cluster_name": "xds",
            "retry_policy": {"retry_back_off": {"base_interval": "0.1s", "max_interval": "0.2s"}},
        }}],
    })
}

pub(super) fn xds_cluster(server: SocketAddr, transport_socket: &Value) -> Value {
    let http2 = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    });
    let mut cluster = json!({
        "name": "xds",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
        "load_assignment": {
            "cluster_name": "xds",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket_address(server)}}]}],
        },
    });
    if !transport_socket.is_null() {
        cluster["transport_socket"] = transport_socket.clone();
    }
    cluster
}

pub(super) fn socket_address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip(), "port_value": address.port()}})
}
