//! Cookie fields and session headers from a client.

use limpet_core::carrier::{MAX_CANDIDATES, cookie, header};

const NAME: &str = "session";

/// The bytes as a Cookie field and as a session header.
///
/// # Panics
/// Where ours is not found, not gone, or anything else is.
pub fn cookie_header(data: &[u8]) {
    as_cookie(data);
    as_header(data);
}

fn as_cookie(field: &[u8]) {
    let (ours, others): (Vec<&[u8]>, Vec<&[u8]>) = field
        .split(|byte| *byte == b';')
        .partition(|segment| value(segment).is_some());
    let Some(found) = cookie::find(field, NAME) else {
        assert!(ours.is_empty(), "ours is in the field and was not found");
        return;
    };
    assert!(!ours.is_empty(), "nothing of ours was found in the field");
    let values: Vec<&[u8]> = ours
        .iter()
        .filter_map(|segment| value(segment))
        .take(MAX_CANDIDATES)
        .collect();
    assert_eq!(found.candidates, values, "the first values, in order");
    assert_eq!(cookie::find(&found.remaining, NAME), None, "nothing of ours is left");
    // Byte for byte, but for what stands before the first pair that is left: nothing is before it any more.
    let expected = others.join(&b';');
    assert_eq!(
        without_lead(&found.remaining),
        without_lead(&expected),
        "exactly ours is gone"
    );
    assert!(found.remaining.len() <= expected.len(), "nothing is added");
}

/// The value of a pair called [`NAME`], by the definition.
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

fn without_lead(field: &[u8]) -> &[u8] {
    let is_lead = |byte: &u8| *byte == b';' || byte.is_ascii_whitespace();
    let lead = field.iter().take_while(|byte| is_lead(byte)).count();
    &field[lead..]
}

fn as_header(field: &[u8]) {
    let candidates: Vec<&[u8]> = header::candidates(field).collect();
    assert!((1..=MAX_CANDIDATES).contains(&candidates.len()));
    let items: Vec<&[u8]> = field.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    assert_eq!(candidates, items[..candidates.len()], "the first items, in order");
    assert_eq!(candidates.len(), items.len().min(MAX_CANDIDATES));
}
