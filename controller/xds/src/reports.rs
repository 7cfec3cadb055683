//! What nodes tell of their traffic: sessions by the filter's reports, requests in flight by Envoy's load reporting.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamEndpointStats};
use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_server::LoadReportingService;
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use futures::Stream;
use limpet_core::census::report::{self, Report};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::connection::Client;
use super::limits;
use super::permission::Permission;

/// How often nodes tell of requests in flight.
const LOAD_INTERVAL: envoy_types::pb::google::protobuf::Duration =
    envoy_types::pb::google::protobuf::Duration { seconds: 2, nanos: 0 };

/// What a node tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// Sessions that its filter has seen.
    Sessions(Report),
    /// All requests in flight of a node, by stream of load reports. It takes the place of what the stream told before.
    Load(u64, Vec<Load>),
}

/// Requests in flight to a host of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The cluster's name.
    pub cluster: String,
    /// The host.
    pub host: SocketAddr,
    /// Requests and streams that have not ended.
    pub in_flight: u64,
}

type Listener = dyn Fn(&str, Told) -> Result<report::Answer, String> + Send + Sync;

/// Hears what the nodes of a group tell. It must not wait. What it refuses, the node tells again; else it says what the
/// node is answered.
#[derive(Clone)]
pub struct Reports(Arc<Listener>);

impl Reports {
    /// Calls this function with the group and what its node tells.
    #[must_use]
    pub fn new(listener: impl Fn(&str, Told) -> Result<report::Answer, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reports")
    }
}

/// The services that take reports.
#[derive(Debug, Clone)]
pub(super) struct Taking {
    /// `None`: nobody wants any.
    reports: Option<Reports>,
    permission: Permission,
    ending: watch::Receiver<bool>,
    numbers: Arc<AtomicU64>,
}

impl Taking {
    pub(super) fn new(reports: Option<Reports>, permission: Permission, ending: watch::Receiver<bool>) -> Self {
        Self {
            reports,
            permission,
            ending,
            numbers: Arc::default(),
        }
    }

    fn permit(&self, client: &Client, group: &str) -> Result<(), Status> {
        if group.is_empty() || group.len() > limits::NAME {
            return Err(Status::invalid_argument("the report names no node.cluster"));
        }
        let allowed = self.permission.ask(client.peer(), group);
        allowed.map_err(Status::permission_denied)
    }

    fn hear(&self, group: &str, told: Told) -> Result<report::Answer, Status> {
        let Some(Reports(listener)) = &self.reports else {
            return Err(Status::unimplemented("sessions are not counted"));
        };
        listener(group, told).map_err(Status::unavailable)
    }
}

fn client<T>(request: &Request<T>) -> Result<Client, Status> {
    let client = request.extensions().get::<Client>().cloned();
    let client = client.ok_or_else(|| Status::internal("the connection is not known"))?;
    client.streams();
    Ok(client)
}

/// Takes the filter's reports.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    pub(super) taking: Taking,
    pub(super) limit: usize,
}

impl NamedService for Sessions {
    const NAME: &'static str = report::SERVICE;
}

impl Service<http::Request<Body>> for Sessions {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let Self { taking, limit } = self.clone();
        Box::pin(async move {
            if request.uri().path() != report::PATH {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            let codec = ProstCodec::<report::Answer, Report>::default();
            let mut grpc = Grpc::new(codec).apply_max_message_size_config(Some(limit), None);
            Ok(grpc.unary(taking, request).await)
        })
    }
}

impl UnaryService<Report> for Taking {
    type Response = report::Answer;
    type Future = std::future::Ready<Result<Response<report::Answer>, Status>>;

    fn call(&mut self, request: Request<Report>) -> Self::Future {
        let take = || {
            let client = client(&request)?;
            let report = request.into_inner();
            self.permit(&client, &report.node_cluster)?;
            let group = report.node_cluster.clone();
            self.hear(&group, Told::Sessions(report)).map(Response::new)
        };
        std::future::ready(take())
    }
}

