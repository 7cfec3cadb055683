//! A fake proxy for tests, fuzz targets and benchmarks: it answers questions and records them.
#![allow(missing_docs, reason = "each setter is named like what it sets")]
#![allow(clippy::new_without_default, reason = "what is new is not empty")]

pub mod exchanges;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::Backend;
use crate::redirect::UnansweredRequests;
use crate::time::Timestamp;
use crate::token::DestinationId;
use crate::view::{self, RequestView, ResponseView, ViewError, ViewResult};

pub const SESSION: &str = "shop/cart";
pub const CLUSTER: &str = "backends";

#[derive(Debug, Clone)]
struct Questions {
    /// `None` if they are not recorded.
    asked: Option<Arc<Mutex<Vec<String>>>>,
    broken: Option<&'static str>,
}

impl Questions {
    fn new() -> Self {
        Self {
            asked: Some(Arc::default()),
            broken: None,
        }
    }

    fn answer<'a>(&self, what: &str, answer: Option<&'a Vec<u8>>) -> ViewResult<'a> {
        self.ask(what, answer.map(|answer| Cow::Borrowed(answer.as_slice())))
    }

    fn ask<T>(&self, what: &str, answer: T) -> Result<T, ViewError> {
        self.record(what);
        match self.broken {
            Some(broken) if broken == what => Err(ViewError {
                what: broken,
                status: 6,
            }),
            _ => Ok(answer),
        }
    }

    fn record(&self, what: &str) {
        if let Some(asked) = &self.asked {
            asked
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(what.to_owned());
        }
    }

    fn asked(&self) -> Vec<String> {
        let asked = self.asked.as_ref();
        asked.map_or(Vec::new(), |asked| {
            asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
        })
    }
}

type RestartHostFn = dyn Fn(&Backend, Timestamp) -> Option<SocketAddr> + Send + Sync;

#[derive(Clone)]
struct RestartHost(Arc<RestartHostFn>);

impl fmt::Debug for RestartHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MayLeave(..)")
    }
}

/// A request as the proxy sees it. Clones share the record of questions.
#[derive(Debug, Clone)]
#[must_use]
pub struct FakeRequest {
    route_session: Option<Vec<u8>>,
    route_name: Option<Vec<u8>>,
    virtual_host: Option<Vec<u8>>,
    cluster: Option<Vec<u8>>,
    cluster_session: Option<Vec<u8>>,
    destinations: Vec<String>,
    led: Option<DestinationId>,
    /// After the filter returns.
    rerouted_later: bool,
    client: Option<Vec<u8>>,
    headers: BTreeMap<String, Vec<u8>>,
    other_headers: Option<Vec<u8>>,
    unanswered: Option<&'static UnansweredRequests>,
    may_leave: Option<RestartHost>,
    questions: Questions,
}

impl FakeRequest {
    /// Plain HTTP, on a route with the metadata [`SESSION`].
    pub fn new() -> Self {
        Self {
            route_session: Some(SESSION.into()),
            route_name: Some(b"route".to_vec()),
            virtual_host: Some(b"host".to_vec()),
            cluster: Some(CLUSTER.into()),
            cluster_session: None,
            destinations: Vec::new(),
            led: None,
            rerouted_later: false,
            client: None,
            headers: BTreeMap::from([(":scheme".to_owned(), b"http".to_vec())]),
            other_headers: None,
            unanswered: None,
            may_leave: None,
            questions: Questions::new(),
        }
    }

    /// A request on a route without metadata.
    pub fn on_route(name: &str) -> Self {
        Self {
            route_session: None,
            route_name: Some(name.into()),
            ..Self::new()
        }
    }

    pub fn on_nameless_route() -> Self {
        Self {
            route_session: None,
            route_name: None,
            ..Self::new()
        }
    }

    pub fn session(self, metadata: impl AsRef<[u8]>) -> Self {
        Self {
            route_session: Some(metadata.as_ref().to_vec()),
            ..self
        }
    }

    pub fn virtual_host(self, name: &str) -> Self {
        Self {
            virtual_host: Some(name.into()),
            ..self
        }
    }

    pub fn cluster(self, name: &str) -> Self {
        Self {
            cluster: Some(name.into()),
            ..self
        }
    }

