//! The cookie carrier: finding and removing our cookie in a request (RFC 6265 section 5.4, read leniently as servers do),
//! writing it into a response.

use std::time::Duration;

use cookie::Cookie;
use cookie::time::OffsetDateTime;

use super::MAX_CANDIDATES;
use crate::time::Timestamp;

pub use cookie::SameSite;

/// When the cookie carries `Secure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secure {
    /// Where the request came over HTTPS, by Envoy's `:scheme`.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How long the browser keeps the cookie (GEP-1619 `lifetimeType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until the browser ends its session: neither Expires nor Max-Age.
    Session,
    /// For what is left of the absolute timeout.
    Permanent {
        /// The absolute timeout.
        absolute_timeout: Duration,
    },
}

/// A session cookie as a policy describes it. Configuration has checked the combination (RFC 6265bis section 4.1.3).
#[derive(Debug, Clone)]
pub struct SessionCookie {
    /// Its name.
    pub name: String,
    /// Its Path.
    pub path: String,
    /// Its Domain; without one the cookie is for the request's host alone.
    pub domain: Option<String>,
    /// When it is Secure.
    pub secure: Secure,
    /// Whether scripts cannot read it.
    pub http_only: bool,
    /// Its `SameSite`.
    pub same_site: SameSite,
    /// Whether it is Partitioned (CHIPS).
    pub partitioned: bool,
    /// How long a browser keeps it.
    pub lifetime: Lifetime,
}

impl SessionCookie {
    /// The value of a `Set-Cookie` field that carries `token`, issued at `issued_at`.
    #[must_use]
    pub fn set_cookie(&self, token: &str, issued_at: Timestamp, now: Timestamp, https: bool) -> String {
        let secure = match self.secure {
            Secure::Auto => https,
            Secure::Always => true,
            Secure::Never => false,
        };
        let mut cookie = Cookie::build((self.name.as_str(), token))
            .path(self.path.as_str())
            .same_site(self.same_site);
        if let Some(domain) = &self.domain {
            cookie = cookie.domain(domain.as_str());
        }
        // Unset rather than false: the crate writes nothing for either, and derives nothing from what is unset here,
        // because configuration refuses SameSite=None and Partitioned without Secure.
        if secure {
            cookie = cookie.secure(true);
        }
        if self.http_only {
            cookie = cookie.http_only(true);
        }
        if self.partitioned {
            cookie = cookie.partitioned(true);
        }
        if let Lifetime::Permanent { absolute_timeout } = self.lifetime {
            let end = issued_at.after(absolute_timeout);
            let left = i64::try_from(end.since(now).as_secs()).unwrap_or(i64::MAX);
            cookie = cookie.max_age(cookie::time::Duration::seconds(left));
            let expires = i64::try_from(end.unix_seconds()).unwrap_or(i64::MAX);
            // Past the year 9999 HTTP has no date for it; Max-Age, which takes precedence, still says it.
            if let Ok(expires) = OffsetDateTime::from_unix_timestamp(expires) {
                cookie = cookie.expires(expires);
            }
        }
        cookie.build().to_string()
    }
}

/// What one Cookie field holds under a name.
#[derive(Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The values of that name, unquoted, in order, at most [`MAX_CANDIDATES`].
    pub candidates: Vec<&'a [u8]>,
    /// The field without any pair of that name, every other byte as it was; empty where nothing else was in it.
    pub remaining: Vec<u8>,
}

/// Looks for cookies called `name`; `None` where there are none, so that the field stays as it is. One pass over `field`.
#[must_use]
pub fn find<'a>(field: &'a [u8], name: &str) -> Option<Found<'a>> {
    let mut candidates = Vec::new();
    let mut remaining: Option<Vec<u8>> = None;
    // The bytes before the segment at hand, all of them kept as long as nothing was removed.
    let mut consumed = 0;
    for segment in field.split(|byte| *byte == b';') {
        let start = consumed;
        consumed += segment.len() + 1;
        match value_of(segment, name) {
            Some(value) => {
                if candidates.len() < MAX_CANDIDATES {
                    candidates.push(value);
                }
                remaining.get_or_insert_with(|| {
                    let mut kept = Vec::with_capacity(field.len());
                    kept.extend_from_slice(field.get(..start.saturating_sub(1)).unwrap_or_default());
                    kept
                });
            }
            None => {
                if let Some(kept) = &mut remaining {
                    if kept.is_empty() {
                        kept.extend_from_slice(segment.trim_ascii_start());
                    } else {
                        kept.push(b';');
                        kept.extend_from_slice(segment);
                    }
                }
            }
        }
    }
    remaining.map(|remaining| Found { candidates, remaining })
}

