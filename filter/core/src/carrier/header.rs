//! A header field as a list. Several fields of one name arrive as one field (RFC 9110 section 5.3).

use super::{Candidates, prefix};

/// The values of the filter's own header.
#[must_use]
pub fn candidates(field: &[u8]) -> Candidates<'_> {
    let mut candidates = Candidates::default();
    elements(field).for_each(|element| candidates.push(element.trim_ascii()));
    candidates
}

/// The tokens in front of the values of the application's header, and the field without them; `None` if there are none.
/// A value that contains commas looks like several values, of which only the first has a token.
#[must_use]
pub fn without_prefixes(field: &[u8]) -> Option<(Candidates<'_>, Vec<u8>)> {
    let mut candidates = Candidates::default();
    let mut rest = Vec::with_capacity(field.len());
    let mut found = false;
    for (i, element) in elements(field).enumerate() {
        if i > 0 {
            rest.push(b',');
        }
        let value = element.trim_ascii_start();
        rest.extend_from_slice(element.get(..element.len() - value.len()).unwrap_or_default());
        match prefix::find(value) {
            None => rest.extend_from_slice(value),
            Some(found_prefix) => {
                found = true;
                candidates.push(found_prefix.token(value));
                rest.extend_from_slice(&found_prefix.removed(value));
            }
        }
    }
    found.then_some((candidates, rest))
}

fn elements(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|byte| *byte == b',')
}

#[cfg(test)]
mod tests {
    use super::super::MAX_CANDIDATES;
    use super::super::prefix::tests::TOKEN;
    use super::*;

    #[test]
    fn several_fields_give_several_candidates() {
        let got: Vec<_> = candidates(b"a, b ,c").iter().collect();
        assert_eq!(got, [&b"a"[..], b"b", b"c"]);
        assert_eq!(candidates(&[b','; 1000]).iter().count(), MAX_CANDIDATES);
    }

    #[test]
    fn removing_prefixes_keeps_every_other_byte() {
        for (field, tokens, rest) in [
            (format!("{TOKEN}~abc"), 1, "abc"),
            (format!("{TOKEN}~a,b ,c"), 1, "a,b ,c"),
            (format!("{TOKEN}~a, {TOKEN}~b"), 2, "a, b"),
            (format!("{TOKEN}~"), 1, ""),
            (format!("\"{TOKEN}~a, b\""), 1, "\"a, b\""),
        ] {
            let (candidates, got) = without_prefixes(field.as_bytes()).expect("a prefix");
            assert_eq!(candidates.iter().count(), tokens, "{field}");
            assert!(candidates.iter().all(|token| token == TOKEN.as_bytes()));
            assert_eq!(got, rest.as_bytes(), "{field}");
        }
        for field in ["", "abc", "a~b", TOKEN, ",,"] {
            assert!(without_prefixes(field.as_bytes()).is_none(), "{field}");
        }
    }
}
