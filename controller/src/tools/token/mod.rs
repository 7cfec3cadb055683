//! `limpet token`: the content of tokens, and tokens for tests.

mod candidates;
pub(crate) mod inspect;
pub(crate) mod issue;
mod token_argument;
mod verification;

pub(crate) use candidates::{CandidateSession, keyring, without_scope};
pub(crate) use token_argument::TokenArgument;
pub(crate) use verification::{Request, judge};
