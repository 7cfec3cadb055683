//! The tokens that a request brings, and what the backend sees of them.

use crate::bound_policy::{BoundPolicy, Honoured, NotHonoured};
use crate::carrier::cookie_field::{self, Verdict, unquoted};
use crate::carrier::cookie_name::{CookieNames, Whose};
use crate::carrier::{Candidates, header, prefix};
use crate::config::Carrier;
use crate::plan::HeaderEdit;
use crate::redirect::Tokens;
use crate::time::Timestamp;
use crate::token;
use crate::view::{RequestView, ViewError};

/// What came of the tokens of a request.
pub(crate) struct RequestTokens<'a> {
    /// The first token that is honoured, or why none is.
    pub(crate) verdict: Result<Honoured, NotHonoured>,
    /// The change of the header before the backend sees it.
    pub(crate) edit: Option<HeaderEdit<'a>>,
    /// The changes of other headers.
    pub(crate) further_edits: Vec<HeaderEdit<'a>>,
}

impl<'a> RequestTokens<'a> {
    /// The change of this header.
    pub(crate) fn edited(&self, header: &str) -> Option<&HeaderEdit<'a>> {
        let mut edits = self.edit.iter().chain(&self.further_edits);
        edits.find(|edit| edit.name() == header)
    }

    /// Changes a header, in place of a former change of it.
    pub(crate) fn change(&mut self, edit: HeaderEdit<'a>) {
        let mut edits = self.edit.iter_mut().chain(&mut self.further_edits);
        match edits.find(|former| former.name() == edit.name()) {
            Some(former) => *former = edit,
            None => self.further_edits.push(edit),
        }
    }
}

impl BoundPolicy {
    /// Reads the tokens of the request. Those that the changes take out of headers are added to `taken`.
    pub(crate) fn read(
        &self,
        request: &impl RequestView,
        now: Timestamp,
        taken: &mut Tokens,
    ) -> Result<RequestTokens<'_>, ViewError> {
        let mut tokens = RequestTokens {
            verdict: Err(NotHonoured::NO_TOKEN),
            edit: None,
            further_edits: Vec::new(),
        };
        self.read_own(&mut tokens, request, now, taken)?;
        for further in &self.policy.also {
            self.read_further(further, &mut tokens, request, now, taken)?;
        }
        Ok(tokens)
    }

    /// Reads the policy's own carrier.
    fn read_own<'a>(
        &'a self,
        tokens: &mut RequestTokens<'a>,
        request: &impl RequestView,
        now: Timestamp,
        taken: &mut Tokens,
    ) -> Result<(), ViewError> {
        let carrier = &self.policy.carrier;
        let header = match carrier {
            Carrier::Query { parameter, .. } => {
                return self.read_further(parameter, tokens, request, now, taken);
            }
            Carrier::Cookie { .. } | Carrier::CookiePrefix { .. } | Carrier::CookieRewrite { .. } => "cookie",
            Carrier::Header { name, .. } | Carrier::HeaderPrefix { name } => name,
            Carrier::Source(_) => return Ok(()),
        };
        let Some(field) = request.header(header)? else {
            return Ok(());
        };
        let read = match (carrier, &self.cookie_names) {
            (Carrier::Cookie { forward, .. }, Some(names)) => {
                let room = || request.room();
                self.read_own_cookie(tokens, &field, (names, *forward), now, room, taken);
                return Ok(());
            }
            (Carrier::CookiePrefix { name }, _) => prefixed_cookie(&field, name),
            (Carrier::CookieRewrite { name }, _) => rewritten_cookie(&field, name),
            (Carrier::HeaderPrefix { .. }, _) => prefixed_header(&field),
            (Carrier::Header { forward, .. } | Carrier::Cookie { forward, .. }, _) => {
                (header::candidates(&field), (!forward).then(Vec::new))
            }
            (Carrier::Query { .. } | Carrier::Source(_), _) => return Ok(()),
        };
        let (candidates, rest) = read;
        if rest.is_some() {
            taken.add(candidates.iter());
        }
        tokens.verdict = self.first_alive(candidates.iter(), now);
        tokens.edit = rest.map(|rest| edit(header, rest));
        Ok(())
    }

    fn read_own_cookie(
        &self,
        tokens: &mut RequestTokens<'_>,
        field: &[u8],
        (names, forward): (&CookieNames, bool),
        now: Timestamp,
        room: impl FnOnce() -> Vec<u8>,
        taken: &mut Tokens,
    ) {
        let [mut current, mut former, mut others] = [Candidates::default(); 3];
        let rest = cookie_field::edit_some(field, names.plain().as_bytes(), room, |name, value| {
            match names.whose(name) {
                Whose::Other => return Verdict::Keep,
                Whose::OtherScope => {
                    others.push(unquoted(value));
                    return Verdict::Remove;
                }
                Whose::Current => current.push(unquoted(value)),
                // The session has another name, so a cookie that is no token is the application's.
                Whose::Former if !token::is_token(unquoted(value)) => return Verdict::Keep,
                Whose::Former => former.push(unquoted(value)),
            }
            if forward { Verdict::Keep } else { Verdict::Remove }
        });
        tokens.verdict = self.first_alive(current.iter(), now);
        if let Err(why) = tokens.verdict {
            let honoured = self.first_alive(former.iter(), now).map(|honoured| Honoured {
                renew: true,
                under_former_name: true,
                ..honoured
            });
            tokens.verdict = honoured.map_err(|former| why.or(former));
        }
        if !forward {
            taken.add(current.iter().chain(former.iter()));
        }
        taken.add(others.iter());
        tokens.edit = rest.map(|rest| edit("cookie", rest));
    }
}

/// Replaces a header by what is left of it, and removes it if nothing is left.
pub(crate) fn edit(name: &str, rest: Vec<u8>) -> HeaderEdit<'_> {
    if rest.is_empty() {
        HeaderEdit::Remove(name)
    } else {
        HeaderEdit::Set(name, rest)
    }
}

fn prefixed_cookie<'f>(field: &'f [u8], session_name: &str) -> (Candidates<'f>, Option<Vec<u8>>) {
    let mut candidates = Candidates::default();
    let rest = cookie_field::edit(field, |name, value| {
        let found = (name == session_name.as_bytes()).then(|| prefix::find(value));
        let Some(prefix) = found.flatten() else {
            return Verdict::Keep;
        };
        candidates.push(prefix.token(value));
        Verdict::Cut(prefix.0)
    });
    (candidates, rest)
}

/// The application sees the token: all that it learns is that the client has its cookie.
fn rewritten_cookie<'f>(field: &'f [u8], session_name: &str) -> (Candidates<'f>, Option<Vec<u8>>) {
    let mut candidates = Candidates::default();
    let rest = cookie_field::edit(field, |name, value| {
        if name == session_name.as_bytes() {
            candidates.push(unquoted(value));
        }
        Verdict::Keep
    });
    (candidates, rest)
}

fn prefixed_header(field: &[u8]) -> (Candidates<'_>, Option<Vec<u8>>) {
    match header::without_prefixes(field) {
        Some((candidates, rest)) => (candidates, Some(rest)),
        None => (Candidates::default(), None),
    }
}
