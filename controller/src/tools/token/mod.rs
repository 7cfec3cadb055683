//! `limpet token`: the content of tokens, and tokens for tests.

mod candidates;
pub(crate) mod inspect;
pub(crate) mod issue;
mod token_argument;
mod verification;
