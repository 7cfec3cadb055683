//! Sessions that were renamed: their former carriers.

use super::annotations;
use super::persistence::{self, Dialect, Persistence};
use crate::remembered_sessions::{PREFIX, SessionSettings};
use crate::session_fields::SessionFields;
use limpet_api::{Meta, SessionPersistence, Text};

#[derive(Debug)]
pub(super) struct FormerSessions {
    pub(super) overrides: SessionFields,
    settings: SessionSettings,
}

impl FormerSessions {
    /// Reads former sessions, the newest first.
    pub(super) fn read(former: Vec<SessionSettings>) -> Vec<Self> {
        former.into_iter().filter_map(Self::of).collect()
    }

    fn of(settings: SessionSettings) -> Option<Self> {
        let annotations = settings.annotations.iter();
        let annotations = annotations.map(|(name, value)| (format!("{PREFIX}{name}"), value.clone()));
        Some(Self {
            overrides: annotations::read(&annotations.collect()).ok()?,
            settings,
        })
    }

    pub(super) fn persistence(&self) -> Option<Persistence> {
        read(self.settings.session_persistence.as_ref()?)
    }

    pub(super) fn of_rule(&self, rule: &str) -> Option<Persistence> {
        read(self.settings.rules.get(&Text::from(rule))?)
    }
}

/// `rules`: what rules say, each with the last part of its name.
pub(super) fn settings_of_route(
    meta: &Meta,
    rules: impl Iterator<Item = (Text, SessionPersistence)>,
) -> SessionSettings {
    SessionSettings {
        rules: rules.collect(),
        ..SessionSettings::annotated(meta)
    }
}

fn read(persistence: &SessionPersistence) -> Option<Persistence> {
    persistence::read(persistence, Dialect::Named).ok()
}
