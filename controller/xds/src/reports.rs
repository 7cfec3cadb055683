//! Nodes' reports of traffic: sessions by the filter, requests in flight by Envoy's load reporting.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsResponse, load_reporting_service_server};
use limpet_core::census::report::{self, Report};
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::server::{Grpc, NamedService, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};

use super::admission::NamesPermit;
use super::connection::ClientConnection;
use super::limits;
use super::loads::{LoadReport, RequestLoad};
use super::permission::Permission;
use super::raw::BytesCodec;
use super::snapshots::lock;

const LOADS_PATH: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";
/// How often nodes report requests in flight.
const LOAD_INTERVAL: envoy_types::pb::google::protobuf::Duration =
    envoy_types::pb::google::protobuf::Duration { seconds: 2, nanos: 0 };

/// What a node reports.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeReport {
    /// Sessions that its filter has seen.
    Sessions(Report),
    /// All requests in flight of a node, by stream of load reports. It replaces the stream's former ones.
    Load(u64, Vec<RequestLoad>),
    /// The end of a stream of load reports. Its node may come back, or be gone.
    LoadEnds(u64),
}

type ReportCallback = dyn Fn(&str, NodeReport) -> Result<report::ReportResponse, String> + Send + Sync;

/// Receives what the nodes of a group report, without waiting. What it refuses, the node sends again; else it returns
/// the answer.
#[derive(Clone)]
pub struct ReportHandler(Arc<ReportCallback>);

impl ReportHandler {
    /// Calls this function with the group and its node's report.
    #[must_use]
    pub fn new(
        listener: impl Fn(&str, NodeReport) -> Result<report::ReportResponse, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(listener))
    }
}

impl fmt::Debug for ReportHandler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReportHandler")
    }
}

#[derive(Debug, Clone)]
pub(super) struct ReportService {
    reports: Option<ReportHandler>,
    permission: Permission,
    ending: watch::Receiver<bool>,
    numbers: Arc<AtomicU64>,
    /// The turn to decode a report and to deliver it.
    decoding: Arc<Mutex<()>>,
}

impl ReportService {
    pub(super) fn new(reports: Option<ReportHandler>, permission: Permission, ending: watch::Receiver<bool>) -> Self {
        Self {
            reports,
            permission,
            ending,
            numbers: Arc::default(),
            decoding: Arc::default(),
        }
    }

    fn permit(&self, client: &ClientConnection, group: &str) -> Result<(), Status> {
        if group.is_empty() || group.len() > limits::NAME {
            return Err(Status::invalid_argument("the report names no node.cluster"));
        }
        let allowed = self.permission.check(client.peer(), group);
        allowed.map_err(Status::permission_denied)
    }

    fn deliver(&self, group: &str, told: NodeReport) -> Result<report::ReportResponse, Status> {
        let Some(ReportHandler(listener)) = &self.reports else {
            return Err(Status::unimplemented("sessions are not counted"));
        };
        listener(group, told).map_err(Status::unavailable)
    }
}

fn unknown() -> Status {
    Status::internal("the connection is not known")
}

fn client<T>(request: &Request<T>) -> Result<ClientConnection, Status> {
    let client = request.extensions().get::<ClientConnection>().cloned();
    let client = client.ok_or_else(unknown)?;
    client.streams();
    Ok(client)
}

type ReportFuture = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

#[derive(Debug, Clone)]
pub(super) struct SessionReportService(pub(super) ReportService);

impl NamedService for SessionReportService {
    const NAME: &'static str = report::SERVICE;
}

impl Service<http::Request<Body>> for SessionReportService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = ReportFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let taking = self.0.clone();
        Box::pin(async move {
            if request.uri().path() != report::PATH {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            let taken = tokio::time::timeout(report::PATIENCE, taking.receive(request)).await;
            let late = |_| Status::deadline_exceeded("the report has not come in time").into_http();
            Ok(taken.unwrap_or_else(late))
        })
    }
}

impl ReportService {
    async fn receive(self, request: http::Request<Body>) -> http::Response<Body> {
        let Some(client) = request.extensions().get::<ClientConnection>().cloned() else {
            return unknown().into_http();
        };
        client.streams();
        // It is never closed. What comes slowly holds up the same client's reports only.
        let _turn = client.place().report_turn().acquire_owned().await;
        client.place().pace().await;
        let mut grpc = Grpc::new(BytesCodec::<report::ReportResponse>::default());
        grpc = grpc.apply_max_message_size_config(Some(limits::REPORT), None);
        grpc.unary(self.clone(), request).await
    }