/// The value of `segment` where it is a pair called `name`, without the quotes that RFC 6265 allows around it.
fn value_of<'a>(segment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let rest = segment.trim_ascii_start().strip_prefix(name.as_bytes())?;
    let value = rest.trim_ascii_start().strip_prefix(b"=")?.trim_ascii();
    let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    Some(unquoted.unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(field: &str) -> Option<(Vec<String>, String)> {
        find(field.as_bytes(), "s").map(|found| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (
                found.candidates.iter().map(|value| text(value)).collect(),
                text(&found.remaining),
            )
        })
    }

    fn found(candidates: &[&str], remaining: &str) -> (Vec<String>, String) {
        (
            candidates.iter().map(ToString::to_string).collect(),
            remaining.to_owned(),
        )
    }

    #[test]
    fn a_field_without_ours_is_left_alone() {
        for field in ["", "a=1", "ss=1; xs=2", "S=1", "s", "s ; t=s=1", "=s", ";;;"] {
            assert_eq!(split(field), None, "{field:?}");
        }
    }

    #[test]
    fn ours_goes_and_the_rest_keeps_its_bytes_and_order() {
        for (field, candidates, remaining) in [
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
            assert_eq!(split(field), Some(found(candidates, remaining)), "{field:?}");
        }
    }

    #[test]
    fn candidates_are_few_however_many_come() {
        let field = "s=x; ".repeat(10_000);
        let found = find(field.as_bytes(), "s").unwrap();
        assert_eq!(found.candidates.len(), MAX_CANDIDATES);
        assert_eq!(found.remaining.trim_ascii(), b"");
    }

    fn cookie() -> SessionCookie {
        SessionCookie {
            name: "s".into(),
            path: "/".into(),
            domain: None,
            secure: Secure::Auto,
            http_only: true,
            same_site: SameSite::Strict,
            partitioned: false,
            lifetime: Lifetime::Session,
        }
    }

    fn written(cookie: &SessionCookie, https: bool) -> String {
        let second = Timestamp::from_unix_seconds;
        cookie.set_cookie("T", second(1000), second(1010), https)
    }

    #[test]
    fn a_cookie_is_strict_and_for_http_alone_unless_told_otherwise() {
        assert_eq!(written(&cookie(), false), "s=T; HttpOnly; SameSite=Strict; Path=/");
        assert_eq!(
            written(&cookie(), true),
            "s=T; HttpOnly; SameSite=Strict; Secure; Path=/"
        );
    }

    #[test]
    fn a_permanent_cookie_lasts_for_what_is_left() {
        let cookie = SessionCookie {
            lifetime: Lifetime::Permanent {
                absolute_timeout: Duration::from_secs(60),
            },
            ..cookie()
        };
        assert_eq!(
            written(&cookie, false),
            "s=T; HttpOnly; SameSite=Strict; Path=/; Max-Age=50; Expires=Thu, 01 Jan 1970 00:17:40 GMT"
        );
    }

    #[test]
    fn every_attribute_is_written() {
        let cookie = SessionCookie {
            path: "/shop".into(),
            domain: Some("example.com".into()),
            secure: Secure::Always,
            http_only: false,
            same_site: SameSite::None,
            partitioned: true,
            ..cookie()
        };
        assert_eq!(
            written(&cookie, false),
            "s=T; SameSite=None; Partitioned; Secure; Path=/shop; Domain=example.com"
        );
        let never = SessionCookie {
            secure: Secure::Never,
            ..self::cookie()
        };
        assert!(!written(&never, true).contains("Secure"));
    }
}
