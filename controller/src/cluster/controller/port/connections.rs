//! The connections of the HTTP port. Every pod of the cluster may open them, and the kubelet ends a controller that
//! does not answer. So each connection has one request, a time limit, and a place in its stage. A new one always gets
//! a place: see [`Admission`].

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody as _;
use axum::http::Request;
use axum::serve::Listener;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use limpet_xds::{Admission, AdmissionPermit, LogRate};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tower::ServiceExt as _;

/// The most connections without a complete request, of all addresses and of one. Pods behind one node's address share
/// it with that node's probes. Each costs a descriptor, of which a process may have only 1,024.
const REQUESTS: (usize, usize) = (128, 32);
/// The same, of those that wait for an answer or read one.
const ANSWERS: (usize, usize) = (128, 32);
/// The same, of those that read a large answer: few megabytes each.
const LARGE_ANSWERS: (usize, usize) = (16, 4);
/// The least bytes of a large answer.
const LARGE: u64 = 256 << 10;
/// The most bytes of headers. A browser's have one or two thousand.
const HEADERS: usize = 16 << 10;

/// Time limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionTimeouts {
    /// Until its request is complete.
    pub(crate) request: Duration,
    /// From then on until the answer is read. Prometheus gives a scrape 10 seconds by default.
    pub(crate) answer: Duration,
    /// The same at shutdown.
    pub(crate) grace: Duration,
}

impl Default for ConnectionTimeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            answer: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PortClient {
    pub(crate) address: SocketAddr,
    /// Whether another replica has this address.
    pub(crate) is_replica: bool,
}

/// Rejected connections by reason.
pub(crate) type RejectedConnections = Family<RejectionLabels, Counter>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RejectionLabels {
    pub(crate) reason: RejectionLabel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "they are written as they are named")]
pub(crate) enum RejectionLabel {
    /// It gave way to newer ones.
    connections,
    /// Its request was not complete in time.
    request,
    /// Its answer was not read in time.
    answer,
}

impl RejectionLabel {
    pub(crate) const ALL: [Self; 3] = [Self::connections, Self::request, Self::answer];

    /// Words for the log. `None`: browsers open connections that they may not need.
    fn words(self) -> Option<&'static str> {
        match self {
            Self::connections => Some("it gave way to newer ones"),
            Self::request => None,
            Self::answer => Some("its answer took too long"),
        }
    }
}

/// Whether another replica has an address.
type IsReplica = Box<dyn Fn(IpAddr) -> bool + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionStage {
    Request,
    Answer,
    LargeAnswer,
}

pub(crate) struct PortServer {
    router: Router,
    is_replica: IsReplica,
    times: ConnectionTimeouts,
    requests: Admission,
    answers: Admission,
    large_answers: Admission,
    turned_away: RejectedConnections,
    logs: LogRate,
}

impl fmt::Debug for PortServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortServer")
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

impl PortServer {
    pub(crate) fn new(
        router: Router,
        is_replica: IsReplica,
        times: ConnectionTimeouts,
        turned_away: RejectedConnections,
    ) -> Self {
        let [requests, answers, large_answers] =
            [REQUESTS, ANSWERS, LARGE_ANSWERS].map(|(all, of_origin)| Admission::new(all, of_origin));
        Self {
            router,
            is_replica,
            times,
            requests,
            answers,
            large_answers,
            turned_away,
            logs: LogRate::default(),
        }
    }

    /// Serves until `shutdown`. Connections that wait for an answer then have a moment to read it.
    pub(crate) async fn serve(self, mut listener: TcpListener, mut shutdown: watch::Receiver<bool>) {
        let this = Arc::new(self);
        let mut connections = JoinSet::new();
        loop {
            let (stream, address) = tokio::select! {
                accepted = Listener::accept(&mut listener) => accepted,
                Some(_) = connections.join_next() => continue,
                // Also if the sender is gone.
                _ = shutdown.wait_for(|ends| *ends) => break,
            };
            let client = this.client(address);
            // Before the task runs, because this is the order of places.
            let place = this.place(ConnectionStage::Request, client);
            connections.spawn(Arc::clone(&this).converse(stream, client, place, shutdown.clone()));
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    fn client(&self, address: SocketAddr) -> PortClient {
        let is_replica = (self.is_replica)(address.ip().to_canonical());
        PortClient { address, is_replica }
    }

    fn place(&self, stage: ConnectionStage, client: PortClient) -> AdmissionPermit {
        let admission = match stage {
            ConnectionStage::Request => &self.requests,
            ConnectionStage::Answer => &self.answers,
            ConnectionStage::LargeAnswer => &self.large_answers,
        };
        if client.is_replica {
            admission.prefer(client.address.into());
        }
        admission.begin(client.address.into())
    }

    /// Reads one request, and answers it.
    async fn converse(
        self: Arc<Self>,
        stream: TcpStream,
        client: PortClient,
        mut place: AdmissionPermit,
        mut shutdown: watch::Receiver<bool>,
    ) {
        let (stage, mut stages) = watch::channel(ConnectionStage::Request);
        let router = self.router.clone();
        let service = tower::service_fn(move |mut request: Request<_>| {
            let (stage, router) = (stage.clone(), router.clone());
            async move {
                stage.send_replace(ConnectionStage::Answer);
                request.extensions_mut().insert(client);
                let answer = router.oneshot(request).await;
                if let Ok(answer) = &answer
                    && answer.body().size_hint().lower() >= LARGE
                {
                    stage.send_replace(ConnectionStage::LargeAnswer);
                }
                answer
            }
        });
        let mut http = auto::Builder::new(TokioExecutor::new()).http1_only();
        // An idle connection would keep a place.
        http.http1().keep_alive(false).max_buf_size(HEADERS);
        let serving = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        tokio::pin!(serving);
        let (mut current, mut ends) = (ConnectionStage::Request, false);
        let mut end = Instant::now() + self.times.request;
        loop {
            tokio::select! {
                biased;
                // An error is the client's.
                _ = &mut serving => return,
                Ok(()) = stages.changed() => {
                    // An answer may be large at once.
                    if current == ConnectionStage::Request {
                        end = Instant::now() + self.times.answer;
                    }
                    current = *stages.borrow_and_update();
                    place = self.place(current, client);
                }
                () = place.displaced() => return self.turn_away(client, RejectionLabel::connections),
                () = sleep_until(end) => {
                    let is_request = current == ConnectionStage::Request;
                    let reason = if is_request { RejectionLabel::request } else { RejectionLabel::answer };
                    return self.turn_away(client, reason);
                }
                _ = shutdown.wait_for(|ends| *ends), if !ends => {
                    if current == ConnectionStage::Request {
                        return;
                    }
                    ends = true;
                    end = end.min(Instant::now() + self.times.grace);
                }
            }
        }
    }

    fn turn_away(&self, client: PortClient, reason: RejectionLabel) {
        self.turned_away.get_or_create(&RejectionLabels { reason }).inc();
        if let Some(why) = reason.words()
            && let Some(left_out) = self.logs.permit()
        {
            let peer = client.address;
            tracing::warn!(%peer, why, left_out, "a connection to the port of metrics was turned away");
        }
    }
}
