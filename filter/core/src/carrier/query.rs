//! The query of a path: parameters between `&` (the URL Standard, `application/x-www-form-urlencoded`).

use std::borrow::Cow;

use crate::token;

/// The path without the parameters called `name`, whose decoded values `found` gets; `None` without any.
#[must_use]
pub fn without(path: &[u8], name: &str, mut found: impl FnMut(&[u8])) -> Option<Vec<u8>> {
    let (before, query) = split(path);
    let query = query?;
    let is_ours = |parameter: &[u8]| is_called(parameter, name.as_bytes());
    let parameters = || query.split(|byte| *byte == b'&');
    if !parameters().any(is_ours) {
        return None;
    }
    let mut rest = Vec::with_capacity(path.len());
    rest.extend_from_slice(before);
    let mut separator = b'?';
    for parameter in parameters() {
        if is_ours(parameter) {
            found(&value_of(parameter));
        } else {
            rest.push(std::mem::replace(&mut separator, b'&'));
            rest.extend_from_slice(parameter);
        }
    }
    Some(rest)
}

/// The URL with this parameter once. `value` needs no escapes.
#[must_use]
pub fn with(url: &[u8], name: &str, value: &str) -> Vec<u8> {
    let fragment = url.iter().position(|byte| *byte == b'#').unwrap_or(url.len());
    let (url, fragment) = url.split_at_checked(fragment).unwrap_or((url, b""));
    let url = without(url, name, |_| ()).map_or(Cow::Borrowed(url), Cow::Owned);
    let separator: &[u8] = match split(&url) {
        (_, None) => b"?",
        (_, Some([] | [.., b'&'])) => b"",
        _ => b"&",
    };
    [&url, separator, name.as_bytes(), b"=", value.as_bytes(), fragment].concat()
}

fn split(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|byte| *byte == b'?') {
        Some(mark) => (path.get(..mark).unwrap_or_default(), path.get(mark + 1..)),
        None => (path, None),
    }
}

fn is_called(parameter: &[u8], name: &[u8]) -> bool {
    let raw = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
    raw == name || raw.contains(&b'%') && decoded(raw).eq(name.iter().copied())
}

/// The value, decoded only if it is short enough for a token.
fn value_of(parameter: &[u8]) -> Cow<'_, [u8]> {
    let mut halves = parameter.splitn(2, |byte| *byte == b'=');
    let raw = halves.nth(1).unwrap_or_default();
    if raw.contains(&b'%') && raw.len() <= 3 * token::MAX_TEXT_LEN {
        Cow::Owned(decoded(raw).collect())
    } else {
        Cow::Borrowed(raw)
    }
}

/// Decodes percent escapes. A `%` without two digits stays.
fn decoded(mut raw: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let (first, rest) = raw.split_first()?;
        let escaped = match rest {
            [high, low, rest @ ..] if *first == b'%' => digit(*high).zip(digit(*low)).map(|digits| (digits, rest)),
            _ => None,
        };
        let (byte, rest) = match escaped {
            Some(((high, low), rest)) => (high << 4 | low, rest),
            None => (*first, rest),
        };
        raw = rest;
        Some(byte)
    })
}

fn digit(hexadecimal: u8) -> Option<u8> {
    let digit = char::from(hexadecimal).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &str) -> Option<(Vec<String>, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut values = Vec::new();
        let rest = without(path.as_bytes(), "s", |value| values.push(text(value)))?;
        Some((values, text(&rest)))
    }

    #[test]
    fn a_path_without_the_name_is_left_alone() {
        for path in [
            "",
            "/",
            "/s=1",
            "/?",
            "/?&",
            "/?a=s&ss=1",
            "/?S=1",
            "/?a=1;s=2",
            "*",
            "/?%s=1",
            "/?s%3D1",
        ] {
            assert_eq!(take(path), None, "{path:?}");
        }
    }

    #[test]
    fn removing_a_parameter_keeps_every_other_byte() {
        for (path, values, rest) in [
            ("/?s=1", &["1"][..], "/"),
            ("/a/b?s=1&a=%20+2", &["1"], "/a/b?a=%20+2"),
            ("/?a=2&s=1", &["1"], "/?a=2"),
            ("/?a=2&s=1&b", &["1"], "/?a=2&b"),
            ("/?&s=1", &["1"], "/?"),
            ("/?s=1&", &["1"], "/?"),
            ("/?&&s=1&&", &["1"], "/?&&&"),
            ("/?s", &[""], "/"),
            ("/?s=", &[""], "/"),
            ("/?s==1=", &["=1="], "/"),
            ("/?s=1?s=2", &["1?s=2"], "/"),
            ("/?a?s=1&s=2", &["2"], "/?a?s=1"),
            ("/?s=1&s=2&a=%&s=3", &["1", "2", "3"], "/?a=%"),
            ("/?%73=%4a%4B%2", &["JK%2"], "/"),
            ("/?%5A&s=1", &["1"], "/?%5A"),
            ("?s=1", &["1"], ""),
        ] {
            let values = values.iter().map(ToString::to_string).collect();
            assert_eq!(take(path), Some((values, rest.to_owned())), "{path:?}");
        }
    }

    #[test]
    fn a_parameter_goes_to_the_end_of_the_query() {
        for (url, with_token) in [
            ("/", "/?s=T"),
            ("/?", "/?s=T"),
            ("/?a=1", "/?a=1&s=T"),
            ("/?a=1&", "/?a=1&s=T"),
            ("/?s=1&a=2&s=3", "/?a=2&s=T"),
            ("/?s=1", "/?s=T"),
            ("/#?a", "/?s=T#?a"),
            ("/?a#s=1", "/?a&s=T#s=1"),
            ("https://shop.example/x#", "https://shop.example/x?s=T#"),
            ("", "?s=T"),
        ] {
            let got = with(url.as_bytes(), "s", "T");
            assert_eq!(String::from_utf8(got).unwrap(), with_token, "{url:?}");
        }
    }
}
