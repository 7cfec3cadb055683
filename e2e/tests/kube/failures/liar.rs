//! A node that refuses what Envoy takes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, aggregated_discovery_service_client::AggregatedDiscoveryServiceClient,
};
use envoy_types::pb::google::rpc;
use limpet_resources::{PREFLIGHT, ResourceType};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

pub(super) struct Liar {
    lies: Arc<AtomicUsize>,
    _exchange: JoinSet<Result<()>>,
}

impl Liar {
    /// Takes part in the preflight, and refuses all that contains this text.
    pub(super) async fn connect(xds: SocketAddr, group: &str, node: &str, refused: &'static str) -> Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{xds}"))?.connect().await?;
        let (requests, mut sent) = mpsc::unbounded_channel();
        let request = DeltaDiscoveryRequest {
            type_url: ResourceType::RouteConfiguration.url().to_owned(),
            ..DeltaDiscoveryRequest::default()
        };
        requests.send(DeltaDiscoveryRequest {
            node: Some(Node {
                id: node.to_owned(),
                cluster: group.to_owned(),
                ..Node::default()
            }),
            resource_names_subscribe: vec![PREFLIGHT.to_owned()],
            ..request.clone()
        })?;
        let sent = futures_util::stream::poll_fn(move |context| sent.poll_recv(context));
        let mut client = AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let mut responses = client.delta_aggregated_resources(sent).await?.into_inner();
        let lies = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&lies);
        let mut exchange = JoinSet::new();
        exchange.spawn(async move {
            while let Some(response) = responses.message().await? {
                let bodies = response.resources.iter().filter_map(|of| of.resource.as_ref());
                let lie = bodies
                    .into_iter()
                    .any(|body| String::from_utf8_lossy(&body.value).contains(refused));
                told.fetch_add(usize::from(lie), Ordering::Relaxed);
                requests.send(DeltaDiscoveryRequest {
                    response_nonce: response.nonce,
                    error_detail: lie.then(|| rpc::Status {
                        message: "a lie".to_owned(),
                        ..rpc::Status::default()
                    }),
                    ..request.clone()
                })?;
            }
            Ok(())
        });
        Ok(Self {
            lies,
            _exchange: exchange,
        })
    }

    pub(super) fn lies(&self) -> usize {
        self.lies.load(Ordering::Relaxed)
    }
}
