use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use limpet_core::keyring::{KeyEntry, KeyId, KeyState, Seals, Secret};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::cluster::controller::metrics::Metrics;
use crate::cluster::controller::port::{RejectionLabel, RejectionLabels};
use crate::cluster::reconcile::keyring::PublishedKeys;
use crate::cluster::sessions::AnswerSealing;

/// Before any timeout.
const AT_ONCE: Duration = Duration::from_secs(2);
const SHORT: ConnectionTimeouts = ConnectionTimeouts {
    request: Duration::from_secs(1),
    answer: Duration::from_secs(2),
    grace: Duration::from_millis(200),
};
/// Addresses of strangers, probes and another replica.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const PROBE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const REPLICA: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

struct Site {
    address: SocketAddr,
    turned_away: RejectedConnections,
    end: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Site {
    /// With metrics of some megabytes.
    async fn start(times: ConnectionTimeouts) -> Self {
        let (metrics, mut registry) = Metrics::new();
        let many = Family::<Vec<(String, String)>, Gauge>::default();
        for number in 0..20_000 {
            let _ = many.get_or_create(&vec![("pod".to_owned(), format!("{number:0>400}"))]);
        }
        registry.register("many", "Much to read", many);
        let exposition = Exposition {
            registry,
            metrics,
            snapshots: limpet_xds::Snapshots::new(),
            keys: watch::channel(PublishedKeys::default()).1,
            certificates: None,
        };
        let readiness = watch::channel(ReadinessState::Ready).1;
        let MetricsPages { router, turned_away } = pages(exposition, readiness, Some(session_registry()), None);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ending) = watch::channel(false);
        let port = PortServer::new(
            router,
            Box::new(|address| address == REPLICA),
            times,
            turned_away.clone(),
        );
        let serving = tokio::spawn(port.serve(listener, ending));
        Self {
            address,
            turned_away,
            end,
            serving,
        }
    }

    fn turned_away(&self, reason: RejectionLabel) -> u64 {
        self.turned_away.get_or_create(&RejectionLabels { reason }).get()
    }

