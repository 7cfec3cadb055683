//! The gRPC services. Each stream is a task that feeds requests and publications to its subscriber and sends what the
//! subscriber answers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryService;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::envoy::service::extension::v3::extension_config_discovery_service_server::ExtensionConfigDiscoveryService;
use futures::{Stream, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};

use super::snapshots::{Connected, GroupCell, Snapshots};
use super::subscriber::{Answer, Service, Subscriber};
use super::wire::Wire;
use limpet_resources::{Name, ResourceType};

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What all streams of a server share.
#[derive(Debug, Clone)]
pub(super) struct Discovery {
    snapshots: Snapshots,
    /// Becomes true when the streams should end.
    ending: watch::Receiver<bool>,
    numbers: Arc<AtomicU64>,
}

impl Discovery {
    pub(super) fn new(snapshots: Snapshots, ending: watch::Receiver<bool>) -> Self {
        Self {
            snapshots,
            ending,
            numbers: Arc::default(),
        }
    }

    fn serve<W: Wire>(
        &self,
        service: Service,
        requests: Request<Streaming<W::Request>>,
    ) -> tonic::Response<Responses<W::Response>> {
        // At most one response of each type is unanswered, so the channel never fills up.
        let (sender, receiver) = mpsc::channel(ResourceType::ALL.len() + 1);
        let stream = StreamTask::<W> {
            snapshots: self.snapshots.clone(),
            service,
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            requests: requests.into_inner(),
            responses: sender,
            live: None,
        };
        tokio::spawn(stream.run(self.ending.clone()));
        // Responses are encoded only when the client takes them.
        let responses = ReceiverStream::new(receiver).map(|response| response.map(W::encode));
        tonic::Response::new(Box::pin(responses))
    }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Discovery {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<tonic::Response<Self::StreamAggregatedResourcesStream>, Status> {
        Ok(self.serve::<super::wire::StateOfTheWorld>(Service::Aggregated, request))
    }

    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<tonic::Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Ok(self.serve::<super::wire::Delta>(Service::Aggregated, request))
    }
}

#[tonic::async_trait]
impl ExtensionConfigDiscoveryService for Discovery {
    type StreamExtensionConfigsStream = Responses<DiscoveryResponse>;

