use crate::bound_policy::BoundPolicy;
use crate::carrier::cookie_field::{self, CookieEdit, unquoted};
use crate::carrier::cookie_name::{CookieNames, CookieOwner};
use crate::carrier::{header, prefix};
use crate::config::Carrier;
use crate::newest_token::{NewestToken, TokenOrigin};
use crate::plan::HeaderEdit;
use crate::redirect::TokenList;
use crate::time::Timestamp;
use crate::token;
use crate::view::{RequestView, ViewError};

pub(crate) struct RequestTokens<'a> {
    pub(crate) newest: NewestToken,
    /// The change of the own carrier's header.
    pub(crate) edit: Option<HeaderEdit<'a>>,
    pub(crate) further_edits: Vec<HeaderEdit<'a>>,
}

impl<'a> RequestTokens<'a> {
    pub(crate) fn edited(&self, header: &str) -> Option<&HeaderEdit<'a>> {
        let mut edits = self.edit.iter().chain(&self.further_edits);
        edits.find(|edit| edit.name() == header)
    }

    /// Adds a change, in place of an earlier one of the same header.
    pub(crate) fn change(&mut self, edit: HeaderEdit<'a>) {
        let mut edits = self.edit.iter_mut().chain(&mut self.further_edits);
        match edits.find(|former| former.name() == edit.name()) {
            Some(former) => *former = edit,
            None => self.further_edits.push(edit),
        }
    }
}

impl BoundPolicy {
    /// Reads the request's tokens. Those taken out of headers are added to `taken`.
    pub(crate) fn read(
        &self,
        request: &impl RequestView,
        now: Timestamp,
        taken: &mut TokenList,
    ) -> Result<RequestTokens<'_>, ViewError> {
        let mut tokens = RequestTokens {
            newest: NewestToken::NO_TOKEN,
            edit: None,
            further_edits: Vec::new(),
        };
        self.read_own(&mut tokens, request, now, taken)?;
        for (at, further) in self.policy.also.iter().enumerate() {
            self.read_further((further, self.former(at)), &mut tokens, request, now, taken)?;
        }
        Ok(tokens)
    }

    fn read_own<'a>(
        &'a self,
        tokens: &mut RequestTokens<'a>,
        request: &impl RequestView,
        now: Timestamp,
        taken: &mut TokenList,
    ) -> Result<(), ViewError> {
        let carrier = &self.policy.carrier;
        let header = match carrier {
            Carrier::Query { parameter, .. } => {
                return self.read_further((parameter, None), tokens, request, now, taken);
            }
            Carrier::Cookie { .. } | Carrier::CookiePrefix { .. } | Carrier::CookieRewrite { .. } => "cookie",
            Carrier::Header { name, .. } | Carrier::HeaderPrefix { name } => name,
            Carrier::Source(_) => return Ok(()),
        };
        let Some(field) = request.header(header)? else {
            return Ok(());
        };
        let newest = &mut tokens.newest;
        let mut examine = |token: &[u8]| self.examine(token, TokenOrigin::Own, now, newest);
        let take = |token: &[u8]| {
            examine(token);
            taken.add(token);
        };
        let rest = match (carrier, &self.cookie_names) {
            (Carrier::Cookie { forward, .. }, Some(names)) => {
                let examine = |token: &[u8], found| self.examine(token, found, now, newest);
                read_own_cookie(&field, (names, *forward), || request.room(), examine, taken)
            }
            (Carrier::CookiePrefix { name }, _) => cookie_without_prefixes(&field, name, take),
            // The application may see the token, which only says that the client has its cookie.
            (Carrier::CookieRewrite { name }, _) => cookie_field::edit(&field, |cookie, value| {
                if cookie == name.as_bytes() {
                    examine(unquoted(value));
                }
                CookieEdit::Keep
            }),
            (Carrier::HeaderPrefix { .. }, _) => header::without_prefixes(&field, take),
            (Carrier::Header { forward: true, .. }, _) => {
                header::values(&field).for_each(examine);
                None
            }
            (Carrier::Header { .. } | Carrier::Cookie { .. }, _) => {
                header::values(&field).for_each(take);
                Some(Vec::new())
            }
            (Carrier::Query { .. } | Carrier::Source(_), _) => None,
        };
        tokens.edit = rest.map(|rest| edit(header, rest));
        Ok(())
    }
}

/// Reads the filter's own cookie. `examine` gets each token. Returns the backend's Cookie field, if it changes.
fn read_own_cookie(
    field: &[u8],
    (names, forward): (&CookieNames, bool),
    room: impl FnOnce() -> Vec<u8>,
    mut examine: impl FnMut(&[u8], TokenOrigin),
    taken: &mut TokenList,
) -> Option<Vec<u8>> {
    cookie_field::edit_some(field, names.plain().as_bytes(), room, |name, value| {
        let value = unquoted(value);
        let found = match names.owner_of(name) {
            CookieOwner::Other => return CookieEdit::Keep,
            // The session has another name, so a cookie that is no token is the application's.
            CookieOwner::Former if !token::is_token(value) => return CookieEdit::Keep,
            CookieOwner::OtherScope => None,
            CookieOwner::Current => Some(TokenOrigin::Own),
            CookieOwner::Former => Some(TokenOrigin::UnderFormerName),
        };
        if let Some(found) = found {
            examine(value, found);
            if forward {
                return CookieEdit::Keep;
            }
        }
        taken.add(value);
        CookieEdit::Remove
    })
}

pub(crate) fn edit(name: &str, rest: Vec<u8>) -> HeaderEdit<'_> {
    if rest.is_empty() {
        HeaderEdit::Remove(name)
    } else {
        HeaderEdit::Set(name, rest)
    }
}

/// Removes the tokens in front of values, which `found` gets; `None` without any.
fn cookie_without_prefixes(field: &[u8], name: &str, mut found: impl FnMut(&[u8])) -> Option<Vec<u8>> {
    cookie_field::edit(field, |cookie, value| {
        let prefix = (cookie == name.as_bytes()).then(|| prefix::find(value));
        let Some(prefix) = prefix.flatten() else {
            return CookieEdit::Keep;
        };
        found(prefix.token(value));
        CookieEdit::Cut(prefix.0)
    })
}
