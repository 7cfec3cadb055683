//! The Cookie field of a request (RFC 6265 section 5.4), parsed as leniently as servers do.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;

/// What happens to a cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CookieEdit {
    /// It stays as it is.
    Keep,
    /// It is removed.
    Remove,
    /// These bytes of its value are removed.
    Cut(Range<usize>),
}

/// Edits a field; `None` if nothing changes. `judge` gets each cookie's name and value, with quotes. Every other byte
/// stays.
#[must_use]
pub fn edit<'a>(field: &'a [u8], judge: impl FnMut(&'a [u8], &'a [u8]) -> CookieEdit) -> Option<Vec<u8>> {
    edit_some(field, b"", Vec::new, judge)
}

/// Edits as [`edit`], but only cookies whose names begin with `name_start`. `room` returns empty memory, if anything is
/// left of the field.
pub(crate) fn edit_some<'a>(
    field: &'a [u8],
    name_start: &[u8],
    room: impl FnOnce() -> Vec<u8>,
    mut judge: impl FnMut(&'a [u8], &'a [u8]) -> CookieEdit,
) -> Option<Vec<u8>> {
    let mut room = Some(room);
    let mut begin = |copy: &mut Vec<u8>| {
        if let Some(room) = room.take() {
            *copy = room();
            copy.reserve(field.len());
        }
    };
    let mut edited: Option<Vec<u8>> = None;
    // Nothing is copied until something changes.
    let mut consumed = 0;
    for segment in segments(field) {
        let start = consumed;
        consumed += segment.len() + 1;
        let verdict = match pair(segment, name_start) {
            None => CookieEdit::Keep,
            Some((name, value, at)) => match judge(name, value) {
                CookieEdit::Cut(cut) => CookieEdit::Cut(at + cut.start..at + cut.end),
                verdict => verdict,
            },
        };
        let Some(edited) = &mut edited else {
            let kept = match verdict {
                CookieEdit::Keep => continue,
                CookieEdit::Remove => field.get(..start.saturating_sub(1)).unwrap_or_default(),
                CookieEdit::Cut(_) => field.get(..start).unwrap_or_default(),
            };
            let mut copy = Vec::new();
            if !kept.is_empty() {
                begin(&mut copy);
                copy.extend_from_slice(kept);
            }
            if let CookieEdit::Cut(cut) = verdict {
                begin(&mut copy);
                copy.extend_from_slice(&without(segment, cut));
            }
            edited = Some(copy);
            continue;
        };
        let segment = match verdict {
            CookieEdit::Remove => continue,
            CookieEdit::Keep => Cow::Borrowed(segment),
            CookieEdit::Cut(cut) => Cow::Owned(without(segment, cut)),
        };
        if edited.is_empty() {
            begin(edited);
            edited.extend_from_slice(segment.trim_ascii_start());
        } else {
            edited.push(b';');
            edited.extend_from_slice(&segment);
        }
    }
    edited
}

/// `memchr`, because fields may be long.
fn segments(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(field);
    std::iter::from_fn(move || {
        let field = rest?;
        let semicolon = memchr(b';', field);
        rest = semicolon.and_then(|at| field.get(at + 1..));
        field.get(..semicolon.unwrap_or(field.len()))
    })
}

fn without(bytes: &[u8], cut: Range<usize>) -> Vec<u8> {
    let part = |range| bytes.get(range).unwrap_or_default();
    [part(0..cut.start), part(cut.end..bytes.len())].concat()
}

/// The name, the value and its offset, if this is a pair whose name begins with `name_start`.
#[inline]
fn pair<'a>(segment: &'a [u8], name_start: &[u8]) -> Option<(&'a [u8], &'a [u8], usize)> {
    let rest = segment.trim_ascii_start().strip_prefix(name_start)?;
    // Names are short: a loop ends before `memchr` has begun.
    let equals = segment.len() - rest.len() + rest.iter().position(|byte| *byte == b'=')?;
    let (name, value) = segment.split_at_checked(equals)?;
    let value = value.get(1..)?;
    let trimmed = value.trim_ascii_start();
    let at = equals + 1 + (value.len() - trimmed.len());
    Some((name.trim_ascii(), trimmed.trim_ascii_end(), at))
}

/// The value without quotes around it.
#[must_use]
pub fn unquoted(value: &[u8]) -> &[u8] {
    let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    inner.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(field: &str) -> Option<(Vec<String>, String)> {
        let mut values = Vec::new();
        let rest = edit(field.as_bytes(), |name, value| {
            if name != b"s" {
                return CookieEdit::Keep;
            }
            values.push(String::from_utf8(unquoted(value).to_vec()).unwrap());
            CookieEdit::Remove
        });
        rest.map(|rest| (values, String::from_utf8(rest).unwrap()))
    }

    #[test]
    fn a_field_without_the_name_is_left_alone() {
        for field in ["", "a=1", "ss=1; xs=2", "S=1", "s", "s ; t=s=1", "=s", ";;;"] {
            assert_eq!(take(field), None, "{field:?}");
        }
    }

    #[test]
    fn removing_a_cookie_keeps_the_bytes_of_the_others() {
        for (field, values, rest) in [
            ("s=1", &["1"][..], ""),
            ("s=1; a=2", &["1"], "a=2"),
            ("a=2; s=1", &["1"], "a=2"),
            ("a=2;s=1;b=3", &["1"], "a=2;b=3"),
            ("a=2; s=1;  b = \"x;", &["1"], "a=2;  b = \"x;"),
            ("a; s=1; =; ;b==c", &["1"], "a; =; ;b==c"),
            ("s=1; s=2; a=3; s=", &["1", "2", ""], "a=3"),
            ("s=\"1\"", &["1"], ""),
            ("s=\"1", &["\"1"], ""),
            (" s = 1 ;a=2", &["1"], "a=2"),
            ("s=1;", &["1"], ""),
            (";s=1; a=2", &["1"], "a=2"),
            ("s=a=b", &["a=b"], ""),
        ] {
            let values = values.iter().map(ToString::to_string).collect();
            assert_eq!(take(field), Some((values, rest.to_owned())), "{field:?}");
        }
    }

    #[test]
    fn cutting_a_value_keeps_every_other_byte() {
        for (field, cut) in [
            ("s=xy1", "s=1"),
            ("a=2; s = xy1 ;b", "a=2; s = 1 ;b"),
            (" s=xy; s=xy\"2\"", " s=; s=\"2\""),
            (";; s=xy1;", ";; s=1;"),
        ] {
            let edited = edit(field.as_bytes(), |name, _| match name {
                b"s" => CookieEdit::Cut(0..2),
                _ => CookieEdit::Keep,
            });
            assert_eq!(edited.as_deref(), Some(cut.as_bytes()), "{field:?}");
        }
    }
}
