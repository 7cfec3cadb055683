//! A fake proxy that answers questions and records them.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use limpet_core::Unanswered;
use limpet_core::census::Backend;
use limpet_core::time::Timestamp;
use limpet_core::token::Destination;
use limpet_core::view::{self, Answer, RequestView, ResponseView, ViewError};

use super::{B, CLUSTER, SESSION};

/// The questions, in order.
#[derive(Debug, Clone, Default)]
struct Questions {
    asked: Rc<RefCell<Vec<String>>>,
    broken: Option<&'static str>,
}

impl Questions {
    fn answer<'a>(&self, what: &str, answer: Option<&'a Vec<u8>>) -> Answer<'a> {
        self.ask(what, answer.map(|answer| Cow::Borrowed(answer.as_slice())))
    }

    fn ask<T>(&self, what: &str, answer: T) -> Result<T, ViewError> {
        self.asked.borrow_mut().push(what.to_owned());
        match self.broken {
            Some(broken) if broken == what => Err(ViewError {
                what: broken,
                status: 6,
            }),
            _ => Ok(answer),
        }
    }
}

/// A request as the proxy sees it. Clones share the record of questions.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    route_session: Option<Vec<u8>>,
    route_name: Option<Vec<u8>>,
    virtual_host: Option<Vec<u8>>,
    cluster: Option<Vec<u8>>,
    cluster_session: Option<Vec<u8>>,
    /// The clusters that sessions can be led to.
    destinations: Vec<String>,
    /// Whether the proxy matches the request again only after the filter returns.
    rerouted_later: bool,
    client: Option<Vec<u8>>,
    headers: BTreeMap<String, Vec<u8>>,
    unanswered: Option<&'static Unanswered>,
    /// How many sessions may restart on [`B`].
    budget: Rc<Cell<u32>>,
    questions: Questions,
}

impl Request {
    /// A plain HTTP request on a route with the metadata [`SESSION`].
    pub(crate) fn new() -> Self {
        Self {
            route_session: Some(SESSION.into()),
            route_name: Some(b"route".to_vec()),
            virtual_host: Some(b"host".to_vec()),
            cluster: Some(CLUSTER.into()),
            cluster_session: None,
            destinations: Vec::new(),
            rerouted_later: false,
            client: None,
            headers: BTreeMap::from([(":scheme".to_owned(), b"http".to_vec())]),
            unanswered: None,
            budget: Rc::default(),
            questions: Questions::default(),
        }
    }

    /// A request on a route without metadata.
    pub(crate) fn on_route(name: &str) -> Self {
        Self {
            route_session: None,
            route_name: Some(name.into()),
            ..Self::new()
        }
    }

    /// A request on a route without metadata and without a name.
    pub(crate) fn on_nameless_route() -> Self {
        Self {
            route_session: None,
            route_name: None,
            ..Self::new()
        }
    }

    pub(crate) fn session(self, metadata: impl AsRef<[u8]>) -> Self {
        Self {
            route_session: Some(metadata.as_ref().to_vec()),
            ..self
        }
    }

    pub(crate) fn virtual_host(self, name: &str) -> Self {
        Self {
            virtual_host: Some(name.into()),
            ..self
        }
    }

    pub(crate) fn cluster(self, name: &str) -> Self {
        Self {
            cluster: Some(name.into()),
            ..self
        }
    }

    /// The metadata of the cluster.
    pub(crate) fn cluster_session(self, metadata: &str) -> Self {
        Self {
            cluster_session: Some(metadata.into()),
            ..self
        }
    }

    /// The clusters that sessions can be led to.
    pub(crate) fn destinations(self, clusters: &[&str]) -> Self {
        Self {
            destinations: clusters.iter().map(ToString::to_string).collect(),
            ..self
        }
    }

    /// The proxy matches the request again only after the filter returns.
    pub(crate) fn rerouted_later(self) -> Self {
        Self {
            rerouted_later: true,
            ..self
        }
    }

    /// A request of this id, of an adapter that remembers requests without a response here.
    pub(crate) fn remembered(self, unanswered: &'static Unanswered, id: &str) -> Self {
        Self {
            unanswered: Some(unanswered),
            ..self.header("x-request-id", id)
        }
    }

    /// So many sessions of any backend may restart on [`B`].
    pub(crate) fn budget(self, sessions: u32) -> Self {
        self.budget.set(sessions);
        self
    }

    /// The same request, begun again by the proxy.
    pub(crate) fn redirected(self) -> Self {
        self.header("x-envoy-original-url", "http://shop/from")
    }

    /// A request of the client at this address, `ip:port`.
    pub(crate) fn client(self, address: &str) -> Self {
        Self {
            client: Some(address.into()),
            ..self
        }
    }

    pub(crate) fn https(self) -> Self {
        self.header(":scheme", "https")
    }

    pub(crate) fn cookie(self, field: &str) -> Self {
        self.header("cookie", field)
    }

    pub(crate) fn path(self, path: &str) -> Self {
        self.header(":path", path)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.into());
        self
    }

    /// The proxy does not answer this question.
    pub(crate) fn broken(mut self, what: &'static str) -> Self {
        self.questions.broken = Some(what);
        self
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.questions.asked.borrow().clone()
    }

    fn lead_to(&mut self, destination: Destination) {
        let of_destination = self
            .destinations
            .iter()
            .find(|name| Destination::of_cluster(name.as_bytes()) == destination);
        if let Some(name) = of_destination {
            self.cluster = Some(name.clone().into_bytes());
        }
    }
}

