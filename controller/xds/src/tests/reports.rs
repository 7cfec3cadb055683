//! What nodes report of their traffic.

use std::sync::{Arc, Mutex};

use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, SocketAddress};
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamEndpointStats, UpstreamLocalityStats};
use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_client::LoadReportingServiceClient;
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use futures::FutureExt as _;
use limpet_core::census::report::{self, BackendReport, Report, ReportResponse};
use limpet_core::token::DestinationId;
use prost::Message as _;
use tonic::codegen::http::Request;

use super::*;

struct LoadClient {
    requests: mpsc::Sender<LoadStatsRequest>,
    responses: Streaming<LoadStatsResponse>,
}

impl LoadClient {
    async fn open(channel: Channel) -> Self {
        let (requests, sent) = mpsc::channel(8);
        requests.send(of_node()).await.unwrap();
        let mut client = LoadReportingServiceClient::new(channel);
        let opened = client.stream_load_stats(ReceiverStream::new(sent));
        let opened = timeout(PATIENCE, opened).await.expect("a stream in time");
        Self {
            requests,
            responses: opened.unwrap().into_inner(),
        }
    }

    async fn message(&mut self) -> Result<Option<LoadStatsResponse>, Status> {
        let message = timeout(PATIENCE, self.responses.message()).await;
        message.expect("a message in time")
    }
}

fn of_node() -> LoadStatsRequest {
    LoadStatsRequest {
        node: asks_for("one", &[]).node,
        ..LoadStatsRequest::default()
    }
}

fn loads() -> LoadStatsRequest {
    loads_of("default/shop:80", 1)
}

/// Three requests in flight to each of so many hosts, which are one.
fn loads_of(cluster: &str, hosts: usize) -> LoadStatsRequest {
    let address = SocketAddress {
        address: "10.0.0.7".to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(8080)),
        ..SocketAddress::default()
    };
    let host = UpstreamEndpointStats {
        address: Some(Address {
            address: Some(AddressKind::SocketAddress(address)),
        }),
        total_requests_in_progress: 3,
        ..UpstreamEndpointStats::default()
    };
    let locality = UpstreamLocalityStats {
        upstream_endpoint_stats: vec![host; hosts],
        ..UpstreamLocalityStats::default()
    };
    LoadStatsRequest {
        cluster_stats: vec![ClusterStats {
            cluster_name: cluster.to_owned(),
            upstream_locality_stats: vec![locality],
            ..ClusterStats::default()
        }],
        ..LoadStatsRequest::default()
    }
}

async fn server() -> Server {
    let options = ServerOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        security: ServerSecurity::PlaintextOnLoopback,
    };
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    Server::bind(options, snapshots).await.unwrap()
}

async fn channel(running: &Running) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", running.address)).unwrap();
    timeout(PATIENCE, endpoint.connect()).await.unwrap().unwrap()
}

type Heard = Arc<Mutex<Vec<(String, NodeReport)>>>;

fn listener() -> (Heard, ReportHandler) {
    let told = Heard::default();
    let heard = Arc::clone(&told);
    let reports = ReportHandler::new(move |group, what| {
        heard.lock().unwrap().push((group.to_owned(), what));
        Ok(ReportResponse::default())
    });
    (told, reports)
}

async fn until_told(told: &Heard, count: usize) {
    let many = async {
        while told.lock().unwrap().len() < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, many).await.unwrap();
}

#[tokio::test]
async fn who_wants_reports_gets_them_and_hears_their_end() {
    let (told, reports) = listener();
    let running = run(server().await.with_reports(reports));
    let mut client = LoadClient::open(channel(&running).await).await;
    let wanted = client.message().await.unwrap().unwrap();
    assert!(wanted.send_all_clusters && wanted.report_endpoint_granularity);
    client.requests.send(loads()).await.unwrap();
    until_told(&told, 1).await;
    drop(client);
    until_told(&told, 2).await;
    let load = RequestLoad {
        destination: DestinationId::of_cluster(b"default/shop:80"),
        host: "10.0.0.7:8080".parse().unwrap(),
        in_flight: 3,
    };
    let expected = [NodeReport::Load(0, vec![load]), NodeReport::LoadEnds(0)].map(|told| (GROUP.to_owned(), told));
    assert_eq!(*told.lock().unwrap(), expected);
}

