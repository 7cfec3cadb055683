//! The further carriers of a policy: tokens that a request presents elsewhere than in the policy's own carrier.
//!
//! They are always taken out of the request, as the own carrier's are.

use std::borrow::Cow;

use crate::bound_policy::BoundPolicy;
use crate::carrier::cookie_field::{self, Verdict, unquoted};
use crate::carrier::{header, query};
use crate::config::{Further, Place};
use crate::newest::Found;
use crate::plan::HeaderEdit;
use crate::redirect::Tokens;
use crate::request_tokens::{RequestTokens, edit};
use crate::time::Timestamp;
use crate::view::{RequestView, ViewError};

/// The request header that has the path and the query.
const PATH: &str = ":path";

impl Further {
    /// The request header that it is in.
    fn header(&self) -> &str {
        match self.place {
            Place::Cookie => "cookie",
            Place::Header => &self.name,
            Place::Query => PATH,
        }
    }

    /// Whether what was taken is lost when Envoy begins the request again. The new request has another path.
    fn is_lost_by_redirect(&self) -> bool {
        !self.forward || self.place == Place::Query
    }

    /// What is left of the header without this carrier; `None` if it is not there. Each of its values is given to
    /// `found`.
    fn without(&self, field: &[u8], mut found: impl FnMut(&[u8])) -> Option<Vec<u8>> {
        match self.place {
            Place::Cookie => cookie_field::edit(field, |name, value| {
                if name != self.name.as_bytes() {
                    return Verdict::Keep;
                }
                found(unquoted(value));
                Verdict::Remove
            }),
            Place::Header => {
                header::values(field).for_each(found);
                Some(Vec::new())
            }
            // No path is empty.
            Place::Query => {
                query::without(field, &self.name, found).map(|rest| if rest.is_empty() { b"/".to_vec() } else { rest })
            }
        }
    }
}

impl BoundPolicy {
    /// Reads a carrier, after others whose tokens are `tokens`.
    pub(crate) fn read_further<'a>(
        &'a self,
        further: &'a Further,
        tokens: &mut RequestTokens<'a>,
        request: &impl RequestView,
        now: Timestamp,
        taken: &mut Tokens,
    ) -> Result<(), ViewError> {
        let header = further.header();
        let field = match tokens.edited(header) {
            None => request.header(header)?,
            Some(HeaderEdit::Set(_, left) | HeaderEdit::Add(_, left)) => Some(Cow::Owned(left.clone())),
            Some(HeaderEdit::Remove(_)) => None,
        };
        let is_lost = further.is_lost_by_redirect();
        let rest = field.as_ref().and_then(|field| {
            further.without(field, |token| {
                self.examine(token, Found::Further, now, &mut tokens.newest);
                if is_lost {
                    taken.add(token);
                }
            })
        });
        if let Some(rest) = rest.filter(|_| !further.forward) {
            tokens.change(edit(header, rest));
        }
        Ok(())
    }
}