    pub fn cluster_session(self, metadata: &str) -> Self {
        Self {
            cluster_session: Some(metadata.into()),
            ..self
        }
    }

    pub fn destinations(self, clusters: &[&str]) -> Self {
        Self {
            destinations: clusters.iter().map(ToString::to_string).collect(),
            ..self
        }
    }

    pub fn rerouted_later(self) -> Self {
        Self {
            rerouted_later: true,
            ..self
        }
    }

    /// Of an adapter that remembers requests without a response here.
    pub fn remembered(self, unanswered: &'static UnansweredRequests, id: &str) -> Self {
        Self {
            unanswered: Some(unanswered),
            ..self.header("x-request-id", id)
        }
    }

    pub fn may_leave(self, to: impl Fn(&Backend, Timestamp) -> Option<SocketAddr> + Send + Sync + 'static) -> Self {
        Self {
            may_leave: Some(RestartHost(Arc::new(to))),
            ..self
        }
    }

    /// Begun again by the proxy.
    pub fn redirected(self) -> Self {
        self.header("x-envoy-original-url", "http://shop/from")
    }

    /// The client's `ip:port`.
    pub fn client(self, address: &(impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            client: Some(address.as_ref().to_vec()),
            ..self
        }
    }

    pub fn https(self) -> Self {
        self.header(":scheme", "https")
    }

    pub fn cookie(self, field: &(impl AsRef<[u8]> + ?Sized)) -> Self {
        self.header("cookie", field)
    }

    pub fn path(self, path: &str) -> Self {
        self.header(":path", path)
    }

    pub fn header(mut self, name: &str, value: &(impl AsRef<[u8]> + ?Sized)) -> Self {
        self.headers.insert(name.to_owned(), value.as_ref().to_vec());
        self
    }

    pub fn other_headers(self, field: &str) -> Self {
        Self {
            other_headers: Some(field.into()),
            ..self
        }
    }

    /// The proxy does not answer this question.
    pub fn broken(mut self, what: &'static str) -> Self {
        self.questions.broken = Some(what);
        self
    }

    /// Questions are not recorded, for benchmarks.
    pub fn unrecorded(mut self) -> Self {
        self.questions.asked = None;
        self
    }

    #[must_use]
    pub fn questions(&self) -> Vec<String> {
        self.questions.asked()
    }

    #[must_use]
    pub fn led(&self) -> Option<DestinationId> {
        self.led
    }

    fn lead_to(&mut self, destination: DestinationId) {
        self.led = Some(destination);
        let of_destination = self
            .destinations
            .iter()
            .find(|name| DestinationId::of_cluster(name.as_bytes()) == destination);
        if let Some(name) = of_destination {
            self.cluster = Some(name.clone().into_bytes());
        }
    }
}

impl RequestView for FakeRequest {
    fn route_session(&self) -> ViewResult<'_> {
        self.questions.answer("route_session", self.route_session.as_ref())
    }
    fn cluster_session(&self) -> ViewResult<'_> {
        self.questions.answer("cluster_session", self.cluster_session.as_ref())
    }
    fn route_name(&self) -> ViewResult<'_> {
        self.questions.answer("route_name", self.route_name.as_ref())
    }
    fn virtual_host(&self) -> ViewResult<'_> {
        self.questions.answer("virtual_host", self.virtual_host.as_ref())
    }
    fn cluster_name(&self) -> ViewResult<'_> {
        self.questions.answer("cluster_name", self.cluster.as_ref())
    }
    fn client_address(&self) -> ViewResult<'_> {
        self.questions.answer("client_address", self.client.as_ref())
    }
    fn header(&self, name: &str) -> ViewResult<'_> {
        let field = self.headers.get(name).or(self.other_headers.as_ref());
        self.questions.answer(name, field)
    }
    fn choose_again(&mut self, destination: DestinationId) -> ViewResult<'_> {
        self.lead_to(destination);
        self.questions.answer("choose_again", self.cluster.as_ref())
    }
    fn reroute(&mut self, destination: DestinationId) -> ViewResult<'_> {
        self.lead_to(destination);
        let known = self.cluster.as_ref().filter(|_| !self.rerouted_later);
        self.questions.answer("reroute", known)
    }
    fn unanswered(&self) -> Option<&'static UnansweredRequests> {
        self.unanswered
    }
    fn restart_host(&self, backend: &Backend, now: Timestamp) -> Option<SocketAddr> {
        self.questions.record("may_leave");
        self.may_leave.as_ref()?.0(backend, now)
    }
}

