//! Begins sessions of clients without a token or with a refused one.

use crate::application::SetCookies;
use crate::carrier::set_cookie::CookieChange;
use crate::config::{ApplicationSign, BeginRule};
use crate::time::Timestamp;
use crate::view::{RequestView, ResponseView, ViewError};

impl BeginRule {
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
            Some(ApplicationSign::Cookie(name)) => Ok(cookies.cookie_change(name, now)? == Some(CookieChange::Set)),
            // An empty value is no session, as with a cookie.
            Some(ApplicationSign::Header(name)) => {
                Ok(cookies.response().fields(name)?.iter().any(|field| !field.is_empty()))
            }
        }
    }
}
