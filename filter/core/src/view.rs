//! What the core asks an adapter about a request or response.
//!
//! Every question is a call that may cost the adapter a host call, so the core asks only what it needs, when it needs it.
//! Header fields and properties come as bytes: a client may send any.

use std::net::SocketAddr;

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
pub type Answer = Result<Option<Vec<u8>>, ViewError>;

/// A request, after its route was chosen.
#[expect(clippy::missing_errors_doc, reason = "ViewError says all there is")]
pub trait RequestView {
    /// `filter_metadata.limpet.session` of the route.
    fn route_session(&self) -> Answer;
    /// The route's name.
    fn route_name(&self) -> Answer;
    /// The virtual host's name.
    fn virtual_host(&self) -> Answer;
    /// The name of the cluster that the route leads to.
    fn cluster_name(&self) -> Answer;
    /// A request header by its lower-case name; several Cookie fields joined by `; `, other fields by `,`.
    fn header(&self, name: &str) -> Answer;
}

/// A response to a request that was handled before.
#[expect(clippy::missing_errors_doc, reason = "ViewError says all there is")]
pub trait ResponseView {
    /// Whether a host other than the one asked for may have answered. May say yes too often, never no wrongly.
    fn maybe_other_host(&self, strict: bool) -> Result<bool, ViewError>;
    /// Why the response has its status (Envoy's `response.code_details`).
    fn code_details(&self) -> Answer;
    /// The address of the host that answered; `None` where it has no IP address.
    fn upstream_address(&self) -> Result<Option<SocketAddr>, ViewError>;
    /// The name of the cluster that the request went to.
    fn cluster_name(&self) -> Answer;
    /// The response's status code.
    fn status(&self) -> Result<u16, ViewError>;
    /// A response header by its lower-case name, several fields joined by `,`.
    fn header(&self, name: &str) -> Answer;
    /// Four random bytes.
    fn nonce(&self) -> Result<[u8; 4], ViewError>;
}
