use cookie::SameSite;

use super::schema::{
    CookieConfig, CookieModeConfig, HeaderConfig, HeaderModeConfig, LifetimeTypeConfig, SameSiteConfig, SecureConfig,
};
use super::{Carrier, Problem, header_names};
use crate::carrier::cookie::{Lifetime, Secure, SessionCookie};
use crate::time::GatewayDuration;

/// The limits of GEP-1619 (release 1.7.0) for a session name, and for a cookie path.
const MAX_NAME_LEN: usize = 256;
const MAX_PATH_LEN: usize = 1024;

/// The name must be a `token` of RFC 9110.
pub(super) fn name_problem(of: &str, name: &str) -> Option<String> {
    let is_tchar = |c: &char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(*c);
    let count = name.chars().count();
    let found = match name.chars().find(|c| !is_tchar(c)) {
        _ if name.is_empty() => "none".to_owned(),
        _ if count > MAX_NAME_LEN => format!("{count} characters"),
        Some(wrong) => format!("{name:?} with {wrong:?}"),
        None => return None,
    };
    Some(format!(
        "expected a {of} name: 1 to {MAX_NAME_LEN} letters, digits or !#$%&'*+-.^_`|~, found {found}"
    ))
}

/// Checks a cookie and adds to `problems`.
pub(super) fn cookie(
    field: &str,
    config: &CookieConfig,
    absolute_timeout: Option<GatewayDuration>,
    problems: &mut Vec<Problem>,
) -> Carrier {
    let mut expect = |holds: bool, name: &str, message: &str| {
        if !holds {
            problems.push(Problem {
                field: format!("{field}.{name}"),
                message: message.to_owned(),
            });
        }
    };
    if let Some(message) = name_problem("cookie", &config.name) {
        expect(false, "name", &message);
    }
    let name = config.name.clone();
    match config.mode {
        CookieModeConfig::Insert => {
            check_own_cookie(config, absolute_timeout, &mut expect);
            Carrier::Cookie {
                name,
                cookie: session_cookie(config, absolute_timeout),
                per_scope: config.per_scope,
                forward: config.forward,
            }
        }
        CookieModeConfig::Prefix => {
            check_applications_cookie(config, &mut expect);
            Carrier::CookiePrefix { name }
        }
        CookieModeConfig::Rewrite => {
            check_applications_cookie(config, &mut expect);
            Carrier::CookieRewrite { name }
        }
    }
}

/// How responses set the cookie, without checks.
#[must_use]
pub fn session_cookie(config: &CookieConfig, absolute_timeout: Option<GatewayDuration>) -> SessionCookie {
    // No `..`: a new field must be handled here.
    let CookieConfig {
        name: _,
        mode: _,
        path,
        domain,
        secure,
        http_only,
        same_site,
        partitioned,
        lifetime_type,
        per_scope: _,
        forward: _,
    } = config;
    SessionCookie {
        path: path.clone(),
        domain: domain.clone(),
        secure: match secure {
            SecureConfig::Auto => Secure::Auto,
            SecureConfig::Always => Secure::Always,
            SecureConfig::Never => Secure::Never,
        },
        http_only: *http_only,
        same_site: match same_site {
            SameSiteConfig::Strict => SameSite::Strict,
            SameSiteConfig::Lax => SameSite::Lax,
            SameSiteConfig::None => SameSite::None,
        },
        partitioned: *partitioned,
        lifetime: match (lifetime_type, absolute_timeout) {
            (LifetimeTypeConfig::Permanent, Some(timeout)) => Lifetime::Permanent {
                absolute_timeout: timeout.get(),
            },
            _ => Lifetime::Session,
        },
    }
}

