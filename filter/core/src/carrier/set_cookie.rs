//! The Set-Cookie fields of the application.

use std::ops::Range;

use super::cookie_date;
use crate::time::Timestamp;

/// The range of the value, if the Set-Cookie field is of the cookie `name` (RFC 6265 section 5.2).
#[must_use]
pub fn value_of(field: &[u8], name: &str) -> Option<Range<usize>> {
    let pair = field.split(|byte| *byte == b';').next()?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    if pair.get(..equals)?.trim_ascii() != name.as_bytes() {
        return None;
    }
    let value = pair.get(equals + 1..)?;
    let start = pair.len() - value.trim_ascii_start().len();
    Some(start..start + value.trim_ascii().len())
}

/// Whether a Set-Cookie field deletes its cookie, by Max-Age, which takes precedence, or by Expires (RFC 6265 sections
/// 5.2 and 5.3). The last readable attribute counts.
#[must_use]
pub fn is_deletion(field: &[u8], now: Timestamp) -> bool {
    let (mut max_age, mut expires) = (None, None);
    for attribute in field.split(|byte| *byte == b';').skip(1) {
        let mut halves = attribute.splitn(2, |byte| *byte == b'=');
        let name = halves.next().unwrap_or_default().trim_ascii();
        let value = halves.next().unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"max-age") {
            max_age = is_no_age(value).or(max_age);
        } else if name.eq_ignore_ascii_case(b"expires") {
            expires = cookie_date::seconds(value).or(expires);
        }
    }
    let now = i64::try_from(now.unix_seconds()).unwrap_or(i64::MAX);
    max_age.unwrap_or_else(|| expires.is_some_and(|end| end <= now))
}

/// Whether a Max-Age is 0 or less; `None` if it is no number.
fn is_no_age(value: &[u8]) -> Option<bool> {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.len() < value.len() || digits.iter().all(|digit| *digit == b'0'))
}

/// What a response does to a cookie of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieChange {
    /// It gets a value.
    Set,
    /// It is deleted or emptied: applications without dates log out so.
    Deleted,
}

/// What the Set-Cookie fields do to the cookie `name`. One that sets it outweighs deletions, because applications also
/// delete the cookie of another path, or the former one.
pub fn change_of<'f>(fields: impl IntoIterator<Item = &'f [u8]>, name: &str, now: Timestamp) -> Option<CookieChange> {
    let of_field = |field: &[u8]| {
        let value = field.get(value_of(field, name)?)?;
        let is_empty = matches!(value, b"" | b"\"\"");
        Some(if is_empty || is_deletion(field, now) {
            CookieChange::Deleted
        } else {
            CookieChange::Set
        })
    };
    let all = fields.into_iter().filter_map(of_field);
    all.reduce(|one, other| if one == CookieChange::Set { one } else { other })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_763_718_000;

    #[test]
    fn the_value_is_found_by_the_cookies_name() {
        for (field, value) in [
            ("S=abc; Path=/", Some("abc")),
            (" S = abc ; Path=/", Some("abc")),
            ("S=", Some("")),
            ("S=a=b~c", Some("a=b~c")),
            ("S=\"a b\"; HttpOnly", Some("\"a b\"")),
            ("s=abc", None),
            ("S", None),
            ("S; Path=/=", None),
            ("SS=abc; S=x", None),
            ("=abc", None),
        ] {
            let got = value_of(field.as_bytes(), "S").map(|range| &field[range]);
            assert_eq!(got, value, "{field}");
        }
    }

    #[test]
    fn max_age_and_otherwise_expires_tell_a_deletion() {
        let past = "Expires=Thu, 01 Jan 1970 00:00:00 GMT";
        let future = "Expires=Fri, 01 Jan 2100 00:00:00 GMT";
        for (attributes, deletes) in [
            ("", false),
            ("; Max-Age=0", true),
            ("; max-age=-1", true),
            ("; Max-Age=60", false),
            ("; Max-Age=soon", false),
            (&*format!("; {past}"), true),
            (&format!("; {past}; Path=/; Max-Age=60"), false),
            (&format!("; {future}"), false),
            (&format!("; {future}; Max-Age=0"), true),
            ("; Expires=never", false),
            ("; Expires=Thu, 01-Jan-1970 00:00:10 GMT", true),
            ("; EXPIRES = 1 jan 1970 0:0:0 ", true),
            ("; Expires=Thu, 1 Jan 1970 00:00:00 GMT; Expires=never", true),
            ("; Max-Age=60; Max-Age=0", true),
            ("; Max-Age=0; Max-Age=60", false),
            ("; Max-Age=0; Max-Age=+60", true),
            ("; Max-Age=99999999999999999999", false),
            ("; Max-Age=-99999999999999999999", true),
            ("; Max-Age=-", false),
            ("; Max-Age", false),
        ] {
            let field = format!("S=abc{attributes}");
            let now = Timestamp::from_unix_seconds(NOW);
            assert_eq!(is_deletion(field.as_bytes(), now), deletes, "{field}");
        }
        assert!(!is_deletion(b"S=\xff\xfe", Timestamp::from_unix_seconds(NOW)));
        assert!(is_deletion(b"S=\xff\xfe; Max-Age=0", Timestamp::from_unix_seconds(NOW)));
    }

    #[test]
    fn a_response_sets_or_deletes_a_cookie_of_the_name() {
        use CookieChange::{Deleted, Set};
        for (fields, expected) in [
            (&[][..], None),
            (&["T=abc", "SS=abc", "S"], None),
            (&["S=abc"], Some(Set)),
            (&["T=1; Max-Age=0", "S=abc; Max-Age=60"], Some(Set)),
            (&["S=abc; Max-Age=0"], Some(Deleted)),
            (&["S=; Path=/"], Some(Deleted)),
            (&["S=\"\""], Some(Deleted)),
            (&["S=deleteMe; Max-Age=0", "S=abc"], Some(Set)),
            (&["S=abc", "S=; Path=/old; Max-Age=0"], Some(Set)),
            (&["S=; Max-Age=0", "T=abc", "S=; Path=/old; Max-Age=0"], Some(Deleted)),
        ] {
            let all = fields.iter().map(|field| field.as_bytes());
            assert_eq!(
                change_of(all, "S", Timestamp::from_unix_seconds(NOW)),
                expected,
                "{fields:?}"
            );
        }
    }
}
