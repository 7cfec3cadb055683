use limpet_core::carrier::cookie_field::{CookieEdit, edit, unquoted};
use limpet_core::carrier::header;

const NAME: &str = "session";

/// Takes the bytes as a Cookie field and as a session header.
///
/// # Panics
/// If a cookie of ours is not found or not removed, or anything else is removed.
pub fn cookie_header(data: &[u8]) {
    as_cookie(data);
    as_header(data);
}

fn as_cookie(field: &[u8]) {
    let (ours, others): (Vec<&[u8]>, Vec<&[u8]>) = field
        .split(|byte| *byte == b';')
        .partition(|segment| value(segment).is_some());
    let (found, remaining) = take(field);
    let Some(remaining) = remaining else {
        assert!(ours.is_empty(), "ours is in the field and was not found");
        return;
    };
    assert!(!ours.is_empty(), "nothing of ours was found in the field");
    let values: Vec<&[u8]> = ours.iter().filter_map(|segment| value(segment)).collect();
    assert_eq!(found, values, "the values, in order");
    assert_eq!(take(&remaining).1, None, "nothing of ours is left");
    // Except for white space in front, where a removed pair may have been.
    let expected = others.join(&b';');
    assert_eq!(
        without_leading_blanks(&remaining),
        without_leading_blanks(&expected),
        "exactly ours is gone"
    );
    assert!(remaining.len() <= expected.len(), "nothing is added");
}

/// Whether the field has a cookie called `session`.
#[must_use]
pub fn has_ours(field: &[u8]) -> bool {
    take(field).1.is_some()
}

fn take(field: &[u8]) -> (Vec<&[u8]>, Option<Vec<u8>>) {
    let mut found = Vec::new();
    let remaining = edit(field, |name, value| {
        if name != NAME.as_bytes() {
            return CookieEdit::Keep;
        }
        found.push(unquoted(value));
        CookieEdit::Remove
    });
    (found, remaining)
}

fn value(segment: &[u8]) -> Option<&[u8]> {
    let equals = segment.iter().position(|byte| *byte == b'=')?;
    let (name, value) = segment.split_at(equals);
    if name.trim_ascii() != NAME.as_bytes() {
        return None;
    }
    Some(match value[1..].trim_ascii() {
        [b'"', inner @ .., b'"'] => inner,
        value => value,
    })
}

fn without_leading_blanks(field: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| *byte == b';' || byte.is_ascii_whitespace();
    let start = field.iter().take_while(|byte| is_blank(byte)).count();
    &field[start..]
}

fn as_header(field: &[u8]) {
    let items: Vec<&[u8]> = field.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    assert_eq!(header::values(field).collect::<Vec<_>>(), items, "the items, in order");
}