/// All fields but name and mode must keep their defaults: the application's cookie has its own attributes.
fn check_applications_cookie(config: &CookieConfig, expect: &mut dyn FnMut(bool, &str, &str)) {
    let default = CookieConfig::named(&config.name);
    // No `..`: as above.
    let CookieConfig {
        name: _,
        mode: _,
        path,
        domain,
        secure,
        http_only,
        same_site,
        partitioned,
        lifetime_type,
        per_scope,
        forward,
    } = config;
    for (is_default, name) in [
        (*path == default.path, "path"),
        (*domain == default.domain, "domain"),
        (*secure == default.secure, "secure"),
        (*http_only == default.http_only, "httpOnly"),
        (*same_site == default.same_site, "sameSite"),
        (*partitioned == default.partitioned, "partitioned"),
        (*lifetime_type == default.lifetime_type, "lifetimeType"),
        (*per_scope == default.per_scope, "perScope"),
        (*forward == default.forward, "forward"),
    ] {
        let message =
            "remove it in this mode: the cookie is the application's, which sets its attributes and gets it back";
        expect(is_default, name, message);
    }
}

/// Checks the filter's own cookie. `expect` takes whether a rule holds, the field, and the message.
fn check_own_cookie(
    config: &CookieConfig,
    absolute_timeout: Option<GatewayDuration>,
    expect: &mut dyn FnMut(bool, &str, &str),
) {
    let always = config.secure == SecureConfig::Always;
    check_prefix(config, expect);
    let is_attribute = |value: &str| {
        value
            .bytes()
            .all(|b| (0x21..0x7f).contains(&b) && b != b';' && b != b',')
    };
    expect(
        config.path.starts_with('/') && config.path.len() <= MAX_PATH_LEN && is_attribute(&config.path),
        "path",
        "expected a path: it begins with /, has at most 1024 characters, \
         and none of space, comma, semicolon or beyond ASCII",
    );
    if let Some(domain) = &config.domain {
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        expect(
            domain.len() <= 253 && domain.split('.').all(is_label),
            "domain",
            "expected a domain name like example.com, without a leading dot",
        );
    }
    expect(
        config.same_site != SameSiteConfig::None || always,
        "secure",
        "set it to always: browsers drop a cookie with sameSite None that is not Secure",
    );
    expect(
        !config.partitioned || always,
        "secure",
        "set it to always: browsers drop a partitioned cookie that is not Secure",
    );
    expect(
        config.lifetime_type == LifetimeTypeConfig::Session || absolute_timeout.is_some(),
        "lifetimeType",
        "expected Session, or an absoluteTimeout in the policy, \
         because a Permanent cookie lasts for what is left of it",
    );
}

/// Checks what the prefix of a cookie's name demands (RFC 6265bis section 4.1.3).
fn check_prefix(config: &CookieConfig, expect: &mut dyn FnMut(bool, &str, &str)) {
    let always = config.secure == SecureConfig::Always;
    // Browsers ignore the case of the prefixes.
    let prefixed = |prefix: &str| {
        let start = config.name.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    if prefixed("__Host-") {
        expect(always, "secure", "set it to always: the name begins with __Host-");
        expect(config.path == "/", "path", "set it to /: the name begins with __Host-");
        let has_none = config.domain.is_none();
        expect(has_none, "domain", "remove it: the name begins with __Host-");
    } else if prefixed("__Secure-") {
        expect(always, "secure", "set it to always: the name begins with __Secure-");
    }
}

pub(super) fn header_name_problem(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let reserved = || {
        let owner = header_names::owner(&lower)?;
        Some(format!(
            "expected a header that nothing else uses, found {name:?}: {owner}"
        ))
    };
    name_problem("header", &lower).or_else(reserved)
}

/// Checks a header and adds to `problems`.
pub(super) fn header(field: &str, config: &HeaderConfig, problems: &mut Vec<Problem>) -> Carrier {
    let mut problem = |name: &str, message: &str| {
        problems.push(Problem {
            field: format!("{field}.{name}"),
            message: message.to_owned(),
        });
    };
    let name = config.name.to_ascii_lowercase();
    if let Some(message) = header_name_problem(&config.name) {
        problem("name", &message);
    }
    match config.mode {
        HeaderModeConfig::Insert => Carrier::Header {
            name,
            forward: config.forward,
        },
        HeaderModeConfig::Prefix => {
            if config.forward {
                problem(
                    "forward",
                    "remove it in this mode: the application gets its own header back",
                );
            }
            Carrier::HeaderPrefix { name }
        }
    }
}
