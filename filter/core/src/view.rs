//! What the core asks an adapter about a request or response.
//!
//! Each question may cost the adapter a host call, so the core asks only what it needs, when it needs it. Header fields
//! and properties are bytes, because a client may send any. Answers borrow from the adapter if it holds the bytes.

use std::borrow::Cow;
use std::net::SocketAddr;

use crate::backend::Backend;
use crate::redirect::Unanswered;
use crate::time::Timestamp;
use crate::token::Destination;

/// The proxy did not answer a question. The request continues unsteered and is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the proxy did not answer for {what}: {status}")]
pub struct ViewError {
    /// What the core asked for.
    pub what: &'static str,
    /// The status code of the proxy; 0 if it has none.
    pub status: u32,
}

/// An answer; `None` if the proxy knows no such thing.
pub type Answer<'a> = Result<Option<Cow<'a, [u8]>>, ViewError>;

/// A request with a chosen route.
#[expect(clippy::missing_errors_doc, reason = "each fails if the proxy does not answer")]
pub trait RequestView {
    /// `filter_metadata.limpet.session` of the route.
    fn route_session(&self) -> Answer<'_>;
    /// `filter_metadata.limpet.session` of the cluster that the route leads to.
    fn cluster_session(&self) -> Answer<'_>;
    /// The name of the route.
    fn route_name(&self) -> Answer<'_>;
    /// The name of the virtual host.
    fn virtual_host(&self) -> Answer<'_>;
    /// The name of the cluster that the route leads to.
    fn cluster_name(&self) -> Answer<'_>;
    /// The client's address as `ip:port`: what the proxy takes for it behind the hops that it trusts.
    fn client_address(&self) -> Answer<'_>;
    /// A request header by its lower-case name, with all fields [`joined`].
    fn header(&self, name: &str) -> Answer<'_>;
    /// Sets [`DESTINATION_HEADER`](crate::envoy::DESTINATION_HEADER) to the destination and makes the proxy match the
    /// request again. Returns the name of the cluster that the new route leads to, empty if there is none; `None` if
    /// the proxy matches the request only later.
    fn reroute(&mut self, destination: Destination) -> Answer<'_>;
    /// Sets [`DESTINATION_KEY`](crate::envoy::DESTINATION_KEY) to the destination and makes the cluster specifier of
    /// the route choose again. Returns the name of the cluster that the route leads to now, empty if there is none or
    /// the adapter cannot do this.
    fn choose_again(&mut self, _destination: Destination) -> Answer<'_> {
        Ok(Some(Cow::default()))
    }
    /// Memory for what is left of a header field, empty. An adapter may return what it got back from a change of a
    /// header before, so that nothing is allocated.
    fn room(&self) -> Vec<u8> {
        Vec::new()
    }
    /// The tokens of requests that ended without a response. Without them, an internal redirect moves sessions.
    fn unanswered(&self) -> Option<&'static Unanswered> {
        None
    }
    /// The host on which one more session of this backend may restart, as the adapter's
    /// [`Census`](crate::census::Census) says it; `None` if it stays. Asked only of sessions that were unused for long,
    /// so each host that is returned may be taken for a session that goes there.
    fn may_leave(&self, _backend: &Backend, _now: Timestamp) -> Option<SocketAddr> {
        None
    }
}

/// Whether the scheme of a request is `https`.
#[must_use]
pub fn is_https(scheme: &[u8]) -> bool {
    scheme.eq_ignore_ascii_case(b"https")
}

/// The fields of the request header `name` as one field: Cookie fields with `; ` between them (RFC 9113 section 8.2.3),
/// others with `,` (RFC 9110 section 5.3). `None` if there are no fields.
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

/// The response to a request that the core has seen.
#[expect(clippy::missing_errors_doc, reason = "each fails if the proxy does not answer")]
pub trait ResponseView {
    /// Whether a host other than the one that was asked for may have answered. `true` may be wrong; `false` must be
    /// right.
    fn maybe_other_host(&self, strict: bool) -> Result<bool, ViewError>;
    /// Why the response has its status (Envoy's `response.code_details`).
    fn code_details(&self) -> Answer<'_>;
    /// The address of the host that answered, as `ip:port`; `None` or any other text if it has no IP address.
    fn upstream_address(&self) -> Answer<'_>;
    /// The name of the cluster that the request went to.
    fn cluster_name(&self) -> Answer<'_>;
    /// `filter_metadata.limpet.session` of that cluster.
    fn cluster_session(&self) -> Answer<'_>;
    /// The response header's fields by its lower-case name, in order.
    fn fields(&self, name: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError>;
    /// Whether the request came over HTTPS, by its scheme ([`is_https`]).
    fn is_https(&self) -> Result<bool, ViewError>;
    /// Four random bytes.
    fn nonce(&self) -> Result<[u8; 4], ViewError>;
}
