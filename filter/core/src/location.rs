//! Redirects of the application to its own host, which get the token of a query, because clients keep it nowhere else.

use std::borrow::Cow;

use crate::carrier::{location, query};
use crate::config::{Carrier, Policy};
use crate::plan::HeaderEdit;
use crate::view::{RequestView, ResponseView, ViewError};

const LOCATION: &str = "location";

const REDIRECTS: [&[u8]; 5] = [b"301", b"302", b"303", b"307", b"308"];

#[derive(Debug)]
pub(crate) struct Location<'a, 'r> {
    name: &'a str,
    url: Cow<'r, [u8]>,
}

/// The `:authority`, if redirects to it get the token.
pub(crate) fn authority(policy: &Policy, request: &impl RequestView) -> Result<Option<Box<[u8]>>, ViewError> {
    if !matches!(policy.carrier, Carrier::Query { redirects: true, .. }) {
        return Ok(None);
    }
    let authority = request.header(":authority")?;
    Ok(authority.map(|authority| authority.into_owned().into_boxed_slice()))
}

impl<'a, 'r> Location<'a, 'r> {
    /// Finds a `Location` that gets the token; `None` unless the response is a redirect to the same host.
    pub(crate) fn find(
        policy: &'a Policy,
        authority: Option<&[u8]>,
        response: &'r impl ResponseView,
    ) -> Result<Option<Self>, ViewError> {
        let (Carrier::Query { parameter, .. }, Some(authority)) = (&policy.carrier, authority) else {
            return Ok(None);
        };
        let mut urls = response.fields(LOCATION)?.into_iter();
        let (Some(url), None) = (urls.next(), urls.next()) else {
            return Ok(None);
        };
        let status = response.fields(":status")?;
        let is_redirect = status.first().is_some_and(|status| REDIRECTS.contains(&&**status));
        let leads_back = is_redirect && location::is_same_origin(&url, authority, response.is_https()?);
        let name = &parameter.name;
        Ok(leads_back.then_some(Self { name, url }))
    }

    pub(crate) fn with(&self, token: &str) -> HeaderEdit<'a> {
        HeaderEdit::Set(LOCATION, query::with(&self.url, self.name, token))
    }
}