#[tonic::async_trait]
impl LoadReportingService for Taking {
    type StreamLoadStatsStream = Pin<Box<dyn Stream<Item = Result<LoadStatsResponse, Status>> + Send>>;

    async fn stream_load_stats(
        &self,
        request: Request<Streaming<LoadStatsRequest>>,
    ) -> Result<Response<Self::StreamLoadStatsStream>, Status> {
        let client = client(&request)?;
        let (sender, receiver) = mpsc::channel(1);
        let stream = LoadStream {
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            taking: self.clone(),
            client,
            requests: request.into_inner(),
            responses: sender,
            group: None,
        };
        tokio::spawn(stream.run());
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

struct LoadStream {
    number: u64,
    taking: Taking,
    client: Client,
    requests: Streaming<LoadStatsRequest>,
    responses: mpsc::Sender<Result<LoadStatsResponse, Status>>,
    /// Of the first request, which names the node.
    group: Option<String>,
}

impl LoadStream {
    async fn run(mut self) {
        let mut ending = self.taking.ending.clone();
        let responses = self.responses.clone();
        let client = self.client.clone();
        let result = tokio::select! {
            result = self.exchange() => result,
            // A closed channel means that the server is gone.
            _ = ending.wait_for(|ending| *ending) => Err(Status::unavailable("the server is shutting down")),
            () = client.ending() => Err(Status::unavailable("the certificate may have been renewed: connect again")),
            () = responses.closed() => Ok(()),
        };
        if let Err(status) = result {
            // An error means that the client is gone.
            let _ = responses.try_send(Err(status));
        }
        if let Some(group) = &self.group {
            // The next report of who is still there tells all.
            let _ = self.taking.hear(group, Told::Load(self.number, Vec::new()));
        }
    }

    async fn exchange(&mut self) -> Result<(), Status> {
        let first = tokio::time::timeout(limits::FIRST_REQUEST, self.requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the first request has not come in time"))?;
        let Some(first) = first? else { return Ok(()) };
        let group = first.node.map(|node| node.cluster).unwrap_or_default();
        self.taking.permit(&self.client, &group)?;
        if self.taking.reports.is_none() {
            // A node that is not asked waits. One that is refused would come back again and again.
            while self.requests.message().await?.is_some() {}
            return Ok(());
        }
        let wanted = LoadStatsResponse {
            send_all_clusters: true,
            load_reporting_interval: Some(LOAD_INTERVAL),
            report_endpoint_granularity: true,
            ..LoadStatsResponse::default()
        };
        let room = self.responses.try_send(Ok(wanted));
        room.map_err(|_| Status::resource_exhausted("responses are not read"))?;
        let group = self.group.insert(group);
        while let Some(request) = self.requests.message().await? {
            let loads = request.cluster_stats.iter().flat_map(loads).collect();
            let _ = self.taking.hear(group, Told::Load(self.number, loads));
        }
        Ok(())
    }
}

fn loads(stats: &ClusterStats) -> impl Iterator<Item = Load> {
    let hosts = stats
        .upstream_locality_stats
        .iter()
        .flat_map(|locality| &locality.upstream_endpoint_stats);
    hosts
        .filter(|host| host.total_requests_in_progress > 0)
        .filter_map(|host| {
            Some(Load {
                cluster: stats.cluster_name.clone(),
                host: address(host)?,
                in_flight: host.total_requests_in_progress,
            })
        })
}

fn address(host: &UpstreamEndpointStats) -> Option<SocketAddr> {
    let Address::SocketAddress(address) = host.address.as_ref()?.address.as_ref()? else {
        return None;
    };
    let PortSpecifier::PortValue(port) = address.port_specifier.as_ref()? else {
        return None;
    };
    Some(SocketAddr::new(
        address.address.parse().ok()?,
        u16::try_from(*port).ok()?,
    ))
}
