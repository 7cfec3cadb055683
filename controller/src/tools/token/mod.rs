//! `limpet token`: the content of tokens, and tokens for tests.

pub(crate) mod candidates;
pub(crate) mod counting;
pub(crate) mod inspect;
pub(crate) mod issue;
pub(crate) mod token_argument;
pub(crate) mod verification;
