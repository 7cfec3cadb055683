//! Further carriers, whose tokens are always taken out of the request.

use std::borrow::Cow;

use crate::bound_policy::{BoundPolicy, FormerCarrier};
use crate::carrier::cookie_field::{self, CookieEdit, unquoted};
use crate::carrier::cookie_name::CookieOwner;
use crate::carrier::{header, query};
use crate::config::{CarrierKind, FurtherCarrier};
use crate::newest_token::{FormerCookieName, TokenOrigin};
use crate::plan::HeaderEdit;
use crate::redirect::TokenList;
use crate::request_tokens::{RequestTokens, edit};
use crate::time::Timestamp;
use crate::token;
use crate::view::{RequestView, ViewError};

const PATH: &str = ":path";

impl FurtherCarrier {
    fn header(&self) -> &str {
        match self.place {
            CarrierKind::Cookie => "cookie",
            CarrierKind::Header => &self.name,
            CarrierKind::Query => PATH,
        }
    }

    /// Whether its tokens are lost by an internal redirect, which gives the request another path.
    fn is_lost_by_redirect(&self) -> bool {
        !self.forward || self.place == CarrierKind::Query
    }

    /// The rest of the header without this carrier, if it is there. `found` gets each value and its place. A value that
    /// is no token in a former carrier is the application's.
    fn without(
        &self,
        field: &[u8],
        former: Option<&FormerCarrier>,
        mut found: impl FnMut(&[u8], Option<TokenOrigin>),
    ) -> Option<Vec<u8>> {
        let is_taken = |value: &[u8]| former.is_none() || token::is_token(value);
        let place = former.map_or(TokenOrigin::Further, |former| {
            TokenOrigin::Former(former.at, FormerCookieName::Plain)
        });
        match self.place {
            CarrierKind::Cookie => cookie_field::edit(field, |name, value| {
                let value = unquoted(value);
                let place = match former.map(|former| (former.at, former.names.owner_of(name))) {
                    None if name == self.name.as_bytes() => Some(place),
                    None | Some((_, CookieOwner::Other)) => return CookieEdit::Keep,
                    Some((_, CookieOwner::Current)) => Some(place),
                    Some((at, CookieOwner::Former)) => Some(TokenOrigin::Former(at, FormerCookieName::OfScope)),
                    Some((_, CookieOwner::OtherScope)) => None,
                };
                if !is_taken(value) {
                    return CookieEdit::Keep;
                }
                found(value, place);
                CookieEdit::Remove
            }),
            CarrierKind::Header => header::values(field).all(is_taken).then(|| {
                header::values(field).for_each(|value| found(value, Some(place)));
                Vec::new()
            }),
            CarrierKind::Query => {
                let mut values = Vec::new();
                let rest = query::without(field, &self.name, |value| values.push(value.to_vec()))?;
                if !values.iter().all(|value| is_taken(value)) {
                    return None;
                }
                for value in &values {
                    found(value, Some(place));
                }
                // No path is empty.
                Some(if rest.is_empty() { b"/".to_vec() } else { rest })
            }
        }
    }
}

impl BoundPolicy {
    pub(crate) fn read_further<'a>(
        &'a self,
        (further, former): (&'a FurtherCarrier, Option<&FormerCarrier>),
        tokens: &mut RequestTokens<'a>,
        request: &impl RequestView,
        now: Timestamp,
        taken: &mut TokenList,
    ) -> Result<(), ViewError> {
        let header = further.header();
        let field = match tokens.edited(header) {
            None => request.header(header)?,
            Some(HeaderEdit::Set(_, left) | HeaderEdit::Add(_, left)) => Some(Cow::Owned(left.clone())),
            Some(HeaderEdit::Remove(_)) => None,
        };
        let is_lost = further.is_lost_by_redirect();
        let rest = field.as_ref().and_then(|field| {
            further.without(field, former, |token, place| {
                if let Some(place) = place {
                    self.examine(token, place, now, &mut tokens.newest);
                }
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
