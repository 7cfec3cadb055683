//! Carriers: the cookie or header in which a token travels.

pub mod cookie;
pub mod cookie_field;
pub mod cookie_name;
pub mod header;
pub mod prefix;
pub mod set_cookie;

/// Values under one name that are looked at in one request; what else has the name is passed over. This and
/// [`crate::token::MAX_TEXT_LEN`] bound the work that a request can ask for.
pub const MAX_CANDIDATES: usize = 4;

/// What may be tokens: the first [`MAX_CANDIDATES`] of what is pushed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Candidates<'a> {
    list: [&'a [u8]; MAX_CANDIDATES],
    len: usize,
}

impl<'a> Candidates<'a> {
    /// Takes one more, where there is room.
    pub fn push(&mut self, candidate: &'a [u8]) {
        if let Some(slot) = self.list.get_mut(self.len) {
            *slot = candidate;
            self.len += 1;
        }
    }

    /// Those that were taken, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.list.into_iter().take(self.len)
    }
}
