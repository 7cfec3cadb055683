//! `limpet token`: what a token says, and tokens for tests.

pub(crate) mod inspect;
pub(crate) mod issue;
mod known;
mod presented;
mod verdict;
