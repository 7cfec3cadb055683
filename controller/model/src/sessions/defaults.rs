//! Checks `sessionDefaults`.

use super::annotations::camel_case;
use super::fault::{Fault, ObjectField};
use super::persistence::{self, Dialect};
use super::policy::Parts;
use crate::Settings;
use crate::session_fields::SessionFields;
use limpet_api::SessionPersistence;

/// Checks that policies can be made with these defaults. Otherwise every object would report a mistake that is not its
/// own.
///
/// # Errors
/// If the filter would refuse a policy with these defaults. The text names the fields and what was expected.
pub fn check(defaults: &SessionFields) -> Result<(), String> {
    let named = SessionPersistence {
        session_name: Some("session".to_owned()),
        ..SessionPersistence::default()
    };
    let draft =
        persistence::read(&named, Dialect::Named, Settings::default().max_session_life).and_then(|persistence| {
            let parts = Parts {
                persistence: &persistence,
                overrides: &SessionFields::default(),
                defaults,
                path: None,
            };
            parts.draft()
        });
    let message = |fault: &Fault| format!("sessionDefaults.{}: {}", field(&fault.place), fault.message);
    draft
        .map(drop)
        .map_err(|faults| faults.iter().map(message).collect::<Vec<_>>().join("; "))
}

fn field(place: &ObjectField) -> String {
    match place {
        ObjectField::Annotation(name) => camel_case(name),
        ObjectField::Persistence(_) | ObjectField::Matches => "mode".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use limpet_core::config::schema::{CookieModeConfig, SameSiteConfig, SecureConfig};

    use super::*;

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
                ..SessionFields::default()
            },
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
        ];
        for (defaults, field) in bad {
            let message = check(&defaults).unwrap_err();
            assert!(message.starts_with(field), "{message}");
        }
    }
}
