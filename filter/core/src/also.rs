//! The further carriers of a policy: tokens that a request presents elsewhere than in the policy's own carrier.
//!
//! They are always taken out of the request, as the own carrier's are. They are verified only if no token in front of
//! them counts.

use std::borrow::Cow;

use crate::bound_policy::BoundPolicy;
use crate::carrier::cookie_field::{self, Verdict, unquoted};
use crate::carrier::{Candidates, header, query};
use crate::config::{Further, Place};
use crate::plan::HeaderEdit;
use crate::redirect::Tokens;
use crate::request_tokens::{RequestTokens, edit};
use crate::time::Timestamp;
use crate::view::{RequestView, ViewError};

/// The request header that has the path and the query.
const PATH: &str = ":path";

/// What a further carrier has in a request.
struct Found<'f> {
    candidates: Vec<Cow<'f, [u8]>>,
    /// The header without them.
    rest: Vec<u8>,
}

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

    fn find<'f>(&self, field: &'f [u8]) -> Option<Found<'f>> {
        let found = |candidates: Candidates<'f>, rest| Found {
            candidates: candidates.iter().map(Cow::Borrowed).collect(),
            rest,
        };
        match self.place {
            Place::Cookie => {
                let mut candidates = Candidates::default();
                let rest = cookie_field::edit(field, |name, value| {
                    if name != self.name.as_bytes() {
                        return Verdict::Keep;
                    }
                    candidates.push(unquoted(value));
                    Verdict::Remove
                });
                rest.map(|rest| found(candidates, rest))
            }
            Place::Header => Some(found(header::candidates(field), Vec::new())),
            Place::Query => query::parameters(field, &self.name).map(|parameters| Found {
                candidates: parameters.values,
                // No path is empty.
                rest: if parameters.rest.is_empty() {
                    b"/".to_vec()
                } else {
                    parameters.rest
                },
            }),
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
        let Some(found) = field.as_ref().and_then(|field| further.find(field)) else {
            return Ok(());
        };
        let candidates = || found.candidates.iter().map(|candidate| &**candidate);
        tokens.verdict = tokens
            .verdict
            .or_else(|why| self.first_alive(candidates(), now).map_err(|this| why.or(this)));
        if further.is_lost_by_redirect() {
            taken.add(candidates());
        }
        if !further.forward {
            tokens.change(edit(header, found.rest));
        }
        Ok(())
    }
}
