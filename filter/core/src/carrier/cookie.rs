//! The filter's own cookie, as a response sets it.

use std::time::Duration;

use cookie::Cookie;
use cookie::time::OffsetDateTime;

use crate::time::Timestamp;

pub use cookie::SameSite;

/// Whether the cookie is `Secure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secure {
    /// If the request came over HTTPS (`:scheme`).
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How long the browser keeps the cookie (GEP-1619 `lifetimeType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until the browser's session ends.
    Session,
    /// For the rest of the absolute timeout.
    Permanent {
        /// The policy's absolute timeout.
        absolute_timeout: Duration,
    },
}

/// The attributes of a session cookie, made consistent by the configuration's checks (RFC 6265bis section 4.1.3).
#[derive(Debug, Clone)]
pub struct SessionCookie {
    /// The Path attribute.
    pub path: String,
    /// The Domain attribute; `None` for the request's host only.
    pub domain: Option<String>,
    /// The Secure attribute.
    pub secure: Secure,
    /// The `HttpOnly` attribute.
    pub http_only: bool,
    /// The `SameSite` attribute.
    pub same_site: SameSite,
    /// The Partitioned attribute (CHIPS).
    pub partitioned: bool,
    /// Its lifetime.
    pub lifetime: Lifetime,
}

impl SessionCookie {
    /// A `Set-Cookie` value with `token`.
    #[must_use]
    pub fn set_cookie(&self, name: &str, token: &str, issued_at: Timestamp, now: Timestamp, https: bool) -> String {
        let cookie = self.cookie(name, token, https);
        let Lifetime::Permanent { absolute_timeout } = self.lifetime else {
            return cookie.to_string();
        };
        lasting(cookie, issued_at.after(absolute_timeout), now).to_string()
    }

    /// A `Set-Cookie` value that deletes the cookie.
    #[must_use]
    pub fn deletion(&self, name: &str, https: bool) -> String {
        lasting(
            self.cookie(name, "", https),
            Timestamp::UNIX_EPOCH,
            Timestamp::UNIX_EPOCH,
        )
        .to_string()
    }

    fn cookie<'c>(&'c self, name: &'c str, value: &'c str, https: bool) -> Cookie<'c> {
        // No `..`: a new field must be written here.
        let Self {
            path,
            domain,
            secure,
            http_only,
            same_site,
            partitioned,
            lifetime: _,
        } = self;
        let secure = match secure {
            Secure::Auto => https,
            Secure::Always => true,
            Secure::Never => false,
        };
        let mut cookie = Cookie::build((name, value)).path(path.as_str()).same_site(*same_site);
        if let Some(domain) = domain {
            cookie = cookie.domain(domain.as_str());
        }
        // Unset, not false: both write nothing. If unset, the crate derives Secure from SameSite=None and Partitioned,
        // with which the configuration's checks require it.
        if secure {
            cookie = cookie.secure(true);
        }
        if *http_only {
            cookie = cookie.http_only(true);
        }
        if *partitioned {
            cookie = cookie.partitioned(true);
        }
        cookie.build()
    }
}

/// The cookie until `end`, in whole seconds, rounded up: a cookie must not end before its session, and `Max-Age=0`
/// would delete it.
fn lasting(mut cookie: Cookie<'_>, end: Timestamp, now: Timestamp) -> Cookie<'_> {
    let seconds = |millis: u64| i64::try_from(millis.div_ceil(1000)).unwrap_or(i64::MAX);
    let left = end.unix_millis().saturating_sub(now.unix_millis());
    cookie.set_max_age(cookie::time::Duration::seconds(seconds(left)));
    let expires = seconds(end.unix_millis());
    // HTTP has no dates after the year 9999. Max-Age takes precedence anyway.
    if let Ok(expires) = OffsetDateTime::from_unix_timestamp(expires) {
        cookie.set_expires(expires);
    }
    cookie
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie() -> SessionCookie {
        SessionCookie {
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
        cookie.set_cookie("s", "T", second(1000), second(1010), https)
    }

    #[test]
    fn by_default_a_cookie_is_strict_and_http_only() {
        assert_eq!(written(&cookie(), false), "s=T; HttpOnly; SameSite=Strict; Path=/");
        assert_eq!(
            written(&cookie(), true),
            "s=T; HttpOnly; SameSite=Strict; Secure; Path=/"
        );
    }

    #[test]
    fn a_permanent_cookie_lasts_for_the_rest_of_the_timeout() {
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
    fn a_deletion_has_the_same_attributes() {
        let cookie = SessionCookie {
            path: "/shop".into(),
            domain: Some("example.com".into()),
            ..cookie()
        };
        assert_eq!(
            cookie.deletion("s", true),
            "s=; HttpOnly; SameSite=Strict; Secure; Path=/shop; Domain=example.com; \
             Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
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
