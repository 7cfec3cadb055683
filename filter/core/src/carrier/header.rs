//! A header field as a list. Several fields of one name arrive as one (RFC 9110 section 5.3).

use super::prefix;

/// The values of the filter's own header.
pub fn values(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    elements(field).map(<[u8]>::trim_ascii)
}

/// The field without tokens in front of the application's values, which `found` gets; `None` without any. A value with
/// commas has a token only in front of its first part.
#[must_use]
pub fn without_prefixes<'f>(field: &'f [u8], mut found: impl FnMut(&'f [u8])) -> Option<Vec<u8>> {
    let mut rest = Vec::with_capacity(field.len());
    let mut any = false;
    for (i, element) in elements(field).enumerate() {
        if i > 0 {
            rest.push(b',');
        }
        let value = element.trim_ascii_start();
        rest.extend_from_slice(element.get(..element.len() - value.len()).unwrap_or_default());
        match prefix::find(value) {
            None => rest.extend_from_slice(value),
            Some(prefix) => {
                any = true;
                found(prefix.token(value));
                rest.extend_from_slice(&prefix.removed(value));
            }
        }
    }
    any.then_some(rest)
}

fn elements(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|byte| *byte == b',')
}

#[cfg(test)]
mod tests {
    use super::super::prefix::tests::TOKEN;
    use super::*;

    #[test]
    fn several_fields_give_several_values() {
        let got: Vec<_> = values(b"a, b ,c").collect();
        assert_eq!(got, [&b"a"[..], b"b", b"c"]);
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
            let mut found = Vec::new();
            let got = without_prefixes(field.as_bytes(), |token| found.push(token)).expect("a prefix");
            assert_eq!(found, vec![TOKEN.as_bytes(); tokens], "{field}");
            assert_eq!(got, rest.as_bytes(), "{field}");
        }
        for field in ["", "abc", "a~b", TOKEN, ",,"] {
            assert!(
                without_prefixes(field.as_bytes(), |_| panic!("a token")).is_none(),
                "{field}"
            );
        }
    }
}
