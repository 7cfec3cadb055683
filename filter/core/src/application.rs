use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use crate::carrier::set_cookie::CookieChange;
use crate::carrier::{prefix, set_cookie};
use crate::config::Carrier;
use crate::plan::HeaderEdit;
use crate::time::Timestamp;
use crate::view::{ResponseView, ViewError};

const SET_COOKIE: &str = "set-cookie";

/// Bytes of name and value. Browsers drop a larger cookie (RFC 6265bis section 5.7).
const MAX_COOKIE_LEN: usize = 4096;

/// The cookies that a response sets, read when first needed.
#[derive(Debug)]
pub(crate) struct SetCookies<'r, R> {
    response: &'r R,
    fields: OnceCell<Vec<Cow<'r, [u8]>>>,
}

impl<'r, R: ResponseView> SetCookies<'r, R> {
    pub(crate) fn new(response: &'r R) -> Self {
        Self {
            response,
            fields: OnceCell::new(),
        }
    }

    pub(crate) fn response(&self) -> &'r R {
        self.response
    }

    pub(crate) fn cookie_change(
        &self,
        name: &str,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<Option<CookieChange>, ViewError> {
        let fields = self.fields()?;
        // The time may cost a host call.
        if !fields.iter().any(|field| set_cookie::value_of(field, name).is_some()) {
            return Ok(None);
        }
        Ok(set_cookie::change_of(fields.iter().map(|field| &**field), name, now()?))
    }

    fn fields(&self) -> Result<&[Cow<'r, [u8]>], ViewError> {
        if let Some(fields) = self.fields.get() {
            return Ok(fields);
        }
        let fields = self.response.fields(SET_COOKIE)?;
        Ok(self.fields.get_or_init(|| fields))
    }
}

#[derive(Debug)]
pub(crate) struct Application<'a, 'r> {
    header: &'a str,
    /// All fields of the header, with or without a session.
    fields: Vec<Field<'r>>,
    rewrite: bool,
    /// Bytes of a value that browsers keep.
    max_len: usize,
}

/// A field, and the range of the value that gets a token.
type Field<'r> = (Cow<'r, [u8]>, Option<Range<usize>>);

impl<'a, 'r> Application<'a, 'r> {
    /// Finds the fields in which the application sets its session; `None` if it sets none. A deletion or an empty value
    /// sets none, and a token would make it one.
    pub(crate) fn find(
        carrier: &'a Carrier,
        response: &'r impl ResponseView,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<Option<Self>, ViewError> {
        let header = match carrier {
            Carrier::HeaderPrefix { name } => name,
            _ => SET_COOKIE,
        };
        let fields = response.fields(header)?;
        if fields.is_empty() {
            return Ok(None);
        }
        let now = now()?;
        let rewrite = matches!(carrier, Carrier::CookieRewrite { .. });
        let value_of = |field: &[u8]| {
            let value = match carrier {
                Carrier::HeaderPrefix { .. } => Some(0..field.len()),
                _ => set_cookie::value_of(field, carrier.name()).filter(|_| !set_cookie::is_deletion(field, now)),
            }?;
            let is_empty = matches!(field.get(value.clone()), None | Some(b"" | b"\"\""));
            (rewrite || !is_empty).then_some(value)
        };
        let fields: Vec<_> = fields
            .into_iter()
            .map(|field| (value_of(&field), field))
            .map(|(value, field)| (field, value))
            .collect();
        let is_set = fields.iter().any(|(_, value)| value.is_some());
        Ok(is_set.then_some(Self {
            header,
            fields,
            rewrite,
            max_len: match carrier {
                Carrier::HeaderPrefix { .. } => usize::MAX,
                _ => MAX_COOKIE_LEN.saturating_sub(carrier.name().len()),
            },
        }))
    }

    /// Puts the token into the fields; `None` if none has room for it.
    pub(crate) fn with(self, token: &str) -> Option<Vec<HeaderEdit<'a>>> {
        let (rewrite, max_len) = (self.rewrite, self.max_len);
        let mut any = false;
        let mut changed = |(field, value): (Cow<'_, [u8]>, Option<Range<usize>>)| {
            let Some(Range { start, end }) = value else {
                return field.into_owned();
            };
            let part = |range| field.get(range).unwrap_or_default();
            let value = if rewrite {
                token.as_bytes().to_vec()
            } else {
                prefix::added(part(start..end), token)
            };
            // A client that keeps a larger one is no browser, and does not lose it.
            if value.len() > max_len && end - start <= max_len {
                return field.into_owned();
            }
            any = true;
            [part(0..start), &value, part(end..field.len())].concat()
        };
        // Empty fields carry nothing, and some adapters cannot set them.
        let fields = self
            .fields
            .into_iter()
            .map(&mut changed)
            .filter(|field| !field.is_empty());
        let edits = fields
            .enumerate()
            .map(|(i, field)| {
                if i == 0 {
                    HeaderEdit::Set(self.header, field)
                } else {
                    HeaderEdit::Add(self.header, field)
                }
            })
            .collect();
        any.then_some(edits)
    }
}
