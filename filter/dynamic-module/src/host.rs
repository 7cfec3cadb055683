//! Answers the core's questions, each with one callback.

use std::borrow::Cow;
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use limpet_core::census::Backend;
use limpet_core::envoy::{DESTINATION_HEADER, DESTINATION_KEY, METADATA_KEY, METADATA_NAMESPACE, VIA_UPSTREAM};
use limpet_core::time::Timestamp;
use limpet_core::token::DestinationId;
use limpet_core::view::{self, RequestView, ResponseView, ViewError, ViewResult};
use limpet_core::{Counters, SessionError, UnansweredRequests};

use crate::abi::{AttributeId, Counter, EnvoyFilter, HeaderType, HostError, MetadataSource, PerRouteLookup};
use crate::census::CENSUS;

/// The tokens of requests that ended without a response, of all workers.
pub(crate) static UNANSWERED: UnansweredRequests = UnansweredRequests::new();

thread_local! {
    /// Memory for changed headers.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Larger memory is given back, so that a client with a long header does not fill every worker's.
const MAX_ROOM: usize = 16 * 1024;

pub(crate) fn keep_room(mut room: Vec<u8>) {
    if room.capacity() <= MAX_ROOM {
        room.clear();
        // Fails while the thread ends.
        let _ = ROOM.try_with(|kept| kept.set(room));
    }
}

pub(crate) struct ModuleRequest<'e, 'h> {
    pub(crate) exchange: &'e mut EnvoyFilter<'h>,
    pub(crate) counters: &'e Counters<Counter>,
}

pub(crate) struct ModuleResponse<'e, 'h> {
    pub(crate) exchange: &'e EnvoyFilter<'h>,
    /// The host that the request was steered to, as `ip:port`.
    pub(crate) requested_host: Option<&'e [u8]>,
    /// The response code details of Envoy's own reply.
    pub(crate) local_reply: Option<&'e [u8]>,
}

#[cfg(test)]
thread_local! {
    pub(crate) static TIME: Cell<Option<Timestamp>> = const { Cell::new(None) };
}

pub(crate) fn now() -> Timestamp {
    #[cfg(test)]
    if let Some(time) = TIME.get() {
        return time;
    }
    // A clock before 1970 is wrong anyway.
    Timestamp::from_unix(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// An error for the core. Callbacks have no status codes.
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

fn attribute<'e>(exchange: &'e EnvoyFilter<'_>, attribute: AttributeId) -> ViewResult<'e> {
    Ok(exchange.attribute(attribute)?.map(Cow::Borrowed))
}

fn session<'e>(exchange: &'e EnvoyFilter<'_>, of: MetadataSource) -> ViewResult<'e> {
    let session = exchange.metadata(of, METADATA_NAMESPACE, METADATA_KEY)?;
    // An empty string counts as absent, as in the wasm filter, which gets it as a header.
    Ok(session.filter(|session| !session.is_empty()).map(Cow::Borrowed))
}

impl RequestView for ModuleRequest<'_, '_> {
    fn route_session(&self) -> ViewResult<'_> {
        match self.exchange.per_route_config()? {
            PerRouteLookup::Ours(config) => return Ok(Some(Cow::Borrowed(&config.0))),
            PerRouteLookup::Unknown => self.exchange.count(self.counters.unknown_route_configs()),
            PerRouteLookup::None => {}
        }
        session(self.exchange, MetadataSource::Route)
    }

    fn cluster_session(&self) -> ViewResult<'_> {
        session(self.exchange, MetadataSource::Cluster)
    }

    fn route_name(&self) -> ViewResult<'_> {
        attribute(self.exchange, AttributeId::RouteName)
    }

    fn virtual_host(&self) -> ViewResult<'_> {
        attribute(self.exchange, AttributeId::VirtualHostName)
    }

    fn cluster_name(&self) -> ViewResult<'_> {
        Ok(self.exchange.cluster_name()?.map(Cow::Borrowed))
    }

    fn client_address(&self) -> ViewResult<'_> {
        attribute(self.exchange, AttributeId::SourceAddress)
    }

    fn header(&self, name: &str) -> ViewResult<'_> {
        Ok(view::joined(name, self.exchange.fields(HeaderType::Request, name)?))
    }

    fn reroute(&mut self, destination: DestinationId) -> ViewResult<'_> {
        let destination = destination.to_string();
        self.exchange
            .set_header(HeaderType::Request, DESTINATION_HEADER, destination.as_bytes())?;
        self.exchange.clear_route_cache()?;
        Ok(Some(self.cluster_name()?.unwrap_or_default()))
    }

    fn choose_again(&mut self, destination: DestinationId) -> ViewResult<'_> {
        let destination = destination.to_string();
        self.exchange
            .set_metadata(METADATA_NAMESPACE, DESTINATION_KEY, &destination)?;
        self.exchange.choose_again()?;
        Ok(Some(self.cluster_name()?.unwrap_or_default()))
    }

    fn room(&self) -> Vec<u8> {
        ROOM.try_with(Cell::take).unwrap_or_default()
    }

    fn unanswered(&self) -> Option<&'static UnansweredRequests> {
        Some(&UNANSWERED)
    }

    fn restart_host(&self, backend: &Backend, now: Timestamp) -> Option<SocketAddr> {
        CENSUS.consume_budget(backend, now)
    }
}

impl ResponseView for ModuleResponse<'_, '_> {
    fn maybe_other_host(&self, _strict: bool) -> Result<bool, ViewError> {
        Ok(self.upstream_address()?.as_deref() != self.requested_host)
    }

    fn code_details(&self) -> ViewResult<'_> {
        // Envoy 1.38 has no `response.code_details`, but every version reports its own replies to modules.
        if let Some(details) = self.local_reply {
            return Ok(Some(Cow::Borrowed(details)));
        }
        // A response without an upstream is neither Envoy's nor a backend's but, for example, a cache's.
        let upstream = attribute(self.exchange, AttributeId::UpstreamAddress)?;
        Ok(upstream.map(|_| Cow::Borrowed(VIA_UPSTREAM.as_bytes())))
    }

    fn upstream_address(&self) -> ViewResult<'_> {
        attribute(self.exchange, AttributeId::UpstreamAddress)
    }

    fn cluster_name(&self) -> ViewResult<'_> {
        Ok(self.exchange.cluster_name()?.map(Cow::Borrowed))
    }

    fn cluster_session(&self) -> ViewResult<'_> {
        session(self.exchange, MetadataSource::Cluster)
    }

    fn fields(&self, name: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError> {
        let fields = self.exchange.fields(HeaderType::Response, name)?;
        Ok(fields.map(Cow::Borrowed).collect())
    }

    fn is_https(&self) -> Result<bool, ViewError> {
        let scheme = self.exchange.fields(HeaderType::Request, ":scheme")?.next();
        Ok(scheme.is_some_and(view::is_https))
    }

    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        let mut nonce = [0; 4];
        getrandom::fill(&mut nonce).map_err(|_| failed("random bytes"))?;
        Ok(nonce)
    }
}
