//! The core's questions to an adapter, each of which may cost a host call. Fields and properties are bytes, because a
//! client may send any.

use std::borrow::Cow;
use std::net::SocketAddr;

use crate::backend::Backend;
use crate::redirect::UnansweredRequests;
use crate::time::Timestamp;
use crate::token::DestinationId;

/// The proxy did not answer. The request continues unsteered and is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the proxy did not answer for {what}: {status}")]
pub struct ViewError {
    /// What was asked for.
    pub what: &'static str,
    /// The proxy's status code; 0 if it has none.
    pub status: u32,
}

/// An answer; `None` if there is no such thing.
pub type ViewResult<'a> = Result<Option<Cow<'a, [u8]>>, ViewError>;

/// A request with a chosen route.
#[expect(clippy::missing_errors_doc, reason = "each fails if the proxy does not answer")]
pub trait RequestView {
    /// `filter_metadata.limpet.session` of the route.
    fn route_session(&self) -> ViewResult<'_>;
    /// `filter_metadata.limpet.session` of the routed cluster.
    fn cluster_session(&self) -> ViewResult<'_>;
    /// The route's name.
    fn route_name(&self) -> ViewResult<'_>;
    /// The virtual host's name.
    fn virtual_host(&self) -> ViewResult<'_>;
    /// The routed cluster's name.
    fn cluster_name(&self) -> ViewResult<'_>;
    /// The client's `ip:port`, behind the hops that the proxy trusts.
    fn client_address(&self) -> ViewResult<'_>;
    /// A request header by its lower-case name, all fields [`joined`].
    fn header(&self, name: &str) -> ViewResult<'_>;
    /// Sets [`DESTINATION_HEADER`](crate::envoy::DESTINATION_HEADER) and makes the proxy match the request again.
    /// Returns the new route's cluster, empty if there is none; `None` if the proxy matches later.
    fn reroute(&mut self, destination: DestinationId) -> ViewResult<'_>;
    /// Sets [`DESTINATION_KEY`](crate::envoy::DESTINATION_KEY) and makes the cluster specifier choose again. Returns
    /// the routed cluster, empty if there is none or the adapter cannot.
    fn choose_again(&mut self, _destination: DestinationId) -> ViewResult<'_> {
        Ok(Some(Cow::default()))
    }
    /// Empty memory for a changed field, kept to save an allocation.
    fn room(&self) -> Vec<u8> {
        Vec::new()
    }
    /// Tokens of requests without a response, lest internal redirects move sessions.
    fn unanswered(&self) -> Option<&'static UnansweredRequests> {
        None
    }
    /// The host on which one more session of this backend may restart, from the [`Census`](crate::census::Census).
    /// `None` if it stays. Each answer may count as a session that goes there.
    fn restart_host(&self, _backend: &Backend, _now: Timestamp) -> Option<SocketAddr> {
        None
    }
}

/// Whether a scheme is `https`.
#[must_use]
pub fn is_https(scheme: &[u8]) -> bool {
    scheme.eq_ignore_ascii_case(b"https")
}

/// The fields of a request header as one: Cookie fields joined with `; ` (RFC 9113 section 8.2.3), others with `,` (RFC
/// 9110 section 5.3).
#[must_use]
pub fn joined<'a>(name: &str, mut fields: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let separator: &[u8] = if name == "cookie" { b"; " } else { b"," };
    let mut joined = Cow::Borrowed(fields.next()?);
    for field in fields {
        let joined = joined.to_mut();
        joined.extend_from_slice(separator);
        joined.extend_from_slice(field);
    }
    Some(joined)
}

/// The response to a seen request.
#[expect(clippy::missing_errors_doc, reason = "each fails if the proxy does not answer")]
pub trait ResponseView {
    /// Whether another host than the one asked for may have answered. Only `false` is certain.
    fn maybe_other_host(&self, strict: bool) -> Result<bool, ViewError>;
    /// Why the response has its status (Envoy's `response.code_details`).
    fn code_details(&self) -> ViewResult<'_>;
    /// The answering host's `ip:port`; `None` or another text without an IP address.
    fn upstream_address(&self) -> ViewResult<'_>;
    /// The cluster that the request went to.
    fn cluster_name(&self) -> ViewResult<'_>;
    /// `filter_metadata.limpet.session` of that cluster.
    fn cluster_session(&self) -> ViewResult<'_>;
    /// A response header's fields by its lower-case name, in order.
    fn fields(&self, name: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError>;
    /// Whether the request came over HTTPS ([`is_https`]).
    fn is_https(&self) -> Result<bool, ViewError>;
    /// Four random bytes.
    fn nonce(&self) -> Result<[u8; 4], ViewError>;
}
