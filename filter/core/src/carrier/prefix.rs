//! `<token>~<value>`: a token in front of a value of the application's own.

use std::ops::Range;

use crate::token;

/// Between the token and the application's value. No token has it, so the first one is ours, however many the value
/// has.
pub const SEPARATOR: u8 = b'~';

/// Where in a value a token and its separator stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(pub Range<usize>);

/// Finds the token in front of a value, behind its opening quote where it has quotes. What does not have the shape of a
/// token is the application's own, even where a `~` follows.
#[must_use]
pub fn find(value: &[u8]) -> Option<Prefix> {
    // The quote at the other end may stand in another element of a list.
    let start = usize::from(value.first() == Some(&b'"'));
    let inner = value.get(start..)?;
    // Looked for no further than a token reaches.
    let len = inner
        .iter()
        .take(token::MAX_TEXT_LEN + 1)
        .position(|byte| *byte == SEPARATOR)?;
    token::is_token(inner.get(..len)?).then_some(Prefix(start..start + len + 1))
}

/// A value with the token in front: behind its opening quote where it has quotes, because no client takes quotes in the
/// middle of a value (RFC 6265 section 4.1.1).
#[must_use]
pub fn added(value: &[u8], token: &str) -> Vec<u8> {
    let (before, after) = value.split_at(place(value));
    [before, token.as_bytes(), &[SEPARATOR], after].concat()
}

/// Where a token stands in front of a value.
fn place(value: &[u8]) -> usize {
    match value {
        [b'"', .., b'"'] => 1,
        _ => 0,
    }
}

impl Prefix {
    /// The token.
    #[must_use]
    pub fn token<'v>(&self, value: &'v [u8]) -> &'v [u8] {
        value.get(self.0.start..self.0.end - 1).unwrap_or_default()
    }

    /// The value as the application issued it.
    #[must_use]
    pub fn removed(&self, value: &[u8]) -> Vec<u8> {
        let before = value.get(..self.0.start).unwrap_or_default();
        let after = value.get(self.0.end..).unwrap_or_default();
        [before, after].concat()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Has the shape of a token; nobody's key made it.
    pub(crate) const TOKEN: &str = "EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn the_applications_value_comes_back_as_it_was() {
        for value in [
            "abc", "", "a~b", "~", "\"abc\"", "\"\"", "\"", "\"a", "a=b", " a", TOKEN,
        ] {
            let value = value.as_bytes();
            let prefixed = added(value, TOKEN);
            let found = find(&prefixed).expect("a prefix");
            assert_eq!(found.token(&prefixed), TOKEN.as_bytes());
            assert_eq!(found.removed(&prefixed), value, "{value:?}");
        }
    }

    #[test]
    fn a_token_stands_in_front_or_behind_the_opening_quote() {
        for (value, prefixed) in [
            ("abc", "T~abc"),
            ("a~b", "T~a~b"),
            ("\"abc\"", "\"T~abc\""),
            ("\"", "T~\""),
            ("\"a", "T~\"a"),
        ] {
            assert_eq!(added(value.as_bytes(), "T"), prefixed.as_bytes());
        }
    }

    #[test]
    fn what_is_no_token_is_the_applications_own() {
        let cut = &TOKEN[1..];
        for value in [
            "",
            "abc",
            "a~b",
            "~a",
            TOKEN,
            cut,
            &format!("{cut}~a"),
            &format!("x{TOKEN}~a"),
            &format!(" {TOKEN}~a"),
        ] {
            assert_eq!(find(value.as_bytes()), None, "{value:?}");
        }
        assert_eq!(find("a".repeat(100_000).as_bytes()), None);
    }
}
