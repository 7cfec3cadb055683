//! The gRPC services. Each stream is a task that feeds its subscriber and sends its answers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryService;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::envoy::service::extension::v3::extension_config_discovery_service_server::ExtensionConfigDiscoveryService;
use futures::{Stream, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming};

use super::admission::NamesPermit;
use super::connection::ClientConnection;
use super::counters::RejectionReason;
use super::judgement::overruled;
use super::limits::{self, NAMES_OF_STREAM, RequestPace};
use super::log_rate::LogRate;
use super::permission::Permission;
use super::snapshots::{GroupCell, SnapshotState, Snapshots, StreamConnection};
use super::subscriber::{NodeAbilities, ResponseVerdict, StreamService, Subscriber};
use super::wire::Wire;
use limpet_resources::{Name, PREFLIGHT_METADATA, PerType, ResourceType, ResourceVersion};

type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Debug, Clone)]
pub(super) struct DiscoveryState {
    snapshots: Snapshots,
    permission: Permission,
    /// Logs clients that are turned away.
    logs: Arc<LogRate>,
    ending: watch::Receiver<bool>,
    numbers: Arc<AtomicU64>,
}

impl DiscoveryState {
    pub(super) fn new(
        snapshots: Snapshots,
        permission: Permission,
        logs: Arc<LogRate>,
        ending: watch::Receiver<bool>,
    ) -> Self {
        Self {
            snapshots,
            permission,
            logs,
            ending,
            numbers: Arc::default(),
        }
    }

    fn serve<W: Wire>(
        &self,
        service: StreamService,
        requests: Request<Streaming<W::Request>>,
    ) -> Result<tonic::Response<ResponseStream<W::Response>>, Status> {
        let client = requests.extensions().get::<ClientConnection>().cloned();
        let client = client.ok_or_else(|| Status::internal("the connection is not known"))?;
        client.streams();
        // At most one response of each type is unanswered, so the channel never fills up.
        let (sender, receiver) = mpsc::channel(ResourceType::ALL.len() + 1);
        let stream = StreamTask::<W> {
            discovery: self.clone(),
            share: NamesPermit::new(Arc::clone(client.place())),
            memory: PerType::default(),
            pace: RequestPace::new(Instant::now()),
            client,
            service,
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            requests: requests.into_inner(),
            responses: sender,
            live: None,
        };
        tokio::spawn(stream.run(self.ending.clone()));
        // Responses are encoded only when the client takes them.
        let responses = ReceiverStream::new(receiver).map(|response| response.map(W::encode));
        Ok(tonic::Response::new(Box::pin(responses)))
    }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for DiscoveryState {
    type StreamAggregatedResourcesStream = ResponseStream<DiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<tonic::Response<Self::StreamAggregatedResourcesStream>, Status> {
        self.serve::<super::wire::StateOfTheWorld>(StreamService::Aggregated, request)
    }

    type DeltaAggregatedResourcesStream = ResponseStream<DeltaDiscoveryResponse>;

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<tonic::Response<Self::DeltaAggregatedResourcesStream>, Status> {
        self.serve::<super::wire::Delta>(StreamService::Aggregated, request)
    }
}

#[tonic::async_trait]
impl ExtensionConfigDiscoveryService for DiscoveryState {
    type StreamExtensionConfigsStream = ResponseStream<DiscoveryResponse>;

