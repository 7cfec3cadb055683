use crate::application::SetCookies;
use crate::bound_policy::BoundPolicy;
use crate::cache_control;
use crate::carrier::cookie::Secure;
use crate::carrier::set_cookie::CookieChange;
use crate::config::{ApplicationSign, Carrier, EndRule};
use crate::plan::HeaderEdit;
use crate::time::Timestamp;
use crate::view::{ResponseView, ViewError};

/// What of the site a browser forgets (W3C Clear Site Data, section 3.1).
const CLEAR_SITE_DATA: &str = "clear-site-data";

impl EndRule {
    pub(crate) fn matches<R: ResponseView>(
        &self,
        cookies: &SetCookies<'_, R>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<bool, ViewError> {
        let response = cookies.response();
        match &self.0 {
            ApplicationSign::Cookie(name) => Ok(cookies.cookie_change(name, now)? == Some(CookieChange::Deleted)),
            ApplicationSign::Header(name) if name == CLEAR_SITE_DATA => {
                Ok(response.fields(name)?.iter().any(|field| clears_cookies(field)))
            }
            ApplicationSign::Header(name) => Ok(response.fields(name)?.iter().any(|field| !field.is_empty())),
        }
    }
}

fn clears_cookies(field: &[u8]) -> bool {
    let mut words = field.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    words.any(|word| word == br#""cookies""# || word == br#""*""#)
}

/// The edits that delete a session's cookie, also if a request from another site did not bring it. `former`: the
/// client's former name of it.
pub(crate) fn edits(
    bound_policy: &BoundPolicy,
    former: Option<&str>,
    response: &impl ResponseView,
) -> Result<Vec<HeaderEdit<'static>>, ViewError> {
    let policy = &bound_policy.policy;
    let (Carrier::Cookie { cookie, .. }, Some(names)) = (&policy.carrier, &bound_policy.cookie_names) else {
        return Ok(Vec::new());
    };
    let https = cookie.secure == Secure::Auto && response.is_https()?;
    let names = [names.current()].into_iter().chain(former);
    let mut edits: Vec<_> = names
        .map(|name| HeaderEdit::Add("set-cookie", cookie.deletion(name, https).into_bytes()))
        .collect();
    if !policy.keep_cache_control {
        // A cache would end others' sessions.
        edits.extend(cache_control::edits(response, false)?);
    }
    Ok(edits)
}