impl RequestView for Request {
    fn route_session(&self) -> Answer<'_> {
        self.questions.answer("route_session", self.route_session.as_ref())
    }
    fn cluster_session(&self) -> Answer<'_> {
        self.questions.answer("cluster_session", self.cluster_session.as_ref())
    }
    fn route_name(&self) -> Answer<'_> {
        self.questions.answer("route_name", self.route_name.as_ref())
    }
    fn virtual_host(&self) -> Answer<'_> {
        self.questions.answer("virtual_host", self.virtual_host.as_ref())
    }
    fn cluster_name(&self) -> Answer<'_> {
        self.questions.answer("cluster_name", self.cluster.as_ref())
    }
    fn client_address(&self) -> Answer<'_> {
        self.questions.answer("client_address", self.client.as_ref())
    }
    fn header(&self, name: &str) -> Answer<'_> {
        self.questions.answer(name, self.headers.get(name))
    }
    fn choose_again(&mut self, destination: Destination) -> Answer<'_> {
        self.lead_to(destination);
        self.questions.answer("choose_again", self.cluster.as_ref())
    }
    fn reroute(&mut self, destination: Destination) -> Answer<'_> {
        self.lead_to(destination);
        let known = self.cluster.as_ref().filter(|_| !self.rerouted_later);
        self.questions.answer("reroute", known)
    }
    fn unanswered(&self) -> Option<&'static Unanswered> {
        self.unanswered
    }
    fn may_leave(&self, _: &Backend, _: Timestamp) -> Option<SocketAddr> {
        self.questions.asked.borrow_mut().push("may_leave".to_owned());
        let left = self.budget.get();
        self.budget.set(left.saturating_sub(1));
        (left > 0).then(|| B.parse().unwrap())
    }
}

/// A response as the proxy sees it.
#[derive(Debug)]
pub(crate) struct Response {
    other_host: bool,
    details: Option<Vec<u8>>,
    address: Option<Vec<u8>>,
    cluster: Option<Vec<u8>>,
    cluster_session: Option<Vec<u8>>,
    headers: Vec<(String, Vec<u8>)>,
    /// The headers of the request.
    request: RefCell<BTreeMap<String, Vec<u8>>>,
    nonces: Cell<u8>,
    questions: Questions,
}

impl Response {
    /// A response of this backend. The proxy does not know whether it is the one that was asked for.
    pub(crate) fn by(host: &str) -> Self {
        Self {
            other_host: true,
            details: Some(b"via_upstream".to_vec()),
            address: Some(host.into()),
            cluster: Some(CLUSTER.into()),
            cluster_session: None,
            headers: vec![(":status".to_owned(), b"200".to_vec())],
            request: RefCell::default(),
            nonces: Cell::default(),
            questions: Questions::default(),
        }
    }

    /// The proxy knows that the host that was asked for answered.
    pub(crate) fn surely_as_asked(self) -> Self {
        Self {
            other_host: false,
            ..self
        }
    }

    /// A response of a backend without an IP address.
    pub(crate) fn by_a_pipe() -> Self {
        Self {
            address: None,
            ..Self::by("0.0.0.0:0")
        }
    }

    /// A reply of the proxy with these details. The proxy still has the address of the host that it tried.
    pub(crate) fn local(status: u16, details: &str, tried: &str) -> Self {
        Self {
            details: Some(details.into()),
            ..Self::by(tried).status(status)
        }
    }

    /// The random bytes begin with others.
    pub(crate) fn numbered(self, number: u8) -> Self {
        self.nonces.set(number);
        self
    }

    pub(crate) fn without_details(self) -> Self {
        Self { details: None, ..self }
    }

    pub(crate) fn cluster(self, name: &str) -> Self {
        Self {
            cluster: Some(name.into()),
            ..self
        }
    }

    /// The metadata of the cluster.
    pub(crate) fn cluster_session(self, metadata: &str) -> Self {
        Self {
            cluster_session: Some(metadata.into()),
            ..self
        }
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.headers.retain(|(name, _)| name != ":status");
        self.header(":status", &status.to_string())
    }

    /// Makes this the response to a request.
    pub(super) fn answer(&self, request: &Request) {
        self.request.replace(request.headers.clone());
    }

    /// Adds a field.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The proxy does not answer this question.
    pub(crate) fn broken(mut self, what: &'static str) -> Self {
        self.questions.broken = Some(what);
        self
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.questions.asked.borrow().clone()
    }
}

impl ResponseView for Response {
    fn maybe_other_host(&self, _strict: bool) -> Result<bool, ViewError> {
        self.questions.ask("maybe_other_host", self.other_host)
    }
    fn code_details(&self) -> Answer<'_> {
        self.questions.answer("code_details", self.details.as_ref())
    }
    fn upstream_address(&self) -> Answer<'_> {
        self.questions.answer("upstream_address", self.address.as_ref())
    }
    fn cluster_name(&self) -> Answer<'_> {
        self.questions.answer("cluster_name", self.cluster.as_ref())
    }
    fn cluster_session(&self) -> Answer<'_> {
        self.questions.answer("cluster_session", self.cluster_session.as_ref())
    }
    fn fields(&self, name: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError> {
        let fields = self.headers.iter().filter(|(known, _)| known == name);
        self.questions
            .ask(name, fields.map(|(_, value)| Cow::Borrowed(value.as_slice())).collect())
    }
    fn is_https(&self) -> Result<bool, ViewError> {
        let scheme = self.request.borrow().get(":scheme").cloned().unwrap_or_default();
        self.questions.ask(":scheme", view::is_https(&scheme))
    }
    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        self.nonces.set(self.nonces.get().wrapping_add(1));
        self.questions.ask("nonce", [self.nonces.get(); 4])
    }
}
