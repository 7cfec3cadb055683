//! Carriers: the cookie or header in which a token travels.

pub mod cookie;
pub mod header;

/// Values of the session's name that are looked at in one request; what else carries the name is passed over. This and
/// [`crate::token::MAX_TEXT_LEN`] bound the work that a request can ask for.
pub const MAX_CANDIDATES: usize = 4;
