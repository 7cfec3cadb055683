//! Answers the core's questions, each with one host call.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::time::UNIX_EPOCH;

use limpet_core::UnansweredRequests;
use limpet_core::census::Backend;
use limpet_core::envoy::{
    DESTINATION_HEADER, HOST_HEADER, METADATA_KEY, METADATA_NAMESPACE, SESSION_HEADER, STRICT_HOST_HEADER,
};
use limpet_core::time::Timestamp;
use limpet_core::token::DestinationId;
use limpet_core::view::{self, RequestView, ResponseView, ViewError, ViewResult};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{MapType, Status};

use crate::census;
use crate::headers::Headers;

/// All headers of the current request, read with one host call.
pub(crate) struct WasmRequest {
    headers: Headers,
}

/// Tokens of this VM, which serves one worker.
pub(crate) static UNANSWERED: UnansweredRequests = UnansweredRequests::new();

pub(crate) fn host_header(strict: bool) -> &'static str {
    if strict { STRICT_HOST_HEADER } else { HOST_HEADER }
}

impl WasmRequest {
    pub(crate) fn read() -> Result<Self, ViewError> {
        let headers = Headers::read(MapType::HttpRequestHeaders).map_err(failed("the request headers"))?;
        Ok(Self { headers })
    }

    pub(crate) fn is_https(&self) -> Result<bool, ViewError> {
        Ok(self.header(":scheme")?.is_some_and(|scheme| view::is_https(&scheme)))
    }
}

pub(crate) struct WasmResponse {
    /// Whether the request came over HTTPS: Envoy no longer provides its headers, and to keep them would fill the VM's
    /// memory.
    https: bool,
    /// All headers, read when one of them or several names are asked for: reading all costs as much as reading one.
    headers: OnceCell<Headers>,
    asked: Cell<bool>,
}

impl WasmResponse {
    pub(crate) fn new(https: bool) -> Self {
        Self {
            https,
            headers: OnceCell::new(),
            asked: Cell::new(false),
        }
    }
}

pub(crate) fn now() -> Result<Timestamp, ViewError> {
    let now = hostcalls::get_current_time().map_err(failed("the time"))?;
    // A clock before 1970 is wrong anyway.
    Ok(Timestamp::from_unix(now.duration_since(UNIX_EPOCH).unwrap_or_default()))
}

pub(crate) fn failed(what: &'static str) -> impl Fn(Status) -> ViewError {
    move |status| ViewError {
        what,
        status: status as u32,
    }
}

fn property(what: &'static str, path: &[&str]) -> ViewResult<'static> {
    let answer = hostcalls::get_property(path.to_vec()).map_err(failed(what))?;
    Ok(answer.map(Cow::Owned))
}

fn cluster_name() -> ViewResult<'static> {
    property("xds.cluster_name", &["xds", "cluster_name"])
}

fn cluster_session() -> ViewResult<'static> {
    let path = [
        "xds",
        "cluster_metadata",
        "filter_metadata",
        METADATA_NAMESPACE,
        METADATA_KEY,
    ];
    property("xds.cluster_metadata", &path)
}

impl RequestView for WasmRequest {
    fn route_session(&self) -> ViewResult<'_> {
        // All headers are read anyway. The metadata as a property would cost as much as all headers.
        self.header(SESSION_HEADER)
    }

    fn cluster_session(&self) -> ViewResult<'_> {
        cluster_session()
    }

    fn route_name(&self) -> ViewResult<'_> {
        property("xds.route_name", &["xds", "route_name"])
    }

    fn virtual_host(&self) -> ViewResult<'_> {
        property("xds.virtual_host_name", &["xds", "virtual_host_name"])
    }

    fn cluster_name(&self) -> ViewResult<'_> {
        cluster_name()
    }

    fn client_address(&self) -> ViewResult<'_> {
        property("source.address", &["source", "address"])
    }

    fn header(&self, name: &str) -> ViewResult<'_> {
        Ok(view::joined(name, self.headers.fields(name)))
    }

    fn reroute(&mut self, destination: DestinationId) -> ViewResult<'_> {
        let destination = destination.to_string();
        hostcalls::set_map_value(MapType::HttpRequestHeaders, DESTINATION_HEADER, Some(&destination))
            .map_err(failed("the destination"))?;
        hostcalls::call_foreign_function("clear_route_cache", None).map_err(failed("clear_route_cache"))?;
        // Envoy matches the request when the next filter asks for its route. Until then, properties are the old
        // route's.
        Ok(None)
    }

    fn unanswered(&self) -> Option<&'static UnansweredRequests> {
        Some(&UNANSWERED)
    }

    fn restart_host(&self, backend: &Backend, now: Timestamp) -> Option<SocketAddr> {
        census::restart_host(backend, now)
    }
}

impl ResponseView for WasmResponse {
    fn maybe_other_host(&self, strict: bool) -> Result<bool, ViewError> {
        // The native filter adds its header if another host answered. From a backend, it only makes the core compare
        // addresses.
        Ok(header(host_header(strict))?.is_some())
    }

    fn code_details(&self) -> ViewResult<'_> {
        property("response.code_details", &["response", "code_details"])
    }

    fn upstream_address(&self) -> ViewResult<'_> {
        property("upstream.address", &["upstream", "address"])
    }

    fn cluster_name(&self) -> ViewResult<'_> {
        cluster_name()
    }

    fn cluster_session(&self) -> ViewResult<'_> {
        cluster_session()
    }

    fn fields(&self, name: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError> {
        // To look for one absent header costs less than to read all. If it is there, the host call returns only its
        // first field.
        if !self.asked.replace(true) && header(name)?.is_none() {
            return Ok(Vec::new());
        }
        Ok(self.headers()?.fields(name).map(Cow::Borrowed).collect())
    }

    fn is_https(&self) -> Result<bool, ViewError> {
        Ok(self.https)
    }

    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        let mut nonce = [0; 4];
        getrandom::fill(&mut nonce).map_err(|_| failed("random bytes")(Status::InternalFailure))?;
        Ok(nonce)
    }
}

impl WasmResponse {
    fn headers(&self) -> Result<&Headers, ViewError> {
        if let Some(headers) = self.headers.get() {
            return Ok(headers);
        }
        let read = Headers::read(MapType::HttpResponseHeaders).map_err(failed("the response headers"))?;
        Ok(self.headers.get_or_init(|| read))
    }
}

fn header(name: &str) -> Result<Option<Vec<u8>>, ViewError> {
    hostcalls::get_map_value_bytes(MapType::HttpResponseHeaders, name).map_err(failed("a response header"))
}
