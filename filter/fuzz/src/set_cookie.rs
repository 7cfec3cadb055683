use limpet_core::carrier::set_cookie::{CookieChange, change_of, is_deletion, value_of};
use limpet_core::time::Timestamp;

const NAME: &str = "session";

/// Takes the bytes as a Set-Cookie field.
///
/// # Panics
/// If the value differs from the definition, a deletion ends being one later, or Max-Age is not obeyed.
pub fn set_cookie(field: &[u8]) {
    let range = value_of(field, NAME);
    let found = range.clone().map(|range| &field[range]);
    assert_eq!(found, value(field), "the value by the definition");
    if let Some(range) = range {
        let (before, after) = (&field[..range.start], &field[range.end..]);
        assert_eq!(before.trim_ascii().split_last().map(|(last, _)| *last), Some(b'='));
        assert!(
            matches!(after.trim_ascii_start(), [] | [b';', ..]),
            "up to the end of the pair"
        );
    }
    let now = Timestamp::from_unix_seconds(1_763_718_000);
    let is_set = found.is_some_and(|value| !matches!(value, b"" | b"\"\"")) && !is_deletion(field, now);
    let expected = found.map(|_| {
        if is_set {
            CookieChange::Set
        } else {
            CookieChange::Deleted
        }
    });
    assert_eq!(
        change_of([field], NAME, now),
        expected,
        "set or deleted, if it is of the name"
    );
    let beside = change_of([field, &b"session=other"[..]], NAME, now);
    assert_eq!(beside, Some(CookieChange::Set), "one that sets the cookie counts");
    let [beginning, end] =
        [0, u64::MAX / 1000].map(|seconds| is_deletion(field, Timestamp::from_unix_seconds(seconds)));
    assert!(end || !beginning, "what is deleted stays so");
    if let Some(deletes) = deletes(field) {
        assert_eq!((beginning, end), (deletes, deletes), "by Max-Age, or not at all");
    }
}

/// Whether the bytes set the session cookie, and whether they delete it.
#[must_use]
pub fn sets_and_deletes(field: &[u8]) -> (bool, bool) {
    let now = Timestamp::from_unix_seconds(1_763_718_000);
    (value_of(field, NAME).is_some(), is_deletion(field, now))
}

fn value(field: &[u8]) -> Option<&[u8]> {
    let pair = field.split(|byte| *byte == b';').next()?;
    let mut halves = pair.splitn(2, |byte| *byte == b'=');
    let (name, value) = (halves.next()?, halves.next()?);
    (name.trim_ascii() == NAME.as_bytes()).then(|| value.trim_ascii())
}

/// Whether the field deletes its cookie; `None` if that depends on a date or is unclear (RFC 6265 section 5.2.2).
fn deletes(field: &[u8]) -> Option<bool> {
    let field = std::str::from_utf8(field)
        .ok()
        .filter(|field| field.is_ascii() && !field.contains('\x0b'))?;
    let (pair, attributes) = field.split_once(';').unwrap_or((field, ""));
    let (name, _) = pair.split_once('=')?;
    if name.trim().is_empty() {
        return None;
    }
    let mut verdict = Some(false);
    for attribute in attributes.split(';') {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        match &*name {
            "expires" => return None,
            "max-age" => {
                let digits = value.strip_prefix('-').unwrap_or(value);
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                verdict = Some(value.starts_with('-') || digits.bytes().all(|byte| byte == b'0'));
            }
            _ => {}
        }
    }
    verdict
}
