//! A client of the xDS server that subscribes as Envoy does and acknowledges at once.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::envoy::config::core::v3::{BuildVersion, Node};
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier, http_filter,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
    aggregated_discovery_service_client::AggregatedDiscoveryServiceClient,
};
use envoy_types::pb::envoy::r#type::v3::SemanticVersion;
use limpet_resources::ResourceType;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// Envoy's own window (`Http2ProtocolOptions.initial_stream_window_size`), larger than any response.
const WINDOW: u32 = 16 << 20;
const LARGEST: usize = 256 << 20;
/// After this silence, nothing more is expected.
const SILENCE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) resource_type: ResourceType,
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) removed: bool,
}

#[derive(Debug)]
pub(crate) struct Client {
    received: mpsc::UnboundedReceiver<Received>,
    responses: Arc<AtomicUsize>,
    _exchange: JoinSet<()>,
}

impl Client {
    /// Connects as a node of this group, and subscribes.
    pub(crate) async fn connect(address: SocketAddr, group: &str) -> Result<Self> {
        Self::connect_from(None, address, group).await
    }

    /// As [`Client::connect`], from this local address, as one address may have few connections.
    pub(crate) async fn connect_from(from: Option<IpAddr>, address: SocketAddr, group: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .tcp_nodelay(true)
            .local_address(from)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let client = AggregatedDiscoveryServiceClient::new(endpoint.connect().await?);
        let (requests, sent) = mpsc::unbounded_channel();
        for (index, resource_type) in [ResourceType::Cluster, ResourceType::Listener].into_iter().enumerate() {
            let node = (index == 0).then(|| Node {
                id: "bench".to_owned(),
                cluster: group.to_owned(),
                user_agent_name: "envoy".to_owned(),
                user_agent_version_type: Some(UserAgentVersionType::UserAgentBuildVersion(BuildVersion {
                    version: Some(SemanticVersion {
                        major_number: 1,
                        minor_number: 40,
                        patch: 0,
                    }),
                    ..BuildVersion::default()
                })),
                ..Node::default()
            });
            requests.send(DeltaDiscoveryRequest {
                node,
                type_url: resource_type.url().to_owned(),
                ..DeltaDiscoveryRequest::default()
            })?;
        }
        let sent = futures_util::stream::unfold(sent, |mut sent| async { Some((sent.recv().await?, sent)) });
        let responses = client
            .max_decoding_message_size(LARGEST)
            .delta_aggregated_resources(sent)
            .await?
            .into_inner();
        let (told, received) = mpsc::unbounded_channel();
        let counted = Arc::new(AtomicUsize::new(0));
        let exchange = Exchange {
            requests,
            told,
            responses: Arc::clone(&counted),
            subscribed: BTreeSet::new(),
        };
        let mut running = JoinSet::new();
        running.spawn(async move {
            if let Err(error) = exchange.run(responses).await {
                eprintln!("the client's stream: {error:#}");
            }
        });
        Ok(Self {
            received,
            responses: counted,
            _exchange: running,
        })
    }

    pub(crate) async fn next(&mut self) -> Result<Received> {
        let received = tokio::time::timeout(PATIENCE, self.received.recv()).await;
        received.context("nothing came")?.context("the stream ended")
    }

    pub(crate) async fn has(&mut self, resource_type: ResourceType, count: usize) -> Result<Instant> {
        let (mut found, mut at) = (0, Instant::now());
        while found < count {
            let received = self.next().await?;
            found += usize::from(received.resource_type == resource_type);
            at = received.at;
        }
        Ok(at)
    }

    pub(crate) fn responses(&self) -> usize {
        self.responses.load(Ordering::Relaxed)
    }

    pub(crate) fn drain(&mut self) -> Vec<Received> {
        std::iter::from_fn(|| self.received.try_recv().ok()).collect()
    }

    /// The resources until `count` of this type have come and then nothing more.
    pub(crate) async fn until(&mut self, resource_type: ResourceType, count: usize) -> Result<Vec<Received>> {
        let mut all: Vec<Received> = Vec::new();
        let mut found = 0;
        loop {
            let patience = if found < count { PATIENCE } else { SILENCE };
            match tokio::time::timeout(patience, self.received.recv()).await {
                Ok(received) => {
                    let received = received.context("the stream ended")?;
                    found += usize::from(received.resource_type == resource_type);
                    all.push(received);
                }
                Err(_) if found < count => anyhow::bail!("{found} of {count} resources of type {resource_type} came"),
                Err(_) => return Ok(all),
            }
        }
    }
}

