//! Answers to the core's questions, each by one callback.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use limpet_core::SessionError;
use limpet_core::time::Timestamp;
use limpet_core::view::{Answer, RequestView, ResponseView, ViewError};

use crate::abi::{Attribute, Exchange, Headers, HostError};
use crate::plugin::RouteSession;

/// The request that Envoy is calling about.
pub(crate) struct Request<'a>(pub(crate) &'a Exchange<'a>);

/// The response that Envoy is calling about.
pub(crate) struct Response<'a> {
    pub(crate) exchange: &'a Exchange<'a>,
    /// The host that the request was to go to.
    pub(crate) asked: Option<SocketAddr>,
    /// Why Envoy answers by itself, where it does.
    pub(crate) local_reply: Option<&'a [u8]>,
}

/// The `response.code_details` of a response that a backend gave.
const VIA_UPSTREAM: &[u8] = b"via_upstream";

/// The time.
pub(crate) fn now() -> Timestamp {
    // A clock before 1970 is as good as one at it.
    Timestamp::from_unix(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Callbacks have no status codes.
fn failed(what: &'static str) -> ViewError {
    ViewError { what, status: 0 }
}

impl From<HostError> for ViewError {
    fn from(HostError(what): HostError) -> Self {
        failed(what)
    }
}

impl From<HostError> for SessionError {
    fn from(error: HostError) -> Self {
        ViewError::from(error).into()
    }
}

fn attribute(exchange: &Exchange<'_>, attribute: Attribute) -> Answer {
    Ok(exchange.attribute(attribute)?)
}

impl RequestView for Request<'_> {
    fn route_session(&self) -> Answer {
        if let Some(RouteSession(session)) = self.0.route_session()? {
            return Ok(Some(session.clone()));
        }
        let session = self.0.route_metadata("limpet", "session")?;
        // As the wasm filter, which is told an empty one as an absent header.
        Ok(session.filter(|session| !session.is_empty()))
    }

    fn route_name(&self) -> Answer {
        attribute(self.0, Attribute::RouteName)
    }

    fn virtual_host(&self) -> Answer {
        attribute(self.0, Attribute::VirtualHostName)
    }

    fn cluster_name(&self) -> Answer {
        Ok(self.0.cluster_name()?)
    }

    fn header(&self, name: &str) -> Answer {
        let separator: &[u8] = if name == "cookie" { b"; " } else { b"," };
        Ok(self.0.header(Headers::Request, name, separator)?)
    }
}

impl ResponseView for Response<'_> {
    fn maybe_other_host(&self, _strict: bool) -> Result<bool, ViewError> {
        Ok(self.upstream_address()? != self.asked)
    }

    fn code_details(&self) -> Answer {
        // 1.38 does not tell modules `response.code_details`, but every Envoy tells them of its own replies.
        if let Some(details) = self.local_reply {
            return Ok(Some(details.to_vec()));
        }
        // Neither Envoy's nor a backend's: a cache's, say.
        let upstream = attribute(self.exchange, Attribute::UpstreamAddress)?;
        Ok(upstream.map(|_| VIA_UPSTREAM.to_vec()))
    }

    fn upstream_address(&self) -> Result<Option<SocketAddr>, ViewError> {
        let address = attribute(self.exchange, Attribute::UpstreamAddress)?;
        Ok(address
            .and_then(|address| String::from_utf8(address).ok())
            .and_then(|address| address.parse().ok()))
    }

    fn cluster_name(&self) -> Answer {
        Ok(self.exchange.cluster_name()?)
    }

    fn status(&self) -> Result<u16, ViewError> {
        let status = self.header(":status")?.unwrap_or_default();
        Ok(std::str::from_utf8(&status)
            .ok()
            .and_then(|status| status.parse().ok())
            .unwrap_or(0))
    }

    fn header(&self, name: &str) -> Answer {
        Ok(self.exchange.header(Headers::Response, name, b",")?)
    }

    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        let mut nonce = [0; 4];
        getrandom::fill(&mut nonce).map_err(|_| failed("random bytes"))?;
        Ok(nonce)
    }
}
