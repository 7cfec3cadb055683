//! Keeps tokens out of shared caches, which would give one client's session to every client.
//!
//! Any status counts: a cache merges the fields of a 304 into its stored response (RFC 9111 sections 3.2 and 4.3.4),
//! and some store errors and redirects.

use crate::plan::HeaderEdit;
use crate::view::{ResponseView, ViewError};

const CACHE_CONTROL: &str = "cache-control";

/// Fields that take precedence over Cache-Control in some shared caches: RFC 9213, its forms of Cloudflare, Vercel and
/// Netlify, the Edge Architecture Specification, Akamai, and nginx.
const TARGETED: [&str; 7] = [
    "cdn-cache-control",
    "cloudflare-cdn-cache-control",
    "vercel-cdn-cache-control",
    "netlify-cdn-cache-control",
    "surrogate-control",
    "edge-control",
    "x-accel-expires",
];

/// The edits that keep the response out of shared caches, or with `no_store` out of every cache.
pub(crate) fn edits(response: &impl ResponseView, no_store: bool) -> Result<Vec<HeaderEdit<'static>>, ViewError> {
    let field = response.fields(CACHE_CONTROL)?.join(&b", "[..]);
    let value = if no_store {
        Some(b"no-store".to_vec())
    } else {
        made_private(&field)
    };
    let mut edits: Vec<_> = value
        .map(|value| HeaderEdit::Set(CACHE_CONTROL, value))
        .into_iter()
        .collect();
    for name in TARGETED {
        if !response.fields(name)?.is_empty() {
            edits.push(HeaderEdit::Remove(name));
        }
    }
    Ok(edits)
}

/// The Cache-Control value with which no shared cache uses the response; `None` if `field` suffices.
fn made_private(field: &[u8]) -> Option<Vec<u8>> {
    let is = |directive: &[u8], name: &str| directive_name(directive).eq_ignore_ascii_case(name.as_bytes());
    let directives = || directives(field);
    let any = |name: &str| directives().any(|d| is(d, name));
    // `private="x"` protects only the listed fields. A cache that knows the status ignores `no-store` beside
    // `must-understand` (RFC 9111 section 5.2.2.3).
    let is_private = directives().any(|d| d.eq_ignore_ascii_case(b"private"));
    let is_not_stored = any("no-store") && !any("must-understand");
    if (is_private || is_not_stored) && !any("public") && !any("s-maxage") {
        return None;
    }
    let mut value = b"private".to_vec();
    for directive in directives().filter(|d| !["public", "s-maxage", "private"].iter().any(|name| is(d, name))) {
        value.extend_from_slice(b", ");
        value.extend_from_slice(directive);
    }
    Some(value)
}

/// A comma within quotes does not separate them.
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

    fn private(field: &str) -> Option<String> {
        made_private(field.as_bytes()).map(|value| String::from_utf8(value).unwrap())
    }

    #[test]
    fn what_a_shared_cache_may_use_becomes_private() {
        for (field, value) in [
            ("", "private"),
            ("public, max-age=60", "private, max-age=60"),
            ("s-maxage=5, Max-Age=60", "private, Max-Age=60"),
            ("no-cache", "private, no-cache"),
            ("private=\"a, no-store\", max-age=1", "private, max-age=1"),
            ("Private, s-maxage = 5", "private"),
            ("no-store, must-understand", "private, no-store, must-understand"),
        ] {
            assert_eq!(private(field).as_deref(), Some(value), "{field}");
        }
    }

    #[test]
    fn what_no_shared_cache_may_use_stays() {
        for field in ["private, max-age=60", "no-store", "Private"] {
            assert_eq!(private(field), None, "{field}");
        }
    }
}
