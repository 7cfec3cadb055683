//! A cookie of the filter's own, as a response sets it.

use std::time::Duration;

use cookie::Cookie;
use cookie::time::OffsetDateTime;

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
    /// The value of a `Set-Cookie` field that carries `token` under `name`, issued at `issued_at`.
    #[must_use]
    pub fn set_cookie(&self, name: &str, token: &str, issued_at: Timestamp, now: Timestamp, https: bool) -> String {
        let cookie = self.cookie(name, token, https);
        let Lifetime::Permanent { absolute_timeout } = self.lifetime else {
            return cookie.to_string();
        };
        lasting(cookie, issued_at.after(absolute_timeout), now).to_string()
    }

    /// The value of a `Set-Cookie` field that deletes the cookie called `name`.
    #[must_use]
    pub fn deletion(&self, name: &str, https: bool) -> String {
        lasting(
            self.cookie(name, "", https),
            Timestamp::UNIX_EPOCH,
            Timestamp::UNIX_EPOCH,
        )
        .to_string()
    }

    /// A cookie for as long as the browser's session.
    fn cookie<'c>(&'c self, name: &'c str, value: &'c str, https: bool) -> Cookie<'c> {
        // No `..`: a new field does not compile until it is written here.
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
        // Unset rather than false: the crate writes nothing for either, and derives nothing from what is unset here,
        // because configuration refuses SameSite=None and Partitioned without Secure.
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

/// The cookie until `end`.
fn lasting(mut cookie: Cookie<'_>, end: Timestamp, now: Timestamp) -> Cookie<'_> {
    let left = i64::try_from(end.since(now).as_secs()).unwrap_or(i64::MAX);
    cookie.set_max_age(cookie::time::Duration::seconds(left));
    let expires = i64::try_from(end.unix_seconds()).unwrap_or(i64::MAX);
    // Past the year 9999 HTTP has no date for it; Max-Age, which takes precedence, still says it.
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
    fn a_deletion_has_the_same_attributes() {
        let cookie = SessionCookie {
            path: "/shop".into(),
            domain: Some("example.com".into()),
            ..cookie()
        };
        assert_eq!(
            cookie.deletion("s", true),
            "s=; HttpOnly; SameSite=Strict; Secure; Path=/shop; Domain=example.com; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
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
