//! What the core asks an adapter about a request or response.
//!
//! Every question is a call that may cost the adapter a host call, so the core asks only what it needs, when it needs it.
//! Header fields and properties come as bytes: a client may send any. Answers are borrowed where the adapter has them.

use std::borrow::Cow;

use crate::token::Destination;

/// A host did not answer a question. The request goes on unsteered, and it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the proxy did not answer for {what}: {status}")]
pub struct ViewError {
    /// What was asked for.
    pub what: &'static str,
    /// The proxy's status code.
    pub status: u32,
}

/// An answer; `None` where the proxy knows of no such thing.
pub type Answer<'a> = Result<Option<Cow<'a, [u8]>>, ViewError>;

/// A request, after its route was chosen.
#[expect(clippy::missing_errors_doc, reason = "ViewError says all there is")]
pub trait RequestView {
    /// `filter_metadata.limpet.session` of the route.
    fn route_session(&self) -> Answer<'_>;
    /// The same of the cluster that the route leads to.
    fn cluster_session(&self) -> Answer<'_>;
    /// The route's name.
    fn route_name(&self) -> Answer<'_>;
    /// The virtual host's name.
    fn virtual_host(&self) -> Answer<'_>;
    /// The name of the cluster that the route leads to.
    fn cluster_name(&self) -> Answer<'_>;
    /// A request header by its lower-case name, all its fields [`joined`].
    fn header(&self, name: &str) -> Answer<'_>;
    /// Sets [`DESTINATION_HEADER`](crate::names::DESTINATION_HEADER) to the destination, and has the request matched with the routes again: the name of the
    /// cluster that it is led to now, empty where there is none; `None` where the proxy will match it only later.
    fn reroute(&mut self, destination: Destination) -> Answer<'_>;
}

/// The fields of the request header called `name` as one: Cookie fields with `; ` between them (RFC 9113 section 8.2.3), others with `,`
/// (RFC 9110 section 5.3). `None` where there are none.
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

/// A response to a request that was handled before.
#[expect(clippy::missing_errors_doc, reason = "ViewError says all there is")]
pub trait ResponseView {
    /// Whether a host other than the one asked for may have answered. May say yes too often, never no wrongly.
    fn maybe_other_host(&self, strict: bool) -> Result<bool, ViewError>;
    /// Why the response has its status (Envoy's `response.code_details`).
    fn code_details(&self) -> Answer<'_>;
    /// The address of the host that answered, as `ip:port`; `None` or something else where it has no IP address.
    fn upstream_address(&self) -> Answer<'_>;
    /// The name of the cluster that the request went to.
    fn cluster_name(&self) -> Answer<'_>;
    /// The response header's fields by its lower-case name, in order.
    fn fields(&self, name: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError>;
    /// A header of the request that this answers, by its lower-case name; where there are several fields, one of them.
    fn request_header(&self, name: &str) -> Answer<'_>;
    /// Four random bytes.
    fn nonce(&self) -> Result<[u8; 4], ViewError>;
}