struct Exchange {
    requests: mpsc::UnboundedSender<DeltaDiscoveryRequest>,
    told: mpsc::UnboundedSender<Received>,
    responses: Arc<AtomicUsize>,
    subscribed: BTreeSet<(ResourceType, String)>,
}

impl Exchange {
    async fn run(mut self, mut responses: Streaming<DeltaDiscoveryResponse>) -> Result<()> {
        while let Some(response) = responses.message().await? {
            let at = Instant::now();
            self.responses.fetch_add(1, Ordering::Relaxed);
            let resource_type =
                ResourceType::from_url(&response.type_url).context("the client did not ask for this type")?;
            self.requests.send(DeltaDiscoveryRequest {
                type_url: response.type_url,
                response_nonce: response.nonce,
                ..DeltaDiscoveryRequest::default()
            })?;
            let mut wanted = Vec::new();
            for resource in response.resources {
                let body = resource.resource.context("the resource has no content")?.value;
                match resource_type {
                    ResourceType::Cluster => wanted.extend(endpoints_of(&body)?),
                    ResourceType::Listener => wanted.extend(parts_of(&body)?),
                    _ => {}
                }
                self.tell(at, resource_type, resource.name, body.len(), false)?;
            }
            for name in response.removed_resources {
                self.tell(at, resource_type, name, 0, true)?;
            }
            self.subscribe(wanted)?;
        }
        Ok(())
    }

    fn tell(&self, at: Instant, resource_type: ResourceType, name: String, bytes: usize, removed: bool) -> Result<()> {
        let received = Received {
            at,
            resource_type,
            name,
            bytes,
            removed,
        };
        Ok(self.told.send(received)?)
    }

    fn subscribe(&mut self, wanted: Vec<(ResourceType, String)>) -> Result<()> {
        let new: Vec<_> = wanted
            .into_iter()
            .filter(|wanted| self.subscribed.insert(wanted.clone()))
            .collect();
        for resource_type in ResourceType::ALL {
            let names = new.iter().filter(|(of, _)| *of == resource_type);
            let names: Vec<_> = names.map(|(_, name)| name.clone()).collect();
            if !names.is_empty() {
                self.requests.send(DeltaDiscoveryRequest {
                    type_url: resource_type.url().to_owned(),
                    resource_names_subscribe: names,
                    ..DeltaDiscoveryRequest::default()
                })?;
            }
        }
        Ok(())
    }
}

fn endpoints_of(cluster: &[u8]) -> Result<Option<(ResourceType, String)>> {
    let cluster = Cluster::decode(cluster)?;
    let discovered = cluster.eds_cluster_config.is_some();
    Ok(discovered.then_some((ResourceType::ClusterLoadAssignment, cluster.name)))
}

fn parts_of(listener: &[u8]) -> Result<Vec<(ResourceType, String)>> {
    let listener = Listener::decode(listener)?;
    let mut wanted = Vec::new();
    for filter in listener.filter_chains.into_iter().flat_map(|chain| chain.filters) {
        let Some(ConfigType::TypedConfig(config)) = filter.config_type else {
            continue;
        };
        if !config.type_url.ends_with("HttpConnectionManager") {
            continue;
        }
        let manager = HttpConnectionManager::decode(config.value.as_slice())?;
        if let Some(RouteSpecifier::Rds(routes)) = manager.route_specifier {
            wanted.push((ResourceType::RouteConfiguration, routes.route_config_name));
        }
        let discovered =
            |filter: &http_filter::ConfigType| matches!(filter, http_filter::ConfigType::ConfigDiscovery(_));
        let extensions = manager
            .http_filters
            .into_iter()
            .filter(|filter| filter.config_type.as_ref().is_some_and(discovered));
        wanted.extend(extensions.map(|filter| (ResourceType::ExtensionConfig, filter.name)));
    }
    Ok(wanted)
}
