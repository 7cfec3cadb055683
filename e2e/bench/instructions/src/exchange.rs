//! A request with a session, and its response.

use std::borrow::Cow;

use limpet_core::token::DestinationId;
use limpet_core::view::{RequestView, ResponseView, ViewError, ViewResult};

pub(crate) struct Exchange {
    pub(crate) cookie: Option<Vec<u8>>,
    /// Whether another host answers than the requested one.
    pub(crate) other_host: bool,
}

impl RequestView for Exchange {
    fn route_session(&self) -> ViewResult<'_> {
        Ok(Some(Cow::Borrowed(b"shop/HTTPRoute/shop/web/all")))
    }
    fn cluster_session(&self) -> ViewResult<'_> {
        Ok(None)
    }
    fn route_name(&self) -> ViewResult<'_> {
        Ok(None)
    }
    fn virtual_host(&self) -> ViewResult<'_> {
        Ok(None)
    }
    fn cluster_name(&self) -> ViewResult<'_> {
        Ok(Some(Cow::Borrowed(b"backends")))
    }
    fn client_address(&self) -> ViewResult<'_> {
        Ok(None)
    }
    fn header(&self, name: &str) -> ViewResult<'_> {
        let cookie = self.cookie.as_deref().filter(|_| name == "cookie");
        Ok(cookie.map(Cow::Borrowed))
    }
    fn reroute(&mut self, _: DestinationId) -> ViewResult<'_> {
        Ok(None)
    }
}

impl ResponseView for Exchange {
    fn maybe_other_host(&self, _: bool) -> Result<bool, ViewError> {
        Ok(self.other_host)
    }
    fn code_details(&self) -> ViewResult<'_> {
        Ok(Some(Cow::Borrowed(b"via_upstream")))
    }
    fn upstream_address(&self) -> ViewResult<'_> {
        Ok(Some(Cow::Borrowed(b"10.0.0.7:8080")))
    }
    fn cluster_name(&self) -> ViewResult<'_> {
        Ok(Some(Cow::Borrowed(b"backends")))
    }
    fn cluster_session(&self) -> ViewResult<'_> {
        Ok(None)
    }
    fn fields(&self, _: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError> {
        Ok(Vec::new())
    }
    fn is_https(&self) -> Result<bool, ViewError> {
        Ok(true)
    }
    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        Ok([1, 2, 3, 4])
    }
}
