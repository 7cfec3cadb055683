//! Carriers: the cookie, header or query in which a token travels.

pub mod cookie;
mod cookie_date;
#[cfg(feature = "public-suffixes")]
pub mod cookie_domain;
pub mod cookie_field;
pub mod cookie_name;
pub mod header;
pub mod location;
pub mod prefix;
pub mod query;
pub mod set_cookie;

/// How many values of one name are examined in a request; further ones are ignored. Together with
/// [`crate::token::MAX_TEXT_LEN`] this limits the work that a client can cause.
pub const MAX_CANDIDATES: usize = 4;

/// Values that may be tokens: the first [`MAX_CANDIDATES`] that are pushed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Candidates<'a> {
    list: [&'a [u8]; MAX_CANDIDATES],
    len: usize,
}

impl<'a> Candidates<'a> {
    /// Adds a value if there is room, and drops it otherwise.
    pub fn push(&mut self, candidate: &'a [u8]) {
        if let Some(slot) = self.list.get_mut(self.len) {
            *slot = candidate;
            self.len += 1;
        }
    }

    /// The values, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.list.get(..self.len).unwrap_or_default().iter().copied()
    }
}
