//! When a session begins, where the application decides it.
//!
//! This is about the first token of a client: one that comes without a token, or with one that is refused. A session
//! that lives goes on in any case.

use crate::application::SetCookies;
use crate::carrier::set_cookie::Said;
use crate::config::{Begin, Sign};
use crate::time::Timestamp;
use crate::view::{RequestView, ResponseView, ViewError};

impl Begin {
    /// Whether the response to this request may begin a session.
    pub(crate) fn permits(&self, request: &impl RequestView) -> Result<bool, ViewError> {
        if self.methods.is_empty() {
            return Ok(true);
        }
        let method = request.header(":method")?.unwrap_or_default();
        Ok(self.methods.iter().any(|permitted| *permitted.as_bytes() == *method))
    }

    /// Whether this response begins a session.
    pub(crate) fn is_set<R: ResponseView>(
        &self,
        cookies: &SetCookies<'_, R>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<bool, ViewError> {
        match &self.sign {
            None => Ok(true),
            Some(Sign::Cookie(name)) => Ok(cookies.say(name, now)? == Some(Said::Set)),
            // An empty value is no session, as with a cookie.
            Some(Sign::Header(name)) => Ok(cookies.response().fields(name)?.iter().any(|field| !field.is_empty())),
        }
    }
}