    async fn stream_extension_configs(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<tonic::Response<Self::StreamExtensionConfigsStream>, Status> {
        Ok(self.serve::<super::wire::StateOfTheWorld>(Service::ExtensionConfig, request))
    }

    type DeltaExtensionConfigsStream = Responses<DeltaDiscoveryResponse>;

    async fn delta_extension_configs(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<tonic::Response<Self::DeltaExtensionConfigsStream>, Status> {
        Ok(self.serve::<super::wire::Delta>(Service::ExtensionConfig, request))
    }

    async fn fetch_extension_configs(
        &self,
        _: Request<DiscoveryRequest>,
    ) -> Result<tonic::Response<DiscoveryResponse>, Status> {
        Err(Status::unimplemented("resources are streamed, not fetched"))
    }
}

struct StreamTask<W: Wire> {
    snapshots: Snapshots,
    service: Service,
    number: u64,
    requests: Streaming<W::Request>,
    responses: mpsc::Sender<Result<super::subscriber::Response, Status>>,
    /// Set by the first request, which names the node.
    live: Option<Live>,
}

/// A stream whose node is known.
struct Live {
    connected: Arc<Connected>,
    cell: Arc<GroupCell>,
    sequence: watch::Receiver<u64>,
}

impl<W: Wire> StreamTask<W> {
    async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let responses = self.responses.clone();
        let result = tokio::select! {
            result = self.exchange() => result,
            // A closed channel means that the server is gone.
            _ = ending.wait_for(|ending| *ending) => Err(Status::unavailable("the server is shutting down")),
            () = responses.closed() => Ok(()),
        };
        if let Some(live) = &self.live {
            self.snapshots.shared().disconnect(&live.cell, self.number);
            let (node, group) = (&live.connected.node, &live.cell.name);
            tracing::info!(%node, %group, "a stream of a node ended");
        }
        if let Err(status) = result {
            // An error means that the client is gone.
            let _ = responses.try_send(Err(status));
        }
    }

    async fn exchange(&mut self) -> Result<(), Status> {
        loop {
            let deadline = self
                .live
                .as_ref()
                .and_then(|live| live.connected.subscriber().deadline());
            let request = tokio::select! {
                request = self.requests.message() => match request {
                    Ok(Some(request)) => Some(request),
                    // The client closed the stream, or is gone.
                    Ok(None) | Err(_) => return Ok(()),
                },
                () = published(&mut self.live) => None,
                () = until(deadline) => None,
            };
            if let Some(request) = request {
                self.take_in(request)?;
            }
            self.send()?;
        }
    }

    fn take_in(&mut self, request: W::Request) -> Result<(), Status> {
        let live = match &mut self.live {
            Some(live) => live,
            none => none.insert(connect::<W>(
                &self.snapshots,
                self.service,
                self.number,
                W::node(&request),
            )?),
        };
        let (node, group) = (&live.connected.node, &live.cell.name);
        let mut subscriber = live.connected.subscriber();
        let url = W::type_url(&request);
        // Services of one type may omit the type URL.
        let url = if url.is_empty() && self.service == Service::ExtensionConfig {
            ResourceType::ExtensionConfig.url()
        } else {
            url
        };
        let Some(resource_type) = ResourceType::from_url(url).filter(|each| subscriber.serves(*each)) else {
            tracing::warn!(%node, %group, url, "a node asks for resources of a type that is not served");
            return Ok(());
        };
        let answer = W::take_in(&mut subscriber, resource_type, request, &live.cell.group());
        drop(subscriber);
        let shared = self.snapshots.shared();
        match answer {
            Answer::None => return Ok(()),
            Answer::Acknowledged(resources) => {
                shared.counters.acknowledged(resource_type);
                for (name, version) in resources {
                    let version = version.map(tracing::field::display);
                    tracing::debug!(%node, %group, %resource_type, %name, version, "a node acknowledged a resource");
                }
            }
            Answer::Refused(resources, message) => {
                shared.counters.refused(resource_type);
                let count = resources.len();
                for (name, version) in resources.into_iter().take(LOGGED_REFUSALS) {
                    let version = version.map(tracing::field::display);
                    tracing::warn!(
                        %node, %group, %resource_type, %name, version, count, error = %message,
                        "a node refused a response with this resource"
                    );
                }
            }
        }
        shared.status_changed();
        Ok(())
    }

    fn send(&self) -> Result<(), Status> {
        let Some(live) = &self.live else {
            return Ok(());
        };
        let shared = self.snapshots.shared();
        let (node, group) = (&live.connected.node, &live.cell.name);
        let mut subscriber = live.connected.subscriber();
        loop {
            let response = subscriber.next(&live.cell.group(), Instant::now());
            let Some(response) = response else { break };
            let resource_type = response.resource_type;
            let (resources, removed) = (response.resources.len(), response.removed.len());
            tracing::debug!(%node, %group, %resource_type, resources, removed, "a response is sent to a node");
            shared.counters.sent(resource_type, resources);
            let room = self.responses.try_send(Ok(response));
            room.map_err(|_| Status::resource_exhausted("responses are not read"))?;
        }
        drop(subscriber);
        // A publication may leave nothing to send.
        shared.status_changed();
        Ok(())
    }
}

/// How many resources of a refused response are logged.
const LOGGED_REFUSALS: usize = 1;

/// Waits until something is published for the node's group.
async fn published(live: &mut Option<Live>) {
    match live {
        // `cell` holds the sender, so the channel is open.
        Some(live) => drop(live.sequence.changed().await),
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn connect<W: Wire>(snapshots: &Snapshots, service: Service, number: u64, node: Option<&Node>) -> Result<Live, Status> {
    let named = |node: &&Node| !node.id.is_empty() && !node.cluster.is_empty();
    let node = node.filter(named).ok_or_else(|| {
        Status::invalid_argument("the first request names no node: node.id and node.cluster are needed")
    })?;
    let subscriber = Subscriber::new(W::PROTOCOL, service);
    let connected = Arc::new(Connected::new(Name::from(node.id.as_str()), subscriber));
    let cell = snapshots
        .shared()
        .connect(&node.cluster, number, Arc::clone(&connected));
    let (node, group) = (&connected.node, &cell.name);
    if cell.group().is_published() {
        tracing::info!(%node, %group, protocol = ?W::PROTOCOL, ?service, "a node connected");
    } else {
        tracing::warn!(
            %node, %group, protocol = ?W::PROTOCOL, ?service,
            "a node connected whose group is not known: it waits"
        );
    }
    let mut sequence = cell.sequence.subscribe();
    sequence.mark_changed();
    Ok(Live {
        connected,
        cell,
        sequence,
    })
}
