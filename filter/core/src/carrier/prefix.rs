//! `<token>~<value>`: a token in front of a value of the application.

use std::ops::Range;

use crate::token;

/// Separates token and value. No token contains it.
pub const SEPARATOR: u8 = b'~';

/// The range of a token and its separator in a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(pub Range<usize>);

/// Finds the token at the start of a value, or behind the opening quote. Anything else is the application's, even if a
/// `~` follows.
#[must_use]
pub fn find(value: &[u8]) -> Option<Prefix> {
    // The closing quote may be in another element of a list.
    let start = usize::from(value.first() == Some(&b'"'));
    let inner = value.get(start..)?;
    let len = inner
        .iter()
        .take(token::MAX_TEXT_LEN + 1)
        .position(|byte| *byte == SEPARATOR)?;
    token::is_token(inner.get(..len)?).then_some(Prefix(start..start + len + 1))
}

/// The value with the token in front, or behind the opening quote: none may be inside a value (RFC 6265 section 4.1.1).
#[must_use]
pub fn added(value: &[u8], token: &str) -> Vec<u8> {
    let (before, after) = value.split_at(place(value));
    [before, token.as_bytes(), &[SEPARATOR], after].concat()
}

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

    /// The application's value.
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

    /// The form of a token, made by no key.
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
    fn a_token_goes_in_front_or_behind_the_opening_quote() {
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
    fn what_is_not_a_token_belongs_to_the_application() {
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
