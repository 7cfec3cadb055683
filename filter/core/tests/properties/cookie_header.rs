//! Our cookies are found and removed, and all other bytes of the Cookie header stay in order.

use limpet_core::carrier::cookie_field::{CookieEdit, edit, unquoted};
use proptest::prelude::*;

const NAME: &str = "session";

#[derive(Debug, PartialEq)]
struct Found {
    values: Vec<Vec<u8>>,
    remaining: Vec<u8>,
}

fn find(field: &[u8], name: &str) -> Option<Found> {
    let mut values = Vec::new();
    let remaining = edit(field, |found, value| {
        if found != name.as_bytes() {
            return CookieEdit::Keep;
        }
        values.push(unquoted(value).to_vec());
        CookieEdit::Remove
    });
    remaining.map(|remaining| Found { values, remaining })
}

/// A segment of a Cookie field: ours, nearly ours, or any.
fn segment() -> impl Strategy<Value = Vec<u8>> {
    let ours = "[ \t]{0,2}session[ \t]{0,2}=[ \t]{0,2}\"?[a-zA-Z0-9=_-]{0,6}\"?[ \t]{0,2}";
    let nearly = " ?(Session|session|sessio|xsession|session2|\\$session)(=|==|)[a-z]{0,3}";
    let other = "[ \t]{0,2}[a-z]{0,3}(=[ -:<-~]{0,8})?";
    prop_oneof![
        ours.prop_map(String::into_bytes),
        nearly.prop_map(String::into_bytes),
        other.prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>().prop_filter("no semicolon", |b| *b != b';'), 0..6),
    ]
}

fn other_pair() -> impl Strategy<Value = Vec<u8>> {
    let is_other = |segment: &Vec<u8>| ours(segment).is_none() && !segment.trim_ascii().is_empty();
    segment().prop_filter("a pair that is not ours", is_other)
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(segment(), 0..12).prop_map(|segments| segments.join(&b';'))
}

/// The value of a pair with our name, read the slow way.
fn ours(segment: &[u8]) -> Option<&[u8]> {
    let equals = segment.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (segment[..equals].trim_ascii(), segment[equals + 1..].trim_ascii());
    if name != NAME.as_bytes() {
        return None;
    }
    match value {
        [b'"', inner @ .., b'"'] => Some(inner),
        _ => Some(value),
    }
}

/// What `find` must return, by definition.
fn expected(field: &[u8]) -> Option<(Vec<Vec<u8>>, Vec<u8>)> {
    let segments: Vec<&[u8]> = field.split(|byte| *byte == b';').collect();
    let values: Vec<Vec<u8>> = segments.iter().filter_map(|s| ours(s)).map(<[u8]>::to_vec).collect();
    if values.is_empty() {
        return None;
    }
    let remaining: Vec<&[u8]> = segments.iter().copied().filter(|s| ours(s).is_none()).collect();
    Some((values, remaining.join(&b';')))
}

/// Without leading semicolons and white space, which may differ if the first pair was removed.
fn without_leading_blanks(field: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| *byte == b';' || byte.is_ascii_whitespace();
    &field[field.iter().take_while(|byte| is_blank(byte)).count()..]
}

fn check(field: &[u8]) -> Result<(), TestCaseError> {
    let found = find(field, NAME);
    let Some((values, remaining)) = expected(field) else {
        prop_assert_eq!(found, None);
        return Ok(());
    };
    let Found {
        values: got,
        remaining: rest,
    } = found.expect("ours is in the field");
    prop_assert_eq!(got, values);
    prop_assert_eq!(
        without_leading_blanks(&rest),
        without_leading_blanks(&remaining),
        "remaining {:?}",
        rest
    );
    prop_assert!(rest.len() <= remaining.len());
    prop_assert_eq!(find(&rest, NAME), None, "ours is still there");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn only_our_cookies_are_removed(field in field()) {
        check(&field)?;
    }

    #[test]
    fn any_bytes_of_a_client_are_handled(field: Vec<u8>) {
        check(&field)?;
    }

    #[test]
    fn pairs_around_ours_keep_every_byte(before in other_pair(), after in other_pair()) {
        let field = [&before[..], b"; session=x;", &after].concat();
        let kept = find(&field, NAME).unwrap().remaining;
        prop_assert_eq!(kept, [&before[..], b";", &after].concat());
    }
}

#[test]
fn two_hundred_cookies_in_sixty_kibibytes() {
    let pair = |i: usize| match i % 10 {
        0 => format!("session={}", "t".repeat(300)),
        _ => format!("other{i}={}", "v".repeat(300)),
    };
    let pairs: Vec<String> = (0..200).map(pair).collect();
    let field = pairs.join("; ");
    assert!(field.len() > 60 * 1024);
    let found = find(field.as_bytes(), NAME).unwrap();
    assert_eq!(found.values.len(), 20);
    let others: Vec<String> = pairs.into_iter().filter(|pair| pair.starts_with("other")).collect();
    assert_eq!(String::from_utf8(found.remaining).unwrap(), others.join("; "));
}
