//! What nodes tell of their traffic, and what they are asked.

use std::sync::{Arc, Mutex};

use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, SocketAddress};
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamEndpointStats, UpstreamLocalityStats};
use envoy_types::pb::envoy::service::load_stats::v3::load_reporting_service_client::LoadReportingServiceClient;
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use limpet_core::census::report::Answer;

use super::*;

/// A stream of load reports.
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

/// Three requests in flight to a host.
fn loads() -> LoadStatsRequest {
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
        upstream_endpoint_stats: vec![host],
        ..UpstreamLocalityStats::default()
    };
    LoadStatsRequest {
        cluster_stats: vec![ClusterStats {
            cluster_name: "default/shop:80".to_owned(),
            upstream_locality_stats: vec![locality],
            ..ClusterStats::default()
        }],
        ..LoadStatsRequest::default()
    }
}

async fn server() -> Server {
    let options = Options {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        security: Security::PlaintextOnLoopback,
    };
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    Server::bind(options, snapshots).await.unwrap()
}

async fn channel(running: &Running) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", running.address)).unwrap();
    timeout(PATIENCE, endpoint.connect()).await.unwrap().unwrap()
}

#[tokio::test]
async fn who_wants_reports_gets_them_and_hears_their_end() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let reports = Reports::new(move |group, what| {
        heard.lock().unwrap().push((group.to_owned(), what));
        Ok(Answer::default())
    });
    let running = run(server().await.with_reports(reports));
    let mut client = LoadClient::open(channel(&running).await).await;
    let wanted = client.message().await.unwrap().unwrap();
    assert!(wanted.send_all_clusters && wanted.report_endpoint_granularity);
    client.requests.send(loads()).await.unwrap();
    let until_told = async |count| {
        let many = async {
            while told.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, many).await.unwrap();
    };
    until_told(1).await;
    drop(client);
    until_told(2).await;
    let load = Load {
        cluster: "default/shop:80".to_owned(),
        host: "10.0.0.7:8080".parse().unwrap(),
        in_flight: 3,
    };
    let expected = [vec![load], Vec::new()].map(|loads| (GROUP.to_owned(), Told::Load(0, loads)));
    assert_eq!(*told.lock().unwrap(), expected);
}

/// Each Envoy opens a stream of load reports. One that ends is opened again at once, and logged.
#[tokio::test]
async fn a_stream_of_reports_that_nobody_wants_stays_open() {
    let running = run(server().await);
    let mut client = LoadClient::open(channel(&running).await).await;
    // Nothing is read of it, and it ends nothing.
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
    let wanted = Reports::new(|_, _| Ok(Answer::default()));
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
