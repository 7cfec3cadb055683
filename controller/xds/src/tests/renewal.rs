//! Clients whose certificates are renewed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::site::{Site, valid, year};
use super::*;
use crate::tls::CertificateSource;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_node_comes_back_before_its_certificate_ends() {
    let site = Site::new();
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    let ways = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&ways);
    let permission = Permission::new(move |peer, _| {
        seen.lock().unwrap().insert(peer.address);
        Ok(())
    });
    let running = run(site.server(&snapshots).await.with_permission(permission));
    let old = site.endpoint_valid(running.address, "envoy.example", valid(69 * SECOND, 31 * SECOND));
    let channel = timeout(PATIENCE, old.connect()).await.unwrap().unwrap();
    let mut client = Client::open(channel.clone(), asks_for("one", &[])).await;
    let mut other = Client::open(channel.clone(), asks_for("two", &[])).await;
    let mut status = snapshots.status();
    while status.connected(GROUP) < 2 {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
    for stream in [&mut client, &mut other] {
        let words = stream.message().await.unwrap_err();
        assert_eq!(words.code(), Code::Unavailable);
        assert!(words.message().contains("connect again"), "{words}");
    }
    assert_eq!(status.connected(GROUP), 2, "they are coming back");
    // The next stream of the same channel makes a new connection.
    let mut again = AggregatedDiscoveryServiceClient::new(channel);
    let returned = async move {
        while ways.lock().unwrap().len() < 2 {
            let requests = tokio_stream::once(asks_for("one", &[]));
            let _ = again.delta_aggregated_resources(requests).await;
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, returned).await.unwrap();
}

#[test]
fn who_could_not_come_back_is_not_sent_away() {
    let (site, other) = (Site::new(), Site::new());
    let tls = CertificateSource::load(site.files()).unwrap();
    let shown = |by: &Site, validity| {
        let (certificate, _) = by.sign("envoy.example", validity);
        vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()]
    };
    let now = SystemTime::now();
    let short = shown(&site, valid(SECOND, 60 * SECOND));
    assert!(tls.admits(&short, now));
    assert!(!tls.admits(&short, now + 61 * SECOND), "its certificate has ended");
    assert!(
        !tls.admits(&shown(&other, year()), now),
        "its authority is not trusted any more"
    );
    assert!(!tls.admits(&[], now));
    let (certificate, key) = site.sign("controller.limpet", valid(60 * SECOND, SECOND));
    fs::write(site.files().certificate, certificate).unwrap();
    fs::write(site.files().key, key).unwrap();
    let tls = CertificateSource::load(site.files()).unwrap();
    assert!(tls.admits(&short, now) && !tls.admits(&short, now + 2 * SECOND));
}

/// A client that keeps its connection must not outlast an authority whose key was stolen.
#[tokio::test]
async fn who_is_trusted_no_more_gets_nothing_more() {
    let [site, leaked] = [(); 2].map(|()| Site::new());
    let in_memory = TlsInMemory::default();
    let trust = |authorities: &[&Site]| {
        let (certificate, key) = site.sign("controller.limpet", year());
        let client_ca: String = authorities.iter().map(|authority| authority.pem.as_str()).collect();
        let pem = TlsPem {
            certificate: certificate.as_bytes(),
            key: key.as_bytes(),
            client_ca: client_ca.as_bytes(),
            kept_in: "the test",
        };
        in_memory.hand_over(&pem).unwrap();
    };
    trust(&[&site, &leaked]);
    let names = ["a".to_owned()];
    let snapshots = Snapshots::new();
    let publish = |content: u8| {
        let resource = Resource::new(ClusterLoadAssignment, "a", vec![content]);
        snapshots.publish(GROUP, [resource].into_iter().collect());
        vec![("a".to_owned(), vec![content])]
    };
    let expected = publish(1);
    let options = ServerOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        security: ServerSecurity::MutualTlsInMemory(in_memory.clone()),
    };
    let running = run(Server::bind(options, snapshots.clone()).await.unwrap());
    let thief = site.endpoint_with(running.address, leaked.sign("envoy.example", year()));
    let channel = thief.connect().await.unwrap();
    let mut thief = Client::open(channel.clone(), asks_for("thief", &names)).await;
    let own = site.endpoint(running.address, "envoy.example");
    let mut own = Client::connect_by(own, asks_for("own", &names)).await;
    assert_eq!((thief.next().await, own.next().await), (expected.clone(), expected));

    trust(&[&site]);
    assert_eq!(thief.message().await.unwrap_err().code(), Code::Unavailable);
    let mut again = AggregatedDiscoveryServiceClient::new(channel);
    let mut turned_away = async || {
        let (_requests, sent) = mpsc::channel::<DeltaDiscoveryRequest>(1);
        let opened = again.delta_aggregated_resources(ReceiverStream::new(sent)).await;
        opened.is_err()
    };
    // The old connection ends a moment after its streams.
    let no_more = async {
        while !turned_away().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, no_more).await.unwrap();
    let expected = publish(2);
    assert_eq!(own.next().await, expected);
}
