//! A token as a person has it: alone, or in the line it was copied with.

use limpet_core::token::CarrierMode;

/// What was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Presented<'a> {
    pub(super) token: &'a str,
    /// The cookie's or header's name, where the text has it.
    pub(super) name: Option<&'a str>,
    /// How it travelled, where the text tells.
    pub(super) mode: Option<CarrierMode>,
}

impl<'a> Presented<'a> {
    /// Reads a value, `name=value`, `Set-Cookie: name=value; ...` or `name: value`. No token has a `=`, `:` or `~` in it. A
    /// cookie without `~` may also be one of mode rewrite.
    pub(super) fn parse(text: &'a str) -> Self {
        let text = text.trim();
        let (field, value) = match text.split_once(':') {
            Some((field, value)) => (Some(field.trim()), value.trim()),
            None => (None, text),
        };
        let in_cookie = |field: &str| {
            ["set-cookie", "cookie"]
                .iter()
                .any(|name| field.eq_ignore_ascii_case(name))
        };
        match field {
            Some(name) if !in_cookie(name) => {
                let (token, mode) = without_value(value, CarrierMode::Header, CarrierMode::HeaderPrefix);
                Self {
                    token,
                    name: Some(name),
                    mode: Some(mode),
                }
            }
            _ => {
                let pair = value.split(';').next().unwrap_or_default().trim();
                match pair.split_once('=') {
                    Some((name, value)) => {
                        let (token, mode) = without_value(value.trim(), CarrierMode::Cookie, CarrierMode::CookiePrefix);
                        Self {
                            token,
                            name: Some(name.trim()),
                            mode: Some(mode),
                        }
                    }
                    None => Self {
                        token: unquoted(pair),
                        name: None,
                        mode: None,
                    },
                }
            }
        }
    }
}

/// The token, and its mode: with an application's value behind it, or alone.
fn without_value(value: &str, alone: CarrierMode, in_front: CarrierMode) -> (&str, CarrierMode) {
    let value = unquoted(value);
    match value.split_once('~') {
        Some((token, _)) => (token, in_front),
        None => (value, alone),
    }
}

fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_its_line() {
        use CarrierMode::{Cookie, CookiePrefix, Header, HeaderPrefix};
        for (text, name, mode) in [
            ("T", None, None),
            (" \"T\" ", None, None),
            ("s=T", Some("s"), Some(Cookie)),
            ("s=\"T\"; Path=/; HttpOnly", Some("s"), Some(Cookie)),
            (
                "set-cookie: s=T; Path=/; Expires=Thu, 01 Jan 1970 00:17:40 GMT",
                Some("s"),
                Some(Cookie),
            ),
            ("Cookie: s=T", Some("s"), Some(Cookie)),
            ("x-session: T", Some("x-session"), Some(Header)),
            ("s=\"T~a~b\"; Path=/", Some("s"), Some(CookiePrefix)),
            ("x-session: T~abc", Some("x-session"), Some(HeaderPrefix)),
        ] {
            assert_eq!(Presented::parse(text), Presented { token: "T", name, mode }, "{text:?}");
        }
    }
}
