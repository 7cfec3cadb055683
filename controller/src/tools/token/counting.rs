//! Which of several tokens counts.

use std::cmp::Reverse;

use limpet_core::token::TokenAge;

/// The place of the token that counts among this session's: the one of the greatest age, and of several of that age,
/// the first. `honoured` has the session and the age of each token, `None` for one that is not honoured.
pub(crate) fn counting<S: PartialEq>(honoured: &[Option<(S, TokenAge)>], session: &S) -> Option<usize> {
    let tokens = honoured.iter().enumerate().filter_map(|(at, token)| {
        let (of, age) = token.as_ref()?;
        (of == session).then_some((*age, Reverse(at)))
    });
    tokens.max().map(|(_, Reverse(at))| at)
}
