//! The application's own cookie or header of a session's name, where the name is the filter's (mode `insert`).
//!
//! A client keeps one value, so the application's is removed. A look at every response would cost each session a
//! question, so only responses with a token are checked, and all once an application set such a name, or a client
//! brought a value that no filter made.

use crate::bound_policy::BoundPolicy;
use crate::carrier::set_cookie;
use crate::config::Carrier;
use crate::plan::HeaderEdit;
use crate::view::{ResponseView, ViewError};

pub(crate) struct ConflictingField<'a> {
    what: &'static str,
    name: &'a str,
    pub(crate) edits: Vec<HeaderEdit<'a>>,
}

/// Finds the application's own cookie or header of the session's name, and its header of the name that tells tokens.
pub(crate) fn find<'a>(
    bound_policy: &'a BoundPolicy,
    response: &impl ResponseView,
) -> Result<Option<ConflictingField<'a>>, ViewError> {
    let own = match (&bound_policy.policy.carrier, &bound_policy.cookie_names) {
        (Carrier::Header { name, .. }, _) => header_conflict(name, response)?,
        (Carrier::Cookie { .. }, Some(names)) => {
            let name = names.current();
            let edits = cookie_removal(name, response)?;
            edits.map(|edits| ConflictingField {
                what: "cookie",
                name,
                edits,
            })
        }
        _ => None,
    };
    let told = match &bound_policy.policy.tell {
        Some(name) => header_conflict(name, response)?,
        None => None,
    };
    Ok(match (own, told) {
        (Some(mut own), Some(told)) => {
            own.edits.extend(told.edits);
            Some(own)
        }
        (own, told) => own.or(told),
    })
}

fn header_conflict<'a>(name: &'a str, response: &impl ResponseView) -> Result<Option<ConflictingField<'a>>, ViewError> {
    let is_set = !response.fields(name)?.is_empty();
    Ok(is_set.then(|| ConflictingField {
        what: "header",
        name,
        edits: vec![HeaderEdit::Remove(name)],
    }))
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
    // Some adapters cannot set empty fields.
    let kept = others().filter(|field| !field.is_empty());
    edits.extend(kept.map(|field| HeaderEdit::Add(SET_COOKIE, field.to_vec())));
    Ok(Some(edits))
}

impl ConflictingField<'_> {
    pub(crate) fn line(&self, policy: &str) -> String {
        let Self { what, name, .. } = self;
        format!(
            "policy {policy}: the application sets a {what} of its own named {name}, which is the session's: it is \
             removed from requests and responses, so rename one of the two"
        )
    }
}
