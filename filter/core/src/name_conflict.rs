//! The application's own cookie or header of a session's name, where the name is the filter's (mode `insert`).
//!
//! A client keeps one value under a name. The filter's wins: the application's is removed from responses, as it is from
//! requests. To look at every response would cost every session a question, so a response is looked at if it carries a
//! token. Once an application has set such a name, or a client has brought a value that no filter has made, all are.

use crate::bound_policy::BoundPolicy;
use crate::carrier::set_cookie;
use crate::config::Carrier;
use crate::plan::HeaderEdit;
use crate::view::{ResponseView, ViewError};

/// The edits that remove the application's cookie or header from a response; `None` if it sets none.
pub(crate) fn removal<'a>(
    bound_policy: &'a BoundPolicy,
    response: &impl ResponseView,
) -> Result<Option<Vec<HeaderEdit<'a>>>, ViewError> {
    match (&bound_policy.policy.carrier, &bound_policy.cookie_names) {
        (Carrier::Header { name, .. }, _) => {
            let is_set = !response.fields(name)?.is_empty();
            Ok(is_set.then(|| vec![HeaderEdit::Remove(name)]))
        }
        (Carrier::Cookie { .. }, Some(names)) => cookie_removal(names.current(), response),
        _ => Ok(None),
    }
}

fn cookie_removal<'a>(name: &str, response: &impl ResponseView) -> Result<Option<Vec<HeaderEdit<'a>>>, ViewError> {
    const SET_COOKIE: &str = "set-cookie";
    let fields = response.fields(SET_COOKIE)?;
    let others = || {
        fields
            .iter()
            .filter(|field| set_cookie::value_of(field, name).is_none())
    };
    if others().count() == fields.len() {
        return Ok(None);
    }
    let mut edits = vec![HeaderEdit::Remove(SET_COOKIE)];
    // Empty fields say nothing, and some adapters cannot set them.
    let kept = others().filter(|field| !field.is_empty());
    edits.extend(kept.map(|field| HeaderEdit::Add(SET_COOKIE, field.to_vec())));
    Ok(Some(edits))
}

/// The line for the log.
pub(crate) fn line(bound_policy: &BoundPolicy) -> String {
    let policy = &bound_policy.policy;
    let what = match policy.carrier {
        Carrier::Header { .. } => "header",
        _ => "cookie",
    };
    let name = match &bound_policy.cookie_names {
        Some(names) => names.current(),
        None => policy.carrier.name(),
    };
    format!(
        "policy {}: the application sets a {what} of its own named {name}, which is the session's: it is removed from \
         requests and responses, so rename one of the two",
        policy.name
    )
}
