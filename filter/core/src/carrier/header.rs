//! The header carrier.

use super::MAX_CANDIDATES;

/// The values of a header field: several fields of one name arrive as one list (RFC 9110 section 5.3).
pub fn candidates(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .take(MAX_CANDIDATES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_fields_give_several_candidates() {
        let got: Vec<_> = candidates(b"a, b ,c").collect();
        assert_eq!(got, [&b"a"[..], b"b", b"c"]);
        assert_eq!(candidates(&[b','; 1000]).count(), MAX_CANDIDATES);
    }
}
