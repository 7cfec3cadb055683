//! Over gRPC, with a client that is none of Envoy's.

use std::net::SocketAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use super::*;
use limpet_resources::ResourceType::ClusterLoadAssignment;
use limpet_resources::{Resource, Resources};

mod hostile;
mod renewal;
mod reports;
mod silent;
mod site;

const GROUP: &str = "default/web";
const PATIENCE: Duration = Duration::from_secs(30);

struct Running {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ServerError>>,
}

async fn serve(snapshots: &Snapshots) -> Running {
    let options = ServerOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        security: ServerSecurity::PlaintextOnLoopback,
    };
    run(Server::bind(options, snapshots.clone()).await.unwrap())
}

fn run(server: Server) -> Running {
    let address = server.address();
    let (end, ended) = oneshot::channel();
    let task = tokio::spawn(server.serve(async { ended.await.unwrap() }));
    Running { address, end, task }
}

struct Client {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Client {
    async fn connect(address: SocketAddr, first: DeltaDiscoveryRequest) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        Self::connect_by(endpoint, first).await
    }

    async fn connect_by(endpoint: Endpoint, first: DeltaDiscoveryRequest) -> Self {
        let connected = timeout(PATIENCE, endpoint.connect())
            .await
            .expect("a connection in time");
        Self::open(connected.unwrap(), first).await
    }

    async fn open(channel: Channel, first: DeltaDiscoveryRequest) -> Self {
        let (requests, sent) = mpsc::channel(8);
        requests.send(first).await.unwrap();
        let client = AggregatedDiscoveryServiceClient::new(channel);
        let mut client = client.max_decoding_message_size(64 << 20);
        let opened = client.delta_aggregated_resources(ReceiverStream::new(sent));
        let opened = timeout(PATIENCE, opened).await.expect("a stream in time");
        Self {
            requests,
            responses: opened.unwrap().into_inner(),
        }
    }

    async fn message(&mut self) -> Result<DeltaDiscoveryResponse, Status> {
        let message = timeout(PATIENCE, self.responses.message()).await;
        Ok(message.expect("a message in time")?.expect("a message"))
    }

    /// The names and contents of the next response, acknowledged.
    async fn next(&mut self) -> Vec<(String, Vec<u8>)> {
        let response = self.message().await.unwrap();
        let answer = DeltaDiscoveryRequest {
            type_url: response.type_url,
            response_nonce: response.nonce,
            ..DeltaDiscoveryRequest::default()
        };
        self.requests.send(answer).await.unwrap();
        let named = |resource: envoy_types::pb::envoy::service::discovery::v3::Resource| {
            (resource.name, resource.resource.unwrap().value)
        };
        response.resources.into_iter().map(named).collect()
    }
}

fn asks_for(node: &str, names: &[String]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(Node {
            id: node.to_owned(),
            cluster: GROUP.to_owned(),
            ..Node::default()
        }),
        type_url: ClusterLoadAssignment.url().to_owned(),
        resource_names_subscribe: names.to_vec(),
        ..DeltaDiscoveryRequest::default()
    }
}

#[tokio::test]
async fn a_slow_client_delays_nobody_and_gets_the_last_change() {
    const CHANGES: usize = 100;
    let names: Vec<_> = (0..5000).map(|number| format!("cluster-{number}")).collect();
    let assignment = |name: &str, content: usize| {
        // As large as ten endpoints are.
        let body = format!("{content:0>1000}").into_bytes();
        Resource::new(ClusterLoadAssignment, name, body)
    };
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, names.iter().map(|name| assignment(name, 0)).collect());
    let running = serve(&snapshots).await;

    let mut slow = Client::connect(running.address, asks_for("slow", &names)).await;
    let mut quick = Client::connect(running.address, asks_for("quick", &names)).await;
    let mut received = 0;
    while received < names.len() {
        received += quick.next().await.len();
    }
    for change in 1..=CHANGES {
        // At rest, so that only the publication can be why something is sent.
        let before = assignment("cluster-7", change - 1).version();
        let mut status = snapshots.status();
        while status
            .progress(GROUP, ClusterLoadAssignment, "cluster-7", before)
            .acknowledged
            == 0
        {
            timeout(PATIENCE, status.changed()).await.unwrap();
        }
        assert!(snapshots.publish_one(GROUP, assignment("cluster-7", change)));
        assert_eq!(
            quick.next().await,
            [("cluster-7".to_owned(), assignment("", change).body().to_vec())]
        );
    }

    let mut received = Vec::new();
    while received.len() < names.len() {
        received.extend(slow.next().await);
    }
    let newest = ("cluster-7".to_owned(), assignment("", CHANGES).body().to_vec());
    if !received.contains(&newest) {
        assert_eq!(slow.next().await, [newest]);
    }
    assert!(received.len() <= names.len() + 1);
}

#[tokio::test]
async fn streams_end_with_the_server_in_good_order() {
    let snapshots = Snapshots::new();
    let running = serve(&snapshots).await;
    let mut client = Client::connect(running.address, asks_for("one", &[])).await;
    let mut status = snapshots.status();
    while status.connected(GROUP) == 0 {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
    running.end.send(()).unwrap();
    assert_eq!(client.message().await.unwrap_err().code(), Code::Unavailable);
    drop(client);
    timeout(PATIENCE, running.task).await.unwrap().unwrap().unwrap();
    assert_eq!(status.connected(GROUP), 0);
}

#[tokio::test]
async fn a_node_must_say_who_it_is() {
    let snapshots = Snapshots::new();
    let running = serve(&snapshots).await;
    for (id, cluster) in [("", ""), ("one", ""), ("", GROUP)] {
        let node = Node {
            id: id.to_owned(),
            cluster: cluster.to_owned(),
            ..Node::default()
        };
        let first = DeltaDiscoveryRequest {
            node: Some(node),
            ..asks_for("", &[])
        };
        let refusal = Client::connect(running.address, first)
            .await
            .message()
            .await
            .unwrap_err();
        assert_eq!(refusal.code(), Code::InvalidArgument);
        assert!(refusal.message().contains("node.cluster"), "{refusal}");
    }
    assert!(snapshots.status().groups().is_empty());
}
