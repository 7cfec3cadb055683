//! Answers to the core's questions, each by one host call.

use std::net::SocketAddr;
use std::time::UNIX_EPOCH;

use limpet_core::time::Timestamp;
use limpet_core::view::{Answer, RequestView, ResponseView, ViewError};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{MapType, Status};

use crate::steering;

/// What routes name their session in, written from their metadata by the `header_mutation` filter in front. A header costs
/// nothing beside the others, a property as much as all headers together.
const SESSION: &str = "x-limpet-session";

/// The request that Envoy is calling about: all its headers, for one host call.
pub(crate) struct Request {
    headers: Vec<(String, Vec<u8>)>,
}

impl Request {
    /// Reads the headers.
    pub(crate) fn read() -> Result<Self, ViewError> {
        let headers = hostcalls::get_map_bytes(MapType::HttpRequestHeaders).map_err(failed("the request headers"))?;
        Ok(Self { headers })
    }
}

/// The response that Envoy is calling about.
pub(crate) struct Response;

/// The time by Envoy's clock.
pub(crate) fn now() -> Result<Timestamp, ViewError> {
    let now = hostcalls::get_current_time().map_err(failed("the time"))?;
    // A clock before 1970 is as good as one at it.
    Ok(Timestamp::from_unix(now.duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// What the core is told where a host call failed.
pub(crate) fn failed(what: &'static str) -> impl Fn(Status) -> ViewError {
    move |status| ViewError {
        what,
        status: status as u32,
    }
}

fn property(what: &'static str, path: &[&str]) -> Answer {
    hostcalls::get_property(path.to_vec()).map_err(failed(what))
}

fn cluster_name() -> Answer {
    property("xds.cluster_name", &["xds", "cluster_name"])
}

impl RequestView for Request {
    fn route_session(&self) -> Answer {
        self.header(SESSION)
    }

    fn route_name(&self) -> Answer {
        property("xds.route_name", &["xds", "route_name"])
    }

    fn virtual_host(&self) -> Answer {
        property("xds.virtual_host_name", &["xds", "virtual_host_name"])
    }

    fn cluster_name(&self) -> Answer {
        cluster_name()
    }

    fn header(&self, name: &str) -> Answer {
        let separator: &[u8] = if name == "cookie" { b"; " } else { b"," };
        let mut fields = self.headers.iter().filter(|(known, _)| known == name);
        let Some((_, first)) = fields.next() else {
            return Ok(None);
        };
        let mut joined = first.clone();
        for (_, field) in fields {
            joined.extend_from_slice(separator);
            joined.extend_from_slice(field);
        }
        Ok(Some(joined))
    }
}

impl ResponseView for Response {
    fn maybe_other_host(&self, strict: bool) -> Result<bool, ViewError> {
        // The native filter adds its header where the host is not the one it was asked for. A backend that sends the header
        // itself only makes the core look closer.
        Ok(self.header(steering::header(strict))?.is_some())
    }

    fn code_details(&self) -> Answer {
        property("response.code_details", &["response", "code_details"])
    }

    fn upstream_address(&self) -> Result<Option<SocketAddr>, ViewError> {
        let address = property("upstream.address", &["upstream", "address"])?;
        Ok(address
            .and_then(|address| String::from_utf8(address).ok())
            .and_then(|address| address.parse().ok()))
    }

    fn cluster_name(&self) -> Answer {
        cluster_name()
    }

    fn status(&self) -> Result<u16, ViewError> {
        let status = self.header(":status")?.unwrap_or_default();
        Ok(std::str::from_utf8(&status)
            .ok()
            .and_then(|status| status.parse().ok())
            .unwrap_or(0))
    }

    fn header(&self, name: &str) -> Answer {
        hostcalls::get_map_value_bytes(MapType::HttpResponseHeaders, name).map_err(failed("a response header"))
    }

    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        let mut nonce = [0; 4];
        getrandom::fill(&mut nonce).map_err(|_| failed("random bytes")(Status::InternalFailure))?;
        Ok(nonce)
    }
}
