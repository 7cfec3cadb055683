//! Whether the Location of a redirect leads back to the request's host.

/// Browsers drop them or read them as others, so `/\evil.example` leads to another host.
fn is_ambiguous(byte: u8) -> bool {
    byte <= b' ' || byte == b'\\' || byte == 0x7f
}

/// Whether a browser follows `location` to the host and port of `authority`, and not from HTTPS to HTTP. `false` if
/// ambiguous.
#[must_use]
pub fn is_same_origin(location: &[u8], authority: &[u8], https: bool) -> bool {
    if location.is_empty() || location.iter().copied().any(is_ambiguous) {
        return false;
    }
    let (to_https, rest) = match scheme(location) {
        None => (https, location),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"https") => (true, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"http") => (false, rest),
        Some(_) => return false,
    };
    let is_absolute = rest.len() < location.len();
    let Some(named) = rest.strip_prefix(b"//") else {
        return !is_absolute;
    };
    let end = named
        .iter()
        .position(|byte| b"/?#".contains(byte))
        .unwrap_or(named.len());
    let named = named.get(..end).unwrap_or_default();
    (to_https || !https) && is_same(named, to_https, authority, https)
}

fn scheme(location: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = location.iter().position(|byte| b":/?#".contains(byte))?;
    let (scheme, rest) = location.split_at_checked(end)?;
    Some((scheme, rest.strip_prefix(b":")?))
}

/// Whether two authorities are the same host and port, default ports included.
fn is_same(named: &[u8], named_https: bool, authority: &[u8], https: bool) -> bool {
    let named = without_default_port(named, named_https);
    let authority = without_default_port(authority, https);
    !named.is_empty() && named.eq_ignore_ascii_case(authority)
}

fn without_default_port(authority: &[u8], https: bool) -> &[u8] {
    let port: &[u8] = if https { b":443" } else { b":80" };
    authority.strip_suffix(port).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_of_the_same_host_is_known() {
        for (location, authority, https) in [
            ("/", "shop.example", false),
            ("next?a=1#b", "shop.example", false),
            ("?a", "shop.example", false),
            ("#a", "shop.example", false),
            ("./a:b", "shop.example", false),
            ("//shop.example/x", "shop.example", true),
            ("//SHOP.example", "shop.Example", true),
            ("http://shop.example", "shop.example", false),
            ("HTTP://shop.example:80?x", "shop.example", false),
            ("http://shop.example#x", "shop.example:80", false),
            ("https://shop.example/", "shop.example", false),
            ("https://shop.example:443/", "shop.example", true),
            ("http://shop.example:8080/", "shop.example:8080", false),
            ("http://[2001:db8::7]/", "[2001:db8::7]", false),
        ] {
            assert!(
                is_same_origin(location.as_bytes(), authority.as_bytes(), https),
                "{location}"
            );
        }
    }

    #[test]
    fn no_other_host_is_taken_for_it() {
        for location in [
            "",
            "http://other.example/",
            "//other.example/",
            "///other.example",
            "http:///other.example",
            "http:other.example",
            "http:/other.example",
            "http:",
            "/\\other.example",
            "\\\\other.example",
            "/\t/other.example",
            "/\n/other.example",
            " //other.example",
            "http://shop.example@other.example/",
            "http://shop.example:8080/",
            "http://shop.example.other.example/",
            "http://shop.example\\.other.example/",
            "javascript:alert(1)",
            "mailto:shop.example",
            "shop.example:8080/x",
        ] {
            assert!(
                !is_same_origin(location.as_bytes(), b"shop.example", false),
                "{location}"
            );
        }
        for (location, authority, https) in [
            ("http://shop.example/", "shop.example", true),
            ("http://shop.example:443/", "shop.example", true),
            ("https://shop.example:80/", "shop.example:80", false),
            ("//", "", false),
        ] {
            let leads_back = is_same_origin(location.as_bytes(), authority.as_bytes(), https);
            assert!(!leads_back, "{location}");
        }
    }
}
