//! Begins sessions of clients without a token or with a refused one.

use crate::application::SetCookies;
use crate::carrier::set_cookie::Said;
use crate::config::{Begin, Sign};
use crate::time::Timestamp;
use crate::view::{RequestView, ResponseView, ViewError};

impl Begin {
    pub(crate) fn permits(&self, request: &impl RequestView) -> Result<bool, ViewError> {
        if self.methods.is_empty() {
            return Ok(true);
        }
        let method = request.header(":method")?.unwrap_or_default();
        Ok(self.methods.iter().any(|permitted| *permitted.as_bytes() == *method))
    }

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
