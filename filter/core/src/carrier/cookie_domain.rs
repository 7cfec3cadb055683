//! Which `Domain` attributes browsers accept (RFC 6265bis section 5.7), by the list of public suffixes
//! (<https://publicsuffix.org>). It is larger than the wasm filter, so only the controller and tools check.

/// Why browsers drop a cookie with this `Domain` on every host.
#[must_use]
pub fn problem(domain: &str) -> Option<String> {
    let domain = domain.to_ascii_lowercase();
    // Any other name of one label counts as a public suffix.
    let is_public = domain != "localhost" && psl::suffix_str(&domain) == Some(domain.as_str());
    is_public.then(|| {
        format!(
            "expected a registered domain, found {domain:?}: it is a public suffix, and browsers \
             drop a cookie for all hosts below one"
        )
    })
}

/// Whether browsers accept the `Domain` from a host: a name, also with a port, or a pattern with `*` at its begin or
/// end.
#[must_use]
pub fn may_come_from(domain: &str, host: &str) -> bool {
    let domain = format!(".{}", domain.to_ascii_lowercase());
    let host = host.to_ascii_lowercase();
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => &host,
    };
    match host.strip_prefix('*') {
        Some(suffix) => suffix.ends_with(&domain) || domain.ends_with(suffix),
        None => host.ends_with('*') || format!(".{host}").ends_with(&domain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_suffix_is_no_domain_of_a_cookie() {
        for domain in [
            "com",
            "COM",
            "co.uk",
            "github.io",
            "s3.amazonaws.com",
            "intranet",
            "ck",
            "a.ck",
        ] {
            assert!(problem(domain).is_some(), "{domain}");
        }
        for domain in [
            "example.com",
            "a.example.co.uk",
            "me.github.io",
            "localhost",
            "corp.internal",
            "www.ck",
        ] {
            assert_eq!(problem(domain), None, "{domain}");
        }
    }

    #[test]
    fn a_cookie_may_come_from_a_host_of_its_domain() {
        for host in [
            "example.com",
            "a.Example.com",
            "a.b.example.com:8443",
            "*.example.com",
            "*.a.example.com",
            "*.com",
            "*",
            "*ample.com",
            "example.*",
        ] {
            assert!(may_come_from("Example.com", host), "{host}");
        }
        for host in [
            "com",
            "example.org",
            "badexample.com",
            "*.example.org",
            "*.badexample.com",
            "example.org:443",
            "",
        ] {
            assert!(!may_come_from("example.com", host), "{host}");
        }
    }
}