    async fn stream_extension_configs(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<tonic::Response<Self::StreamExtensionConfigsStream>, Status> {
        self.serve::<super::wire::StateOfTheWorld>(StreamService::ExtensionConfig, request)
    }

    type DeltaExtensionConfigsStream = ResponseStream<DeltaDiscoveryResponse>;

    async fn delta_extension_configs(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<tonic::Response<Self::DeltaExtensionConfigsStream>, Status> {
        self.serve::<super::wire::Delta>(StreamService::ExtensionConfig, request)
    }

    async fn fetch_extension_configs(
        &self,
        _: Request<DiscoveryRequest>,
    ) -> Result<tonic::Response<DiscoveryResponse>, Status> {
        Err(Status::unimplemented("resources are streamed, not fetched"))
    }
}

struct StreamTask<W: Wire> {
    discovery: DiscoveryState,
    client: ClientConnection,
    share: NamesPermit,
    /// The memory of names that the node asks for. Its error messages are counted besides.
    memory: PerType<usize>,
    pace: RequestPace,
    service: StreamService,
    number: u64,
    requests: Streaming<W::Request>,
    responses: mpsc::Sender<Result<super::subscriber::SubscriberResponse, Status>>,
    /// Set by the first request, which names the node.
    live: Option<ResourceStream>,
}

struct ResourceStream {
    connected: Arc<StreamConnection>,
    cell: Arc<GroupCell>,
    sequence: watch::Receiver<u64>,
    /// Watched while the units that others accept are not looked up.
    judgements: watch::Receiver<u64>,
}

impl<W: Wire> StreamTask<W> {
    async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let responses = self.responses.clone();
        let client = self.client.clone();
        let result = tokio::select! {
            result = self.exchange() => result,
            // A closed channel means that the server is gone.
            _ = ending.wait_for(|ending| *ending) => Err(Status::unavailable("the server is shutting down")),
            () = client.ending() => {
                let words = "the certificate may have been renewed, its authority replaced, or others have fewer \
                             connections: connect again";
                Err(Status::unavailable(words))
            }
            () = responses.closed() => Ok(()),
        };
        let tell = |result| {
            if let Err(status) = result {
                // An error means that the client is gone.
                let _ = responses.try_send(Err(status));
            }
        };
        if client.is_ending() {
            tell(result);
            // The node comes back at once, and counts as connected meanwhile.
            sleep(RETURN).await;
            self.leave();
        } else {
            self.leave();
            tell(result);
        }
    }

    fn leave(&self) {
        if let Some(live) = &self.live {
            self.discovery.snapshots.shared().disconnect(&live.cell, self.number);
            let (node, group) = (&live.connected.node, &live.cell.name);
            if let Some(left_out) = live.cell.comings.permit() {
                tracing::info!(%node, %group, left_out, "a stream of a node ended");
            }
        }
    }

    async fn exchange(&mut self) -> Result<(), Status> {
        let silent = Instant::now() + limits::FIRST_REQUEST;
        loop {
            let deadline = self
                .live
                .as_ref()
                .and_then(|live| live.connected.subscriber().deadline(Instant::now()));
            let wait = self.pace.next(Instant::now());
            let judgements = self.live.as_ref().and_then(ResourceStream::awaited_judgements);
            let request = tokio::select! {
                request = self.requests.message(), if wait.is_none() => match request {
                    Ok(Some(request)) => Some(request),
                    // The client closed the stream, or is gone.
                    Ok(None) => return Ok(()),
                    Err(status) => return Err(self.failed(status)),
                },
                () = published(&mut self.live) => None,
                () = judged(judgements) => None,
                () = until(deadline) => None,
                () = until(wait) => None,
                () = until(Some(silent)), if self.live.is_none() => {
                    let words = "the first request has not come in time";
                    return Err(self.turn_away(RejectionReason::Request, Status::deadline_exceeded(words)));
                }
            };
            if let Some(request) = request {
                self.receive(request)?;
            }
            self.send()?;
        }
    }

    /// Ends the stream with an error, which is not logged for a client that is gone.
    fn failed(&self, status: Status) -> Status {
        match status.code() {
            // The decoder's codes for a message that is too large, or is none.
            Code::OutOfRange | Code::ResourceExhausted | Code::Internal => {
                self.turn_away(RejectionReason::Request, status)
            }
            _ => status,
        }
    }

    fn turn_away(&self, why: RejectionReason, status: Status) -> Status {
        self.discovery.snapshots.shared().counters.turned_away(why);
        if let Some(left_out) = self.discovery.logs.permit() {
            let node = self
                .live
                .as_ref()
                .map(|live| tracing::field::display(&live.connected.node));
            let peer = self.client.peer().address;
            tracing::warn!(%peer, node, error = status.message(), left_out, "a stream was turned away");
        }
        status
    }

    fn receive(&mut self, mut request: W::Request) -> Result<(), Status> {
        if self.live.is_none() {
            let connected = self.connect(W::node(&request));
            self.live = Some(connected.map_err(|(why, status)| self.turn_away(why, status))?);
        }
        let Some(live) = &self.live else {
            return Ok(());
        };
        W::tidy(&mut request);
        let mut subscriber = live.connected.subscriber();
        let url = W::type_url(&request);
        // Services of one type may omit the type URL.
        let url = if url.is_empty() && self.service == StreamService::ExtensionConfig {
            ResourceType::ExtensionConfig.url()
        } else {
            url
        };
        let Some(resource_type) = ResourceType::from_url(url).filter(|each| subscriber.serves(*each)) else {
            self.pace.spend(false, Instant::now());
            if let Some(left_out) = self.discovery.logs.permit() {
                let url: String = url.chars().take(limits::NAME).collect();
                let (node, group) = (&live.connected.node, &live.cell.name);
                tracing::warn!(%node, %group, url, left_out, "a node asks for resources of a type that is not served");
            }
            return Ok(());
        };
        let before = self.memory[resource_type];
        self.memory[resource_type] = W::memory(&subscriber, resource_type, &request, before);
        let names: usize = ResourceType::ALL.into_iter().map(|each| self.memory[each]).sum();
        let bytes = names + subscriber.words() + subscriber.entries() * limits::ENTRY;
        if let Some(words) = exceeds::<W>(&request, bytes, &mut self.share) {
            drop(subscriber);
            return Err(self.turn_away(RejectionReason::Request, Status::resource_exhausted(words)));
        }
        let wildcard = subscriber.has_asked_for(resource_type) && W::names(&request).any(|name| name == "*");
        let published = live.cell.group();
        let weight = W::weight(&subscriber, resource_type, &request, &published);
        self.pace.spend_bytes(weight, Instant::now());
        let answer = W::receive(&mut subscriber, resource_type, request, &published);
        drop(published);
        let has_voted = subscriber.has_voted();
        drop(subscriber);
        if matches!(answer, ResponseVerdict::None) {
            self.pace.spend(wildcard, Instant::now());
            return Ok(());
        }
        let shared = self.discovery.snapshots.shared();
        live.record(answer, resource_type, has_voted, shared);
        shared.status_changed();
        Ok(())
    }

    fn send(&mut self) -> Result<(), Status> {
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        live.look_up_judgements();
        let shared = self.discovery.snapshots.shared();
        let (node, group) = (&live.connected.node, &live.cell.name);
        let mut subscriber = live.connected.subscriber();
        let was_silent = subscriber.is_silent();
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
        if let Some(took) = subscriber.preflight_ended(Instant::now()) {
            shared.counters.preflight_ended(took);
        }
        if subscriber.is_silent() && !was_silent {
            shared.judgements_changed(&live.cell);
        }
        drop(subscriber);
        shared.status_changed();
        Ok(())
    }

    fn connect(&self, node: Option<&Node>) -> Result<ResourceStream, (RejectionReason, Status)> {
        let named = |node: &&Node| {
            [&node.id, &node.cluster]
                .iter()
                .all(|name| (1..=limits::NAME).contains(&name.len()))
        };
        let node = node.filter(named).ok_or_else(|| {
            let words = format!(
                "the first request names no node: node.id and node.cluster are needed, of {} bytes at most",
                limits::NAME
            );
            (RejectionReason::Request, Status::invalid_argument(words))
        })?;
        let DiscoveryState {
            snapshots, permission, ..
        } = &self.discovery;
        let allowed = permission.check(self.client.peer(), &node.cluster);
        allowed.map_err(|words| (RejectionReason::Permission, Status::permission_denied(words)))?;
        let subscriber = Subscriber::new(W::PROTOCOL, self.service, abilities(node));
        let identity = self.client.peer().identity.as_ref();
        let validity = identity.map(|identity| identity.validity);
        let origin = self.client.peer().address.into();
        let connected = StreamConnection::new(Name::from(node.id.as_str()), origin, validity, subscriber);
        let connected = Arc::new(connected.with_version(version(node)));
        let cell = snapshots
            .shared()
            .connect(&node.cluster, self.number, Arc::clone(&connected));
        let cell = cell.ok_or_else(|| {
            let words = format!("too many streams of the node {} are open", node.id);
            (RejectionReason::Streams, Status::resource_exhausted(words))
        })?;
        let (node, group) = (&connected.node, &cell.name);
        let is_published = cell.group().is_published();
        if let Some(left_out) = cell.comings.permit() {
            let (protocol, service) = (W::PROTOCOL, self.service);
            if is_published {
                tracing::info!(%node, %group, ?protocol, ?service, left_out, "a node connected");
            } else {
                tracing::warn!(
                    %node, %group, ?protocol, ?service, left_out,
                    "a node connected whose group is not known: it waits"
                );
            }
        }
        let mut sequence = cell.sequence.subscribe();
        sequence.mark_changed();
        Ok(ResourceStream {
            connected,
            judgements: cell.judgements.subscribe(),
            cell,
            sequence,
        })
    }
}

impl ResourceStream {
    /// The first resource stands for all: they are refused for one reason.
    fn log_refusal(&self, resource_type: ResourceType, resources: &[(Name, Option<ResourceVersion>)], error: &str) {
        let (node, group) = (&self.connected.node, &self.cell.name);
        if let (Some((name, version)), Some(left_out)) = (resources.first(), self.cell.refusals.permit()) {
            let (count, version) = (resources.len(), version.map(tracing::field::display));
            tracing::warn!(
                %node, %group, %resource_type, %name, version, count, error, left_out,
                "a node refused a response with this resource"
            );
        }
    }

