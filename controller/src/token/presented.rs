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
    /// Reads a value, `name=value`, `Set-Cookie: name=value; ...` or `name: value`. No token has a `=` or `:` in it.
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
            Some(name) if !in_cookie(name) => Self {
                token: unquoted(value),
                name: Some(name),
                mode: Some(CarrierMode::Header),
            },
            _ => {
                let pair = value.split(';').next().unwrap_or_default().trim();
                match pair.split_once('=') {
                    Some((name, value)) => Self {
                        token: unquoted(value.trim()),
                        name: Some(name.trim()),
                        mode: Some(CarrierMode::Cookie),
                    },
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

fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_its_line() {
        use CarrierMode::{Cookie, Header};
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
        ] {
            assert_eq!(Presented::parse(text), Presented { token: "T", name, mode }, "{text:?}");
        }
    }
}