    async fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        // So that unread bytes do not fit the buffers.
        socket.set_recv_buffer_size(4096).unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    async fn ask(&self, from: Ipv4Addr, path: &str) -> TcpStream {
        let mut stream = self.connect(from).await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: limpet\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn answer(&self, from: Ipv4Addr, path: &str) -> String {
        let began = Instant::now();
        let mut answer = Vec::new();
        let mut stream = self.ask(from, path).await;
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(began.elapsed() < AT_ONCE, "{path} took {:?}", began.elapsed());
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn is_healthy(&self, from: Ipv4Addr) {
        for path in ["/healthz", "/readyz"] {
            let answer = self.answer(from, path).await;
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"),
                "{answer}"
            );
        }
    }
}

/// One that answers other replicas.
fn session_registry() -> SessionRegistry {
    let entry = KeyEntry {
        id: KeyId(1),
        state: KeyState::Signing,
        secret: Some(Secret::new([1; Secret::LEN])),
    };
    let keys = PublishedKeys {
        seals: Some(Seals::new(&[entry], b"limpet test").into()),
        ..PublishedKeys::default()
    };
    let session_registry = SessionRegistry::new();
    session_registry.seal_by(AnswerSealing::new("one".to_owned(), watch::channel(keys).1));
    session_registry
}

/// Waits until the server has ended a connection, within `most`.
async fn ended(mut stream: TcpStream, most: Duration) -> Duration {
    let began = Instant::now();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(most, stream.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "it is open after {most:?}");
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_delay_no_probe() {
    let site = Site::start(ConnectionTimeouts::default()).await;
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(site.connect(STRANGER).await);
    }
    site.is_healthy(PROBE).await;
    // A node may give its address to its pods.
    site.is_healthy(STRANGER).await;
    // From many addresses as well.
    for last in 10..210 {
        silent.push(site.connect(Ipv4Addr::new(127, 0, 1, last)).await);
    }
    site.is_healthy(PROBE).await;
    ended(silent.remove(0), AT_ONCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_read_nothing_delay_no_replica() {
    let site = Site::start(ConnectionTimeouts::default()).await;
    let mut readers = Vec::new();
    for count in [8, 100] {
        for _ in 0..count {
            readers.push(site.ask(STRANGER, "/metrics").await);
            readers.push(site.ask(STRANGER, "/sessions/replica").await);
        }
        for from in [REPLICA, PROBE, STRANGER] {
            site.is_healthy(from).await;
            for path in ["/sessions", "/sessions/replica?process=1&changes=1&question=1"] {
                assert!(site.answer(from, path).await.starts_with("HTTP/1.1 200"));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_read_nothing_keep_few_large_answers() {
    let site = Site::start(ConnectionTimeouts::default()).await;
    let mut readers = Vec::new();
    for last in 10..60 {
        readers.push(site.ask(Ipv4Addr::new(127, 0, 1, last), "/metrics").await);
    }
    let read = tokio::time::timeout(Duration::from_secs(20), async {
        let (mut answer, mut all) = (site.ask(REPLICA, "/metrics").await, String::new());
        answer.read_to_string(&mut all).await.unwrap();
        all
    });
    assert!(read.await.unwrap().ends_with("# EOF\n"));
    // The oldest gave way.
    ended(readers.remove(0), AT_ONCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_comes_byte_by_byte_has_its_time() {
    let site = Site::start(SHORT).await;
    let mut stream = site.connect(STRANGER).await;
    let began = Instant::now();
    for byte in b"GET /healthz HTTP/1.1\r\nHost: limpet\r\n".iter().cycle() {
        if stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(SHORT.request / 20).await;
        assert!(began.elapsed() < 5 * SHORT.request, "it is still read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_is_cut_off() {
    let site = Site::start(SHORT).await;
    let mut stream = site.ask(STRANGER, "/metrics").await;
    let mut first = [0; 1000];
    stream.read_exact(&mut first).await.unwrap();
    tokio::time::sleep(2 * SHORT.answer).await;
    let mut rest = String::new();
    let _ = stream.read_to_string(&mut rest).await;
    assert!(!rest.ends_with("# EOF\n"), "it was waited for");
}

/// Longer than a request may take to come.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_scrape_gets_all_of_it() {
    let times = ConnectionTimeouts {
        request: SHORT.request,
        ..ConnectionTimeouts::default()
    };
    let site = Site::start(times).await;
    let mut stream = site.ask(PROBE, "/metrics").await;
    let (mut part, mut all) = (vec![0; 64 << 10], Vec::new());
    while let read @ 1.. = stream.read(&mut part).await.unwrap() {
        all.extend_from_slice(&part[..read]);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(all.ends_with(b"# EOF\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_and_slow_readers_delay_no_shutdown() {
    let site = Site::start(SHORT).await;
    let _silent = site.connect(STRANGER).await;
    let _slow = site.ask(STRANGER, "/metrics").await;
    site.is_healthy(PROBE).await;
    site.end.send_replace(true);
    tokio::time::timeout(AT_ONCE, site.serving).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_turned_away_are_counted() {
    let site = Site::start(SHORT).await;
    site.is_healthy(PROBE).await;
    assert_eq!(RejectionLabel::ALL.map(|reason| site.turned_away(reason)), [0; 3]);
    let reader = site.ask(STRANGER, "/metrics").await;
    let mut silent = Vec::new();
    for _ in 0..33 {
        silent.push(site.connect(STRANGER).await);
    }
    ended(silent.remove(0), AT_ONCE).await;
    assert_eq!(site.turned_away(RejectionLabel::connections), 1);
    ended(silent.remove(0), 2 * SHORT.request).await;
    tokio::time::sleep(2 * SHORT.answer).await;
    assert_eq!(RejectionLabel::ALL.map(|reason| site.turned_away(reason)), [1, 32, 1]);
    drop(reader);
}