    fn record(&self, verdict: ResponseVerdict, resource_type: ResourceType, has_voted: bool, shared: &SnapshotState) {
        let (node, group) = (&self.connected.node, &self.cell.name);
        let judged = || {
            if has_voted {
                shared.judgements_changed(&self.cell);
            }
        };
        match verdict {
            ResponseVerdict::None => {}
            ResponseVerdict::Acknowledged(resources) => {
                shared.counters.acknowledged(resource_type);
                for (name, version) in resources {
                    let version = version.map(tracing::field::display);
                    tracing::debug!(%node, %group, %resource_type, %name, version, "a node acknowledged a resource");
                }
            }
            ResponseVerdict::Approved => judged(),
            ResponseVerdict::Disbelieved(words) => {
                judged();
                if let Some(left_out) = self.cell.refusals.permit() {
                    let error = words.as_deref().unwrap_or("it refuses all routes");
                    tracing::warn!(%node, %group, error, left_out, "what a node refuses does not count");
                }
            }
            ResponseVerdict::Disapproved(of, unit, error) => {
                judged();
                if unit.is_some() {
                    shared.counters.unit_refused();
                }
                self.log_disapproval(of, unit, &error);
            }
            ResponseVerdict::Refused(resources, error) => {
                shared.counters.refused(resource_type);
                self.log_refusal(resource_type, &resources, &error);
            }
        }
    }

