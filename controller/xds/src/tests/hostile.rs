//! Clients that may connect and ask for too much.

use std::collections::HashMap;

use super::*;
use crate::limits::{ENTRY, NAMES_OF_STREAM};
use limpet_resources::ResourceType::{Cluster, Listener};

async fn end_of(address: SocketAddr, requests: Vec<DeltaDiscoveryRequest>) -> Status {
    let mut requests = requests.into_iter();
    let mut client = Client::connect(address, requests.next().unwrap()).await;
    let more = client.requests.clone();
    let sending = tokio::spawn(async move {
        for request in requests {
            // The stream may have ended already.
            let _ = more.send(request).await;
        }
    });
    let end = loop {
        if let Err(status) = client.message().await {
            break status;
        }
    };
    sending.abort();
    end
}

fn names(count: usize, length: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:0>length$}")).collect()
}

async fn until_acknowledged(snapshots: &Snapshots, node: &str) {
    let mut status = snapshots.status();
    while status.acknowledged(GROUP, node).is_empty() {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
}

fn times(snapshots: &Snapshots, why: RejectionReason) -> u64 {
    let counts = snapshots.turned_away();
    counts.into_iter().find(|(each, _)| *each == why).unwrap().1
}

#[tokio::test]
async fn a_stream_that_asks_for_too_much_ends() {
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    let running = serve(&snapshots).await;
    let of = |id: String, cluster: String| DeltaDiscoveryRequest {
        node: Some(Node {
            id,
            cluster,
            ..Node::default()
        }),
        ..asks_for("", &[])
    };
    let versions: HashMap<_, _> = names(30_000, 100)
        .into_iter()
        .map(|name| (name, String::new()))
        .collect();
    let had = DeltaDiscoveryRequest {
        initial_resource_versions: versions,
        resource_names_subscribe: vec!["*".to_owned()],
        ..asks_for("had", &[])
    };
    let mut many = vec![asks_for("many", &[])];
    many.extend((0..20).map(|part| {
        let names = names(20_000, 200)
            .into_iter()
            .map(|name| format!("{part}{name}"))
            .collect::<Vec<_>>();
        asks_for("many", &names)
    }));
    let cases = [
        (
            "a large message",
            vec![asks_for("large", &names(50_000, 200))],
            Code::OutOfRange,
        ),
        (
            "a long name",
            vec![asks_for("long", &names(1, 2000))],
            Code::ResourceExhausted,
        ),
        (
            "a long name of a node",
            vec![of("n".repeat(2000), GROUP.to_owned())],
            Code::InvalidArgument,
        ),
        (
            "a long name of a group",
            vec![of("one".to_owned(), "g".repeat(2000))],
            Code::InvalidArgument,
        ),
        ("many names", many, Code::ResourceExhausted),
    ];
    let expected = u64::try_from(cases.len()).unwrap();
    for (what, requests, code) in cases {
        let end = end_of(running.address, requests).await;
        assert_eq!(end.code(), code, "{what}: {end:?}");
    }
    assert_eq!(times(&snapshots, RejectionReason::Request), expected);
    let mut large = Client::connect(running.address, had).await;
    assert!(large.next().await.is_empty());
}

#[tokio::test]
async fn a_stream_had_any_number_of_resources_by_one_name() {
    let snapshots = Snapshots::new();
    let clusters = (0..=NAMES_OF_STREAM / ENTRY).map(|number| Resource::new(Cluster, number.to_string(), vec![]));
    snapshots.publish(GROUP, clusters.collect());
    let running = serve(&snapshots).await;
    let all = asks_for("one", &["*".to_owned()]);
    let all = DeltaDiscoveryRequest {
        type_url: Cluster.url().to_owned(),
        ..all
    };
    let end = end_of(running.address, vec![all, asks_for("", &[])]).await;
    assert_eq!(end.code(), Code::ResourceExhausted, "{end:?}");
}

#[tokio::test]
async fn large_requests_of_an_address_come_one_by_one() {
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    let running = serve(&snapshots).await;
    let mut large: Vec<_> = (0..6)
        .map(|number| {
            let first = asks_for(&format!("large-{number}"), &names(10_000, 200));
            tokio::spawn(async move { Client::connect(running.address, first).await.next().await })
        })
        .collect();
    // One begins a large request and never ends it: small requests of its address are served meanwhile.
    let head = [&[0][..], &(1_u32 << 20).to_be_bytes()].concat();
    let stream = tokio::net::TcpStream::connect(running.address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let uri = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    let request = tonic::codegen::http::Request::post(format!("http://{}{uri}", running.address))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let began = std::time::Instant::now();
    for one in large.drain(..) {
        assert!(one.await.unwrap().is_empty());
    }
    let took = began.elapsed();
    let (answer, mut body) = client.send_request(request, false).unwrap();
    body.send_data(head.into(), false).unwrap();
    for _ in 0..4 {
        // There is room for more only when the server has taken in what was sent.
        let piece = vec![0; 50_000];
        body.reserve_capacity(piece.len());
        while body.capacity() < piece.len() {
            let room = std::future::poll_fn(|cx| body.poll_capacity(cx));
            timeout(PATIENCE, room).await.expect("room in time").unwrap().unwrap();
        }
        body.send_data(piece.into(), false).unwrap();
    }
    let first = asks_for("large", &names(10_000, 200));
    let address = running.address;
    let mut large = tokio::spawn(async move { Client::connect(address, first).await.next().await });
    let mut small = Client::connect(running.address, asks_for("small", &["a".to_owned()])).await;
    assert!(small.next().await.is_empty());
    let mut unfinished = std::pin::pin!(async {
        let mut responses = answer.await.map(tonic::codegen::http::Response::into_body);
        while let Ok(responses) = &mut responses
            && let Some(Ok(_)) = responses.data().await
        {}
    });
    tokio::select! {
        biased;
        // On a busy machine its time is over before.
        () = &mut unfinished => {}
        _ = &mut large => panic!("two large requests of one address are kept"),
        () = tokio::time::sleep(4 * took) => {}
    }
    body.send_reset(h2::Reason::CANCEL);
    assert!(large.await.unwrap().is_empty());
}

/// Takes ten seconds, which a stream has for its first request.
#[tokio::test]
async fn a_stream_without_a_request_ends() {
    let snapshots = Snapshots::new();
    let running = serve(&snapshots).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", running.address)).unwrap();
    let (requests, sent) = mpsc::channel::<DeltaDiscoveryRequest>(1);
    let mut client = AggregatedDiscoveryServiceClient::new(endpoint.connect().await.unwrap());
    let opened = client.delta_aggregated_resources(ReceiverStream::new(sent)).await;
    let mut responses = opened.unwrap().into_inner();
    let end = timeout(PATIENCE, responses.message()).await.unwrap().unwrap_err();
    assert_eq!(end.code(), Code::DeadlineExceeded);
    drop(requests);
}

#[tokio::test]
async fn a_node_and_a_connection_have_so_many_streams() {
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    let running = serve(&snapshots).await;
    let mut open = Vec::new();
    let refused = loop {
        // A connection each, so that the limit of a connection is not met.
        let endpoint = Endpoint::from_shared(format!("http://{}", running.address)).unwrap();
        let mut client = Client::connect_by(endpoint, asks_for("greedy", &["a".to_owned()])).await;
        match client.message().await {
            Ok(_) => open.push(client),
            Err(status) => break status,
        }
    };
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("greedy"), "{refused}");
    assert_eq!(times(&snapshots, RejectionReason::Streams), 1);
    let mut other = Client::connect(running.address, asks_for("other", &["a".to_owned()])).await;
    assert!(other.next().await.is_empty());

    let endpoint = Endpoint::from_shared(format!("http://{}", running.address)).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let mut streams = Vec::new();
    for number in 0..8 {
        let first = asks_for(&format!("node-{number}"), &["a".to_owned()]);
        let mut client = Client::open(channel.clone(), first).await;
        client.next().await;
        streams.push(client);
    }
    let ninth = asks_for("node-9", &["a".to_owned()]);
    let ninth = tokio::spawn(Client::open(channel, ninth));
    until_nodes(&snapshots, 10).await;
    streams.pop();
    ninth.await.unwrap().next().await;
}

/// A client with a Gateway's certificate can call itself as any Envoy of it.
#[tokio::test]
async fn a_namesake_elsewhere_keeps_no_node_out() {
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    let running = serve(&snapshots).await;
    let from = async |address: [u8; 4]| {
        let endpoint = Endpoint::from_shared(format!("http://{}", running.address)).unwrap();
        let endpoint = endpoint.local_address(Some(address.into()));
        let mut client = Client::connect_by(endpoint, asks_for("one", &["a".to_owned()])).await;
        client.message().await.map(|_| client)
    };
    let mut open = Vec::new();
    while let Ok(client) = from([127, 0, 0, 2]).await {
        open.push(client);
    }
    assert_eq!(times(&snapshots, RejectionReason::Streams), 1);
    assert!(from([127, 0, 0, 1]).await.is_ok());
}

async fn until_nodes(snapshots: &Snapshots, nodes: usize) {
    let mut status = snapshots.status();
    while status.connected(GROUP) != nodes {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_asks_all_the_time_delays_nobody() {
    let names = names(5000, 20);
    let assignment = |name: &String| Resource::new(ClusterLoadAssignment, name.as_str(), vec![0; 100]);
    let cluster = |name: &String| Resource::new(Cluster, name.as_str(), vec![0; 100]);
    let snapshots = Snapshots::new();
    let resources = names.iter().map(assignment).chain(names.iter().map(cluster));
    snapshots.publish(GROUP, resources.collect());
    let running = serve(&snapshots).await;
    let mut busy = Client::connect(running.address, asks_for("busy", &[])).await;
    let everything = |subscribe: bool| {
        let all = vec!["*".to_owned(); 1000];
        let [wanted, unwanted] = if subscribe {
            [all, Vec::new()]
        } else {
            [Vec::new(), all]
        };
        DeltaDiscoveryRequest {
            type_url: Cluster.url().to_owned(),
            resource_names_subscribe: wanted,
            resource_names_unsubscribe: unwanted,
            response_nonce: "another's".to_owned(),
            ..DeltaDiscoveryRequest::default()
        }
    };
    let requests = busy.requests.clone();
    let flood = tokio::spawn(async move {
        let mut sent = 0_usize;
        while requests.send(everything(sent.is_multiple_of(2))).await.is_ok() {
            sent += 1;
        }
        sent
    });
    let reading = tokio::spawn(async move { while busy.message().await.is_ok() {} });
    let mut other = Client::connect(running.address, asks_for("other", &names)).await;
    let mut received = 0;
    while received < names.len() {
        received += other.next().await.len();
    }
    until_acknowledged(&snapshots, "other").await;
    assert!(!flood.is_finished(), "the busy client waits, and is not refused");
    flood.abort();
    reading.abort();
}

#[tokio::test]
async fn refusals_of_a_client_are_kept_in_part() {
    let snapshots = Snapshots::new();
    let listener = Resource::new(Listener, "web", vec![1]);
    snapshots.publish(GROUP, [listener].into_iter().collect());
    let running = serve(&snapshots).await;
    let first = DeltaDiscoveryRequest {
        type_url: Listener.url().to_owned(),
        ..asks_for("one", &[])
    };
    let mut client = Client::connect(running.address, first).await;
    let response = client.message().await.unwrap();
    let message = "no".repeat(1 << 20);
    let refusal = |nonce: &str| DeltaDiscoveryRequest {
        type_url: Listener.url().to_owned(),
        response_nonce: nonce.to_owned(),
        error_detail: Some(envoy_types::pb::google::rpc::Status {
            message: message.clone(),
            ..Default::default()
        }),
        ..DeltaDiscoveryRequest::default()
    };
    // Answers to what nobody was sent, or another, mean nothing.
    for nonce in ["", "0", "18446744073709551616", "another's"] {
        client.requests.send(refusal(nonce)).await.unwrap();
    }
    client.requests.send(refusal(&response.nonce)).await.unwrap();
    let mut status = snapshots.status();
    while status.refusals(GROUP, usize::MAX).is_empty() {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
    let counts = snapshots.counts().of_type(Listener).unwrap();
    assert_eq!(counts.refused, 1);
    let kept = &status.refusals(GROUP, usize::MAX)[0].message;
    assert!(
        kept.starts_with("nono") && kept.len() < message.len() / 100,
        "{}",
        kept.len()
    );
}