/// A response as the proxy sees it.
#[derive(Debug)]
#[must_use]
pub struct FakeResponse {
    other_host: bool,
    details: Option<Vec<u8>>,
    address: Option<Vec<u8>>,
    cluster: Option<Vec<u8>>,
    cluster_session: Option<Vec<u8>>,
    headers: Vec<(String, Vec<u8>)>,
    https: Cell<bool>,
    nonce: Cell<[u8; 4]>,
    questions: Questions,
}

impl FakeResponse {
    /// The proxy does not know whether this backend is the one that was asked for.
    pub fn by(host: &str) -> Self {
        Self {
            other_host: true,
            details: Some(b"via_upstream".to_vec()),
            address: Some(host.into()),
            cluster: Some(CLUSTER.into()),
            cluster_session: None,
            headers: vec![(":status".to_owned(), b"200".to_vec())],
            https: Cell::new(false),
            nonce: Cell::new([1; 4]),
            questions: Questions::new(),
        }
    }

    pub fn surely_as_asked(self) -> Self {
        Self {
            other_host: false,
            ..self
        }
    }

    /// Without an IP address.
    pub fn by_a_pipe() -> Self {
        Self {
            address: None,
            ..Self::by("0.0.0.0:0")
        }
    }

    /// The proxy's own reply, with the address of the host that it tried.
    pub fn local(status: u16, details: &str, tried: &str) -> Self {
        Self {
            details: Some(details.into()),
            ..Self::by(tried).status(status)
        }
    }

    pub fn nonce(self, nonce: [u8; 4]) -> Self {
        self.nonce.set(nonce);
        self
    }

    pub fn without_details(self) -> Self {
        Self { details: None, ..self }
    }

    pub fn cluster(self, name: &str) -> Self {
        Self {
            cluster: Some(name.into()),
            ..self
        }
    }

    pub fn cluster_session(self, metadata: &str) -> Self {
        Self {
            cluster_session: Some(metadata.into()),
            ..self
        }
    }

    pub fn status(mut self, status: u16) -> Self {
        self.headers.retain(|(name, _)| name != ":status");
        self.header(":status", &status.to_string())
    }

    pub fn answer(&self, request: &FakeRequest) {
        let scheme = request.headers.get(":scheme");
        self.https.set(scheme.is_some_and(|scheme| view::is_https(scheme)));
    }

    pub fn header(mut self, name: &str, value: &(impl AsRef<[u8]> + ?Sized)) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    pub fn broken(mut self, what: &'static str) -> Self {
        self.questions.broken = Some(what);
        self
    }

    pub fn unrecorded(mut self) -> Self {
        self.questions.asked = None;
        self
    }

    #[must_use]
    pub fn questions(&self) -> Vec<String> {
        self.questions.asked()
    }
}

impl ResponseView for FakeResponse {
    fn maybe_other_host(&self, _strict: bool) -> Result<bool, ViewError> {
        self.questions.ask("maybe_other_host", self.other_host)
    }
    fn code_details(&self) -> ViewResult<'_> {
        self.questions.answer("code_details", self.details.as_ref())
    }
    fn upstream_address(&self) -> ViewResult<'_> {
        self.questions.answer("upstream_address", self.address.as_ref())
    }
    fn cluster_name(&self) -> ViewResult<'_> {
        self.questions.answer("cluster_name", self.cluster.as_ref())
    }
    fn cluster_session(&self) -> ViewResult<'_> {
        self.questions.answer("cluster_session", self.cluster_session.as_ref())
    }
    fn fields(&self, name: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError> {
        let fields = self.headers.iter().filter(|(known, _)| known == name);
        self.questions
            .ask(name, fields.map(|(_, value)| Cow::Borrowed(value.as_slice())).collect())
    }
    fn is_https(&self) -> Result<bool, ViewError> {
        self.questions.ask(":scheme", self.https.get())
    }
    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        let nonce = self.nonce.get();
        self.nonce.set(nonce.map(|byte| byte.wrapping_add(1)));
        self.questions.ask("nonce", nonce)
    }
}
