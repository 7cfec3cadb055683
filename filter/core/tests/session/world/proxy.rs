//! A proxy that answers what it is asked, and notes what that was.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;

use limpet_core::view::{Answer, RequestView, ResponseView, ViewError};

use super::{CLUSTER, SESSION};

/// What was asked, in order.
#[derive(Debug, Default)]
struct Questions {
    asked: RefCell<Vec<String>>,
    broken: Option<&'static str>,
}

impl Questions {
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

/// A request as the proxy sees it.
#[derive(Debug)]
pub(crate) struct Request {
    route_session: Option<Vec<u8>>,
    route_name: Option<Vec<u8>>,
    virtual_host: Option<Vec<u8>>,
    cluster: Option<Vec<u8>>,
    headers: BTreeMap<String, Vec<u8>>,
    questions: Questions,
}

impl Request {
    /// Over plain HTTP, on a route whose metadata says [`SESSION`].
    pub(crate) fn new() -> Self {
        Self {
            route_session: Some(SESSION.into()),
            route_name: Some(b"route".to_vec()),
            virtual_host: Some(b"host".to_vec()),
            cluster: Some(CLUSTER.into()),
            headers: BTreeMap::from([(":scheme".to_owned(), b"http".to_vec())]),
            questions: Questions::default(),
        }
    }

    /// On a route without metadata.
    pub(crate) fn on_route(name: &str) -> Self {
        Self {
            route_session: None,
            route_name: Some(name.into()),
            ..Self::new()
        }
    }

    /// On a route without metadata and without a name.
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

    pub(crate) fn https(self) -> Self {
        self.header(":scheme", "https")
    }

    pub(crate) fn cookie(self, field: &str) -> Self {
        self.header("cookie", field)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.into());
        self
    }

    /// The proxy fails this question.
    pub(crate) fn broken(mut self, what: &'static str) -> Self {
        self.questions.broken = Some(what);
        self
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.questions.asked.borrow().clone()
    }
}

impl RequestView for Request {
    fn route_session(&self) -> Answer {
        self.questions.ask("route_session", self.route_session.clone())
    }
    fn route_name(&self) -> Answer {
        self.questions.ask("route_name", self.route_name.clone())
    }
    fn virtual_host(&self) -> Answer {
        self.questions.ask("virtual_host", self.virtual_host.clone())
    }
    fn cluster_name(&self) -> Answer {
        self.questions.ask("cluster_name", self.cluster.clone())
    }
    fn header(&self, name: &str) -> Answer {
        self.questions.ask(name, self.headers.get(name).cloned())
    }
}

/// A response as the proxy sees it.
#[derive(Debug)]
pub(crate) struct Response {
    other_host: bool,
    details: Option<Vec<u8>>,
    address: Option<SocketAddr>,
    cluster: Option<Vec<u8>>,
    status: u16,
    headers: BTreeMap<String, Vec<u8>>,
    nonces: Cell<u8>,
    questions: Questions,
}

impl Response {
    /// An answer of this backend. The proxy cannot tell whether it is the one that was asked for.
    pub(crate) fn by(host: &str) -> Self {
        Self {
            other_host: true,
            details: Some(b"via_upstream".to_vec()),
            address: Some(host.parse().unwrap()),
            cluster: Some(CLUSTER.into()),
            status: 200,
            headers: BTreeMap::new(),
            nonces: Cell::default(),
            questions: Questions::default(),
        }
    }

    /// The proxy is sure that the host that was asked for answered.
    pub(crate) fn surely_as_asked(self) -> Self {
        Self {
            other_host: false,
            ..self
        }
    }

    /// An answer of a backend without an IP address.
    pub(crate) fn by_a_pipe() -> Self {
        Self {
            address: None,
            ..Self::by("0.0.0.0:0")
        }
    }

    /// The proxy's own answer, with these details, while it still knows the host that it tried.
    pub(crate) fn local(status: u16, details: &str, tried: &str) -> Self {
        Self {
            status,
            details: Some(details.into()),
            ..Self::by(tried)
        }
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

    pub(crate) fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.into());
        self
    }

    /// The proxy fails this question.
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
    fn code_details(&self) -> Answer {
        self.questions.ask("code_details", self.details.clone())
    }
    fn upstream_address(&self) -> Result<Option<SocketAddr>, ViewError> {
        self.questions.ask("upstream_address", self.address)
    }
    fn cluster_name(&self) -> Answer {
        self.questions.ask("cluster_name", self.cluster.clone())
    }
    fn status(&self) -> Result<u16, ViewError> {
        self.questions.ask("status", self.status)
    }
    fn header(&self, name: &str) -> Answer {
        self.questions.ask(name, self.headers.get(name).cloned())
    }
    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        self.nonces.set(self.nonces.get().wrapping_add(1));
        self.questions.ask("nonce", [self.nonces.get(); 4])
    }
}
