//! Sessions that were renamed: what objects said of the carriers of their sessions before.

use super::annotations;
use super::persistence::{self, Dialect, Persistence};
use crate::remembered_sessions::{PREFIX, SessionSettings};
use crate::session_fields::SessionFields;
use limpet_api::{Meta, SessionPersistence, Text};

/// What an object said of carriers before.
#[derive(Debug)]
pub(super) struct FormerSessions {
    pub(super) overrides: SessionFields,
    settings: SessionSettings,
}

impl FormerSessions {
    /// Former sessions of an object, the newest first.
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

    /// Of a policy or an `XBackend`.
    pub(super) fn persistence(&self) -> Option<Persistence> {
        read(self.settings.session_persistence.as_ref()?)
    }

    /// Of a route's rule with this last part of its name.
    pub(super) fn of_rule(&self, rule: &str) -> Option<Persistence> {
        read(self.settings.rules.get(&Text::from(rule))?)
    }
}

/// What a route says of its sessions. `rules`: what rules say, each with the last part of its name.
pub(super) fn said_of_route(meta: &Meta, rules: impl Iterator<Item = (Text, SessionPersistence)>) -> SessionSettings {
    SessionSettings {
        rules: rules.collect(),
        ..SessionSettings::annotated(meta)
    }
}

fn read(persistence: &SessionPersistence) -> Option<Persistence> {
    persistence::read(persistence, Dialect::Named).ok()
}
