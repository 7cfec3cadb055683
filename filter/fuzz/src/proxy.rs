//! A request with one header, and a response of a backend.

use std::borrow::Cow;

use limpet_core::token::Destination;
use limpet_core::view::{Answer, RequestView, ResponseView, ViewError};

pub(crate) const HOST: &str = "10.0.0.1:8080";
pub(crate) const CLUSTER: &str = "backends";

/// A request with at most one header: its lower-case name and its value.
pub(crate) struct Request<'a>(pub(crate) Option<(&'a str, &'a [u8])>);

impl RequestView for Request<'_> {
    fn route_session(&self) -> Answer<'_> {
        Ok(None)
    }

    fn cluster_session(&self) -> Answer<'_> {
        Ok(None)
    }

    fn client_address(&self) -> Answer<'_> {
        Ok(None)
    }

    fn route_name(&self) -> Answer<'_> {
        Ok(None)
    }

    fn virtual_host(&self) -> Answer<'_> {
        Ok(None)
    }

    fn cluster_name(&self) -> Answer<'_> {
        Ok(Some(Cow::Borrowed(CLUSTER.as_bytes())))
    }

    fn header(&self, name: &str) -> Answer<'_> {
        let header = self.0.filter(|(known, _)| *known == name);
        Ok(header.map(|(_, value)| Cow::Borrowed(value)))
    }

    fn reroute(&mut self, _: Destination) -> Answer<'_> {
        Ok(None)
    }
}

/// A request of the client at this address.
pub(crate) struct OfClient<'a>(pub(crate) &'a [u8]);

impl RequestView for OfClient<'_> {
    fn route_session(&self) -> Answer<'_> {
        Ok(None)
    }

    fn cluster_session(&self) -> Answer<'_> {
        Ok(None)
    }

    fn client_address(&self) -> Answer<'_> {
        Ok(Some(Cow::Borrowed(self.0)))
    }

    fn route_name(&self) -> Answer<'_> {
        Ok(None)
    }

    fn virtual_host(&self) -> Answer<'_> {
        Ok(None)
    }

    fn cluster_name(&self) -> Answer<'_> {
        Ok(Some(Cow::Borrowed(CLUSTER.as_bytes())))
    }

    fn header(&self, _: &str) -> Answer<'_> {
        Ok(None)
    }

    fn reroute(&mut self, _: Destination) -> Answer<'_> {
        Ok(None)
    }
}

/// A response with one header: its lower-case name and its fields.
pub(crate) struct Response<'a>(pub(crate) &'a str, pub(crate) &'a [&'a [u8]]);

impl ResponseView for Response<'_> {
    fn maybe_other_host(&self, _: bool) -> Result<bool, ViewError> {
        Ok(false)
    }

    fn code_details(&self) -> Answer<'_> {
        Ok(Some(Cow::Borrowed(b"via_upstream")))
    }

    fn upstream_address(&self) -> Answer<'_> {
        Ok(Some(Cow::Borrowed(HOST.as_bytes())))
    }

    fn cluster_name(&self) -> Answer<'_> {
        Ok(Some(Cow::Borrowed(CLUSTER.as_bytes())))
    }

    fn cluster_session(&self) -> Answer<'_> {
        Ok(None)
    }

    fn fields(&self, name: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError> {
        let fields = if name == self.0 { self.1 } else { &[] };
        Ok(fields.iter().map(|field| Cow::Borrowed(*field)).collect())
    }

    fn is_https(&self) -> Result<bool, ViewError> {
        Ok(false)
    }

    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        Ok([7; 4])
    }
}
