//! Keeps responses that carry a token out of shared caches, which would give one client's session to every client.

/// Status codes that a cache may store without being told to (RFC 9110 section 15.1).
const HEURISTICALLY_CACHEABLE: [u16; 12] = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501];

/// The value that the Cache-Control `field` must get so that no shared cache stores the response; `None` if no shared
/// cache would store it as it is.
///
/// A shared cache may store a response with `public`, `s-maxage`, `max-age` or Expires, and one with a cacheable status
/// and none of these (RFC 9111 sections 3 and 4.2.2), unless the response has `private` or `no-store`. Directives that
/// do not contradict `private` are kept.
#[must_use]
pub(crate) fn made_private(status: u16, field: &[u8], has_expires: bool) -> Option<Vec<u8>> {
    let is = |directive: &[u8], name: &str| directive_name(directive).eq_ignore_ascii_case(name.as_bytes());
    let directives = || directives(field);
    // `private="x"` protects only the fields that it lists, so it does not count.
    let closed = directives().any(|d| d.eq_ignore_ascii_case(b"private") || is(d, "no-store"));
    let open = directives().any(|d| is(d, "public") || is(d, "s-maxage") || is(d, "max-age"));
    if closed || !(open || has_expires || HEURISTICALLY_CACHEABLE.contains(&status)) {
        return None;
    }
    let mut value = b"private".to_vec();
    for directive in directives().filter(|d| !is(d, "public") && !is(d, "s-maxage") && !is(d, "private")) {
        value.extend_from_slice(b", ");
        value.extend_from_slice(directive);
    }
    Some(value)
}

/// The directives of a field. A comma within quotes does not separate them.
fn directives(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    field
        .split(move |byte| {
            quoted ^= *byte == b'"';
            *byte == b',' && !quoted
        })
        .map(<[u8]>::trim_ascii)
        .filter(|directive| !directive.is_empty())
}

fn directive_name(directive: &[u8]) -> &[u8] {
    directive
        .split(|byte| *byte == b'=')
        .next()
        .unwrap_or_default()
        .trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private(status: u16, field: &str) -> Option<String> {
        made_private(status, field.as_bytes(), false).map(|value| String::from_utf8(value).unwrap())
    }

    #[test]
    fn what_a_shared_cache_may_store_becomes_private() {
        assert_eq!(made_private(200, b"", false), Some(b"private".to_vec()));
        assert_eq!(private(200, "public, max-age=60").unwrap(), "private, max-age=60");
        assert_eq!(private(200, "s-maxage=5, Max-Age=60").unwrap(), "private, Max-Age=60");
        assert_eq!(private(200, "no-cache").unwrap(), "private, no-cache");
        assert_eq!(
            private(200, "private=\"a, no-store\", max-age=1").unwrap(),
            "private, max-age=1"
        );
        assert_eq!(private(302, "max-age=60").unwrap(), "private, max-age=60");
        assert_eq!(made_private(302, b"", true), Some(b"private".to_vec()));
    }

    #[test]
    fn what_no_shared_cache_may_store_stays() {
        assert_eq!(private(200, "private, max-age=60"), None);
        assert_eq!(private(200, "no-store"), None);
        assert_eq!(private(200, "Private"), None);
        assert_eq!(made_private(302, b"", false), None);
        assert_eq!(made_private(500, b"", false), None);
    }
}
