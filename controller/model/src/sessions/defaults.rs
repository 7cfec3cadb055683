//! Checks `sessionDefaults`.

use super::annotations::camel_case;
use super::field_error::{ObjectField, SessionFieldError};
use super::persistence::{self, Dialect};
use super::policy::PolicyInputs;
use crate::SessionLimits;
use crate::session_fields::{SessionFields, ValueOrNone};
use limpet_api::SessionPersistence;
use limpet_core::config::schema::CookieModeConfig;

/// Checks that policies can be made with these defaults and limits. If not, every object would report the mistake.
///
/// # Errors
/// The fields for which the filter would refuse a policy, and what was expected.
pub fn check(defaults: &SessionFields, limits: SessionLimits) -> Result<(), String> {
    let is_own = defaults.mode.unwrap_or_default() == CookieModeConfig::Insert;
    if defaults.in_place_of_cookie().is_some() && !is_own {
        return Err("sessionDefaults.mode: expected insert, or none, with query or source".to_owned());
    }
    if let (Some(ValueOrNone(Some(_))), Some(ValueOrNone(Some(_)))) = (&defaults.query, &defaults.source) {
        return Err("sessionDefaults.source: remove it with query".to_owned());
    }
    let named = SessionPersistence {
        session_name: Some("session".to_owned()),
        ..SessionPersistence::default()
    };
    let draft = persistence::read(&named, Dialect::Named).and_then(|persistence| {
        let parts = PolicyInputs {
            persistence: &persistence,
            overrides: &SessionFields::default(),
            of_route: None,
            defaults,
            path: None,
            limits,
        };
        parts.draft()
    });
    let message = |fault: &SessionFieldError| format!("sessionDefaults.{}: {}", field(&fault.place), fault.message);
    draft
        .map(drop)
        .map_err(|faults| faults.iter().map(message).collect::<Vec<_>>().join("; "))
}

fn field(place: &ObjectField) -> String {
    match place {
        ObjectField::Annotation(name) | ObjectField::Default(name) => camel_case(name),
        ObjectField::Persistence("") | ObjectField::Matches => "mode".to_owned(),
        ObjectField::Persistence(field) => (*field).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use limpet_core::config::schema::{CookieModeConfig, LifetimeTypeConfig, SameSiteConfig, SecureConfig};
    use limpet_core::time::GatewayDuration;
    use serde_json::{Value, json};

    use super::*;
    use crate::CookiePath;

    fn hours(hours: u64) -> GatewayDuration {
        Duration::from_secs(hours * 3600).into()
    }

    fn check(defaults: &SessionFields) -> Result<(), String> {
        let limits = SessionLimits {
            life: hours(24),
            ..SessionLimits::default()
        };
        super::check(defaults, limits)
    }

    fn fields(json: Value) -> SessionFields {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn defaults_that_fit_together_are_taken() {
        let good = [
            SessionFields::default(),
            SessionFields {
                same_site: Some(SameSiteConfig::None),
                secure: Some(SecureConfig::Always),
                partitioned: Some(true),
                ..SessionFields::default()
            },
            SessionFields {
                mode: Some(CookieModeConfig::Prefix),
                idle_timeout: Some(hours(1)),
                ..SessionFields::default()
            },
            SessionFields {
                lifetime_type: Some(LifetimeTypeConfig::Permanent),
                absolute_timeout: Some(hours(24)),
                ..SessionFields::default()
            },
            fields(json!({"query": {"name": "s", "redirects": true}, "source": "none", "sameSite": "Lax"})),
            fields(json!({"source": {}, "query": "none", "token": "signed", "idleTimeout": "1h"})),
            fields(json!({"also": [{"query": {"name": "s"}}], "tell": {"header": {"name": "x-s"}}})),
            fields(json!({"also": [], "tell": "none", "mode": "prefix"})),
        ];
        for defaults in good {
            assert_eq!(check(&defaults), Ok(()), "{defaults:?}");
        }
    }

    #[test]
    fn a_default_that_no_policy_can_have_is_named() {
        let bad = [
            (
                SessionFields {
                    same_site: Some(SameSiteConfig::None),
                    ..SessionFields::default()
                },
                "sessionDefaults.secure: ",
            ),
            (
                SessionFields {
                    strict_status: Some(200),
                    ..SessionFields::default()
                },
                "sessionDefaults.strictStatus: ",
            ),
            (
                SessionFields {
                    domain: Some("a b".to_owned()),
                    ..SessionFields::default()
                },
                "sessionDefaults.domain: ",
            ),
            (
                SessionFields {
                    lifetime_type: Some(LifetimeTypeConfig::Permanent),
                    ..SessionFields::default()
                },
                "sessionDefaults.absoluteTimeout: expected a duration, because the cookie's lifetimeType is Permanent",
            ),
            (
                SessionFields {
                    idle_timeout: Some(hours(25)),
                    ..SessionFields::default()
                },
                "sessionDefaults.idleTimeout: expected at most 24h, the maxSessionLife of the controller's \
                 configuration, found 25h",
            ),
            (
                SessionFields {
                    absolute_timeout: Some(hours(0)),
                    ..SessionFields::default()
                },
                "sessionDefaults.absoluteTimeout: expected a duration greater than zero",
            ),
            (
                SessionFields {
                    path: Some(CookiePath::At("/a;b".to_owned())),
                    ..SessionFields::default()
                },
                "sessionDefaults.path: expected a path",
            ),
            (
                fields(json!({"tell": {"header": {"name": "x-limpet-session"}}})),
                "sessionDefaults.tell: header.name: expected",
            ),
            (
                fields(json!({"also": [{"header": {"name": "x-a"}}, {"header": {"name": "X-A"}}]})),
                "sessionDefaults.also: [1].header.name: expected each carrier once",
            ),
            (
                fields(json!({"query": {"name": "s"}})),
                "sessionDefaults.tell: expected a header, or redirects: true in query",
            ),
            (
                fields(json!({"source": {"timeout": "25h"}})),
                "sessionDefaults.source: timeout: expected at most 24h",
            ),
            (
                fields(json!({"source": {}, "query": {"name": "s", "redirects": true}})),
                "sessionDefaults.source: remove it with query",
            ),
            (
                fields(json!({"source": {}, "mode": "prefix"})),
                "sessionDefaults.mode: expected insert, or none, with query or source",
            ),
        ];
        for (defaults, field) in bad {
            let message = check(&defaults).unwrap_err();
            assert!(message.starts_with(field), "{message}");
        }
    }
}
