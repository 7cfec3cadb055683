//! Fields that an upgrade of the Gateway API takes from a policy.
//!
//! Release 1.7 has no `sessionName` and no `cookieConfig` in an `XBackendTrafficPolicy`, so the API server leaves them
//! out of older policies, which then ask for other sessions. The object's metadata shows that they were there. Their
//! values come from annotations, else from the memory, else from what kubectl applied last.

use super::field_error::PREFIX;
use crate::remembered_sessions::RememberedSession;
use limpet_api::{CookieSettings, Meta, SessionPersistence};

/// A field of `spec.sessionPersistence` that release 1.7 of the Gateway API took away.
pub const NAME: &str = "sessionName";
/// As [`NAME`]; only cookies have it.
pub const LIFETIME: &str = "cookieConfig.lifetimeType";

/// The annotation that keeps the session's name, on no other kind of object.
pub(super) const KEPT_NAME: &str = "session-name";
/// Annotations that keep what the fields say, with the fields.
const KEPT: [(&str, &str); 2] = [(KEPT_NAME, NAME), ("lifetime-type", LIFETIME)];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RestoredPersistence {
    pub(super) persistence: SessionPersistence,
    pub(super) lost: Option<LostFields>,
    /// The restored fields and their origins.
    pub(super) from: Vec<(&'static str, RestoredFrom)>,
    /// Whether the annotation with the name has no effect, because the object says otherwise.
    pub(super) has_other_name: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestoredFrom {
    Annotation,
    /// What was remembered, or what kubectl applied last.
    Memory,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LostFields {
    /// Fields whose values are known.
    known: Vec<String>,
    /// The others. Sessions have restarted.
    unknown: Vec<&'static str>,
}

/// Restores what an upgrade took. The object's own fields count first. The annotation of the lifetime is read with all
/// others.
pub(super) fn restored(
    persistence: &SessionPersistence,
    meta: &Meta,
    remembered: Option<&RememberedSession>,
) -> RestoredPersistence {
    let mut restored = persistence.clone();
    let remembered = remembered.and_then(|known| known.settings.session_persistence.as_ref());
    let mut lost = LostFields::default();
    let mut from = Vec::new();
    for (annotation, field) in KEPT {
        let kept = meta.annotations.get(&format!("{PREFIX}{annotation}"));
        let found = field_of(persistence, field);
        let is_pruned = found.is_none() && meta.pruned.contains_key(field);
        let value = match (&found, kept) {
            (None, Some(_)) if field == LIFETIME => continue,
            (None, Some(kept)) => Some(kept.clone()),
            (None, None) if is_pruned => {
                let remembered = remembered.and_then(|known| field_of(known, field));
                // What kubectl applied last lacks later changes by other ways.
                remembered.or_else(|| meta.pruned.get(field).cloned().flatten())
            }
            (Some(_), _) | (None, None) => continue,
        };
        match &value {
            Some(value) => {
                set(&mut restored, field, value);
                let is_kept = kept.is_some();
                from.push((
                    field,
                    if is_kept {
                        RestoredFrom::Annotation
                    } else {
                        RestoredFrom::Memory
                    },
                ));
                if kept.is_none() {
                    lost.known.push(format!("{field} {value}"));
                }
            }
            None => lost.unknown.push(field),
        }
    }
    let kept_name = meta.annotations.get(&format!("{PREFIX}{KEPT_NAME}"));
    let name = field_of(persistence, NAME);
    let has_other_name = name.is_some() && kept_name.is_some() && name.as_ref() != kept_name;
    let is_lost = !lost.known.is_empty() || !lost.unknown.is_empty();
    RestoredPersistence {
        persistence: restored,
        lost: is_lost.then_some(lost),
        from,
        has_other_name,
    }
}

/// Reads either shape.
fn field_of(persistence: &SessionPersistence, field: &str) -> Option<String> {
    let cookie = persistence.cookie.as_ref();
    if field == NAME {
        let union = cookie.and_then(|cookie| cookie.name.clone());
        let union = union.or_else(|| persistence.header.as_ref()?.name.clone());
        return persistence.session_name.clone().or(union);
    }
    let cookie = cookie.or(persistence.cookie_config.as_ref());
    cookie.and_then(|cookie| cookie.lifetime_type.clone())
}

fn set(persistence: &mut SessionPersistence, field: &str, value: &str) {
    let value = Some(value.to_owned());
    match (&mut persistence.cookie, field == NAME) {
        (Some(cookie), true) => cookie.name = value,
        (Some(cookie), false) => cookie.lifetime_type = value,
        (None, true) => persistence.session_name = value,
        (None, false) => {
            let cookie = persistence.cookie_config.get_or_insert_with(CookieSettings::default);
            cookie.lifetime_type = value;
        }
    }
}

impl LostFields {
    /// Whether sessions have restarted.
    pub(super) fn has_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }
}

impl std::fmt::Display for LostFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = self
            .known
            .iter()
            .map(String::as_str)
            .chain(self.unknown.iter().copied());
        let fields: Vec<&str> = fields.collect();
        write!(
            f,
            "the definition of the kind has changed, and what spec.sessionPersistence had is left out: {}; ",
            fields.join(", ")
        )?;
        if self.unknown.is_empty() {
            write!(f, "the sessions go on, because this is known")?;
        } else {
            let unknown = self.unknown.join(" and ");
            write!(f, "{unknown} cannot be known, so new sessions have begun")?;
        }
        write!(
            f,
            ": run `limpet migrate policies -A --write`, or write the policy again, with session.limpet.dev/split: keep"
        )
    }
}