/// Each Envoy opens a stream of load reports. One that ends is opened again at once, and logged.
#[tokio::test]
async fn a_stream_of_reports_that_nobody_wants_stays_open() {
    let running = run(server().await);
    let mut client = LoadClient::open(channel(&running).await).await;
    client.requests.send(loads()).await.unwrap();
    let silence = timeout(Duration::from_secs(2), client.responses.message()).await;
    assert!(silence.is_err(), "{silence:?}");
    running.end.send(()).unwrap();
    let words = client.message().await.unwrap_err();
    assert_eq!(words.code(), Code::Unavailable, "{words}");
    drop(client);
    running.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_may_have_nothing_may_not_wait_for_it_either() {
    let refuse = || Permission::new(|_, group| Err(format!("{group} is not yours")));
    let wanted = ReportHandler::new(|_, _| Ok(ReportResponse::default()));
    for server in [
        server().await.with_permission(refuse()),
        server().await.with_permission(refuse()).with_reports(wanted),
    ] {
        let running = run(server);
        let channel = channel(&running).await;
        let loads = LoadClient::open(channel.clone()).await.message().await.unwrap_err();
        let resources = Client::open(channel, asks_for("one", &[])).await.message().await;
        for words in [loads, resources.unwrap_err()] {
            assert_eq!(
                (words.code(), words.message()),
                (Code::PermissionDenied, "default/web is not yours")
            );
        }
    }
}

#[tokio::test]
async fn a_load_report_counts_as_far_as_an_envoy_writes_it() {
    let (told, reports) = listener();
    let running = run(server().await.with_reports(reports));
    let mut client = LoadClient::open(channel(&running).await).await;
    client.message().await.unwrap().unwrap();
    // A name that no cluster has is not copied for each of its hosts.
    let mut odd = loads_of(&"n".repeat(100_000), 10_000);
    odd.cluster_stats.extend(loads().cluster_stats);
    client.requests.send(odd).await.unwrap();
    until_told(&told, 1).await;
    client.requests.send(loads_of("default/shop:80", 30_000)).await.unwrap();
    until_told(&told, 2).await;
    let counts = told
        .lock()
        .unwrap()
        .iter()
        .map(|(_, told)| match told {
            NodeReport::Load(_, loads) => loads.len(),
            NodeReport::LoadEnds(_) | NodeReport::Sessions(_) => panic!("no load"),
        })
        .collect::<Vec<_>>();
    assert_eq!(counts, [1, limits::HOSTS_OF_REPORT]);
    // More than 10,000 hosts take.
    let node = LoadStatsRequest {
        cluster_stats: loads_of("default/shop:80", 60_000).cluster_stats,
        ..of_node()
    };
    assert!(node.encoded_len() > limits::LOADS);
    client.requests.send(node).await.unwrap();
    let words = client.message().await.unwrap_err();
    assert_eq!(words.code(), Code::OutOfRange, "{words}");
}

struct Call {
    body: h2::SendStream<tonic::codegen::Bytes>,
    answer: h2::client::ResponseFuture,
}

impl Call {
    async fn begin(running: &Running) -> Self {
        Self::begin_from(running, 1).await
    }

    async fn begin_from(running: &Running, host: u8) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, host], 0).into()).unwrap();
        let stream = socket.connect(running.address).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post(format!("http://{}{}", running.address, report::PATH))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (answer, body) = client.send_request(request, false).unwrap();
        Self { body, answer }
    }

    async fn send(mut self, message: &[u8]) -> Code {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let mut left = tonic::codegen::Bytes::from([&[0][..], &length, message].concat());
        while !left.is_empty() {
            self.body.reserve_capacity(left.len());
            let room = std::future::poll_fn(|cx| self.body.poll_capacity(cx)).await;
            // The server has answered before it has read everything.
            let Some(Ok(room)) = room else { break };
            let piece = left.split_to(room);
            let ends = left.is_empty();
            if self.body.send_data(piece, ends).is_err() {
                break;
            }
        }
        self.answered().await
    }

    async fn answered(self) -> Code {
        let answer = timeout(PATIENCE, self.answer).await.expect("an answer in time");
        let (head, mut body) = answer.unwrap().into_parts();
        let mut headers = head.headers;
        if !headers.contains_key("grpc-status") {
            while body.data().await.is_some() {}
            headers = body.trailers().await.unwrap().unwrap();
        }
        Code::from_bytes(headers["grpc-status"].as_bytes())
    }
}

fn report_of(backends: Vec<BackendReport>) -> Vec<u8> {
    let report = Report {
        backends,
        node_cluster: GROUP.to_owned(),
        ..Report::default()
    };
    report.encode_to_vec()
}

#[tokio::test]
async fn a_report_of_nothing_but_empty_parts_is_refused() {
    let (told, reports) = listener();
    let running = run(server().await.with_reports(reports));
    let empty = report_of(vec![BackendReport::default(); 200_000]);
    assert!(empty.len() < limits::REPORT);
    let large = report_of(vec![BackendReport::default(); 500_000]);
    assert!(large.len() > limits::REPORT);
    for (message, code) in [
        (empty, Code::InvalidArgument),
        (large, Code::OutOfRange),
        (vec![255; 20], Code::InvalidArgument),
    ] {
        assert_eq!(Call::begin(&running).await.send(&message).await, code);
    }
    assert_eq!(told.lock().unwrap().len(), 0);
    assert_eq!(Call::begin(&running).await.send(&report_of(Vec::new())).await, Code::Ok);
    assert_eq!(told.lock().unwrap().len(), 1);
}

/// A call without its end, which a server may wait for.
async fn begun(running: &Running, host: u8) -> Call {
    let mut begun = Call::begin_from(running, host).await;
    let message = report_of(Vec::new());
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let message = [&[0][..], &length, &message].concat();
    begun.body.send_data(message.into(), false).unwrap();
    begun
}

#[tokio::test]
async fn slow_reports_from_many_addresses_held_up_all_reports() {
    let (told, reports) = listener();
    let running = run(server().await.with_reports(reports));
    let mut slow = Vec::new();
    for host in 0..2 * limits::REPORTS {
        slow.push(begun(&running, u8::try_from(host).unwrap() + 2).await);
    }
    // They have their turns by then.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let other = Call::begin(&running).await;
    assert_eq!(other.send(&report_of(Vec::new())).await, Code::Ok);
    assert_eq!(told.lock().unwrap().len(), 1);
    for call in slow {
        assert!(call.answer.now_or_never().is_none(), "it was answered before");
    }
}

#[tokio::test]
async fn reports_of_an_address_come_one_by_one() {
    let (told, reports) = listener();
    let running = run(server().await.with_reports(reports));
    let begun = begun(&running, 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let other = Call::begin(&running).await;
    let other = tokio::spawn(async move { other.send(&report_of(Vec::new())).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(told.lock().unwrap().len(), 0, "two reports of one address are kept");
    drop(begun);
    assert_eq!(other.await.unwrap(), Code::Ok);
    let begun = Call::begin(&running).await;
    assert_eq!(begun.answered().await, Code::DeadlineExceeded);
}