    /// `unit`: the only one of the units that are refused together.
    fn log_disapproval(&self, of: usize, unit: Option<Name>, error: &str) {
        let (node, group) = (&self.connected.node, &self.cell.name);
        match (self.cell.refusals.permit(), unit) {
            (Some(left_out), Some(unit)) => {
                tracing::warn!(%node, %group, %unit, %error, left_out, "a node refused the routes of this object");
            }
            (Some(left_out), None) => {
                tracing::info!(%node, %group, of, %error, left_out, "a node refused the routes of some objects");
            }
            (None, _) => {}
        }
    }

    /// Signals that others may have come to another judgement, if the node waits for it.
    fn awaited_judgements(&self) -> Option<watch::Receiver<u64>> {
        let waits = self.connected.subscriber().waits_for_judgement();
        waits.then(|| self.judgements.clone())
    }

    /// Looks up which of the units that the node refuses most others accept.
    fn look_up_judgements(&mut self) {
        if !self.judgements.has_changed().unwrap_or_default() {
            return;
        }
        self.judgements.mark_unchanged();
        // Locks the group's streams one by one, and this is one of them.
        let overruled = overruled(&self.cell);
        self.connected.subscriber().overrule(overruled);
    }
}

/// How long a node counts as connected after a request to connect again: longer than an Envoy takes.
const RETURN: Duration = Duration::from_secs(2);

async fn published(live: &mut Option<ResourceStream>) {
    match live {
        // `cell` holds the sender, so the channel is open.
        Some(live) => drop(live.sequence.changed().await),
        None => std::future::pending().await,
    }
}

async fn judged(judgements: Option<watch::Receiver<u64>>) {
    match judgements {
        // The cell holds the sender, so the channel is open.
        Some(mut judgements) => drop(judgements.changed().await),
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// What is too much of a request whose stream has names and words of so many bytes.
fn exceeds<W: Wire>(request: &W::Request, bytes: usize, share: &mut NamesPermit) -> Option<String> {
    if W::names(request).any(|name| name.len() > limits::NAME) {
        return Some(format!("a resource's name has more than {} bytes", limits::NAME));
    }
    (bytes > NAMES_OF_STREAM || !share.set(bytes)).then(|| {
        format!("the stream asks for too many resources, or has refused too many: they take {bytes} bytes here")
    })
}

fn abilities(node: &Node) -> NodeAbilities {
    let metadata = node.metadata.as_ref();
    NodeAbilities {
        takes_hosts: takes_hosts(node),
        has_preflight: metadata.is_some_and(|metadata| metadata.fields.contains_key(PREFLIGHT_METADATA)),
    }
}

/// The version of a node that is an Envoy, as `1.40.0`.
fn version(node: &Node) -> Option<String> {
    let Some(UserAgentVersionType::UserAgentBuildVersion(build)) = &node.user_agent_version_type else {
        return None;
    };
    let version = build.version.as_ref().filter(|_| node.user_agent_name == "envoy")?;
    Some(format!(
        "{}.{}.{}",
        version.major_number, version.minor_number, version.patch
    ))
}

/// Whether the node is an Envoy that takes virtual hosts (VHDS) on the same stream as everything else. Before 1.37 it
/// refuses their route configurations.
fn takes_hosts(node: &Node) -> bool {
    let Some(UserAgentVersionType::UserAgentBuildVersion(build)) = &node.user_agent_version_type else {
        return false;
    };
    let version = build.version.as_ref();
    node.user_agent_name == "envoy"
        && version.is_some_and(|version| (version.major_number, version.minor_number) >= (1, 37))
}
