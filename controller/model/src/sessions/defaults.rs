//! What sessions are like where no object says anything else.

use super::annotations::Overrides;
use super::fault::{Fault, Place};
use super::persistence::{self, Dialect};
use super::policy::Parts;
use crate::SessionDefaults;
use limpet_api::SessionPersistence;

/// That policies can be made with these defaults: otherwise every object would be told of a mistake that is not its own.
///
/// # Errors
/// The fields that are at fault, and what was expected.
pub fn check(defaults: &SessionDefaults) -> Result<(), String> {
    let named = SessionPersistence {
        session_name: Some("session".to_owned()),
        ..SessionPersistence::default()
    };
    let draft = persistence::read(&named, Dialect::Named).and_then(|persistence| {
        let parts = Parts {
            persistence: &persistence,
            overrides: &Overrides::default(),
            defaults,
            forward: defaults.forward,
            path: None,
        };
        parts.draft()
    });
    let message = |fault: &Fault| format!("sessionDefaults.{}: {}", field(&fault.place), fault.message);
    draft
        .map(drop)
        .map_err(|faults| faults.iter().map(message).collect::<Vec<_>>().join("; "))
}

/// Annotations have the fields' names, `same-site` for `sameSite`.
fn field(place: &Place) -> String {
    let Place::Annotation(name) = place else {
        return "mode".to_owned();
    };
    let mut words = name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut field, word| {
        let mut letters = word.chars();
        field.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        field.push_str(letters.as_str());
        field
    })
}

#[cfg(test)]
mod tests {
    use limpet_core::config::schema::{CookieModeConfig, SameSiteConfig, SecureConfig};

    use super::*;

    #[test]
    fn defaults_that_fit_together_are_taken() {
        let good = [
            SessionDefaults::default(),
            SessionDefaults {
                same_site: SameSiteConfig::None,
                secure: SecureConfig::Always,
                partitioned: true,
                ..SessionDefaults::default()
            },
            SessionDefaults {
                mode: CookieModeConfig::Prefix,
                ..SessionDefaults::default()
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
                SessionDefaults {
                    same_site: SameSiteConfig::None,
                    ..SessionDefaults::default()
                },
                "sessionDefaults.secure: ",
            ),
            (
                SessionDefaults {
                    strict_status: Some(200),
                    ..SessionDefaults::default()
                },
                "sessionDefaults.strictStatus: ",
            ),
            (
                SessionDefaults {
                    domain: Some("a b".to_owned()),
                    ..SessionDefaults::default()
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