    fn decode(&self, client: &ClientConnection, bytes: &[u8]) -> Result<report::ReportResponse, Status> {
        client.place().spend_report(bytes.len());
        if !limits::is_dense(bytes) {
            return Err(Status::invalid_argument("the report consists of empty parts"));
        }
        let _decoding = lock(&self.decoding);
        let report = Report::decode(bytes).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.permit(client, &report.node_cluster)?;
        let group = report.node_cluster.clone();
        self.deliver(&group, NodeReport::Sessions(report))
    }
}

impl UnaryService<Bytes> for ReportService {
    type Response = report::ReportResponse;
    type Future = std::future::Ready<Result<Response<report::ReportResponse>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let answer = client(&request).and_then(|client| self.decode(&client, request.get_ref()));
        std::future::ready(answer.map(Response::new))
    }
}

#[derive(Debug, Clone)]
pub(super) struct LoadReportService(pub(super) ReportService);

impl NamedService for LoadReportService {
    const NAME: &'static str = load_reporting_service_server::SERVICE_NAME;
}

impl Service<http::Request<Body>> for LoadReportService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = ReportFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let taking = self.0.clone();
        Box::pin(async move {
            if request.uri().path() != LOADS_PATH {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            let grpc = Grpc::new(BytesCodec::<LoadStatsResponse>::default());
            let mut grpc = grpc.apply_max_message_size_config(Some(limits::LOADS), None);
            Ok(grpc.streaming(taking, request).await)
        })
    }
}

impl StreamingService<Bytes> for ReportService {
    type Response = LoadStatsResponse;
    type ResponseStream = ReceiverStream<Result<LoadStatsResponse, Status>>;
    type Future = std::future::Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let stream = client(&request).map(|client| {
            let (sender, receiver) = mpsc::channel(1);
            let stream = LoadStream {
                number: self.numbers.fetch_add(1, Ordering::Relaxed),
                taking: self.clone(),
                share: NamesPermit::new(Arc::clone(client.place())),
                client,
                requests: request.into_inner(),
                responses: sender,
                group: None,
            };
            tokio::spawn(stream.run());
            Response::new(ReceiverStream::new(receiver))
        });
        std::future::ready(stream)
    }
}

struct LoadStream {
    number: u64,
    taking: ReportService,
    client: ClientConnection,
    share: NamesPermit,
    requests: Streaming<Bytes>,
    responses: mpsc::Sender<Result<LoadStatsResponse, Status>>,
    /// The group of the first request, which names the node.
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
            () = client.ending() => Err(Status::unavailable("the server ends the connection: connect again")),
            () = responses.closed() => Ok(()),
        };
        if let Err(status) = result {
            // An error means that the client is gone.
            let _ = responses.try_send(Err(status));
        }
        if let Some(group) = &self.group {
            let _ = self.taking.deliver(group, NodeReport::LoadEnds(self.number));
        }
    }

    async fn exchange(&mut self) -> Result<(), Status> {
        let first = tokio::time::timeout(limits::FIRST_REQUEST, self.requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the first request has not come in time"))?;
        let Some(first) = first? else { return Ok(()) };
        let group = self.read(&first, LoadReport::into_group)?;
        self.taking.permit(&self.client, &group)?;
        if self.taking.reports.is_none() {
            // A node that is not asked waits. One that is refused would come back again and again.
            while let Some(request) = self.requests.message().await? {
                self.pace(&request).await;
            }
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
        self.group = Some(group.clone());
        self.pace(&first).await;
        while let Some(request) = self.requests.message().await? {
            let loads = self.read(&request, |report| report.loads())?;
            if !self.share.set(loads.len() * limits::MEMORY_OF_HOST) {
                return Err(Status::resource_exhausted(
                    "streams of the address tell of too many hosts",
                ));
            }
            let _ = self.taking.deliver(&group, NodeReport::Load(self.number, loads));
            self.pace(&request).await;
        }
        Ok(())
    }

    /// Decodes one report at a time.
    fn read<T>(&self, bytes: &[u8], of: impl FnOnce(LoadReport) -> T) -> Result<T, Status> {
        let _decoding = lock(&self.taking.decoding);
        let report = LoadReport::read(bytes);
        report.map(of).map_err(|error| Status::internal(error.to_string()))
    }

    async fn pace(&self, report: &Bytes) {
        let place = self.client.place();
        place.spend_report(report.len());
        place.pace().await;
    }
}
