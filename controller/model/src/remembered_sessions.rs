//! What objects said of their sessions when that could be followed last.
//!
//! An object that cannot be followed any more keeps these sessions (`stand_in.rs`). So does a policy that an upgrade of
//! the Gateway API takes fields from (`sessions/former.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Map;
use crate::maps::{are_equal, changed};
use limpet_api::{Meta, ObjectRef, PolicyTarget, SessionPersistence, Text};

/// The prefix of all annotations about sessions.
pub(crate) const PREFIX: &str = "session.limpet.dev/";

/// Those of these annotations that are about sessions, without the prefix.
pub(crate) fn session_annotations(all: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    let ours = all.range(PREFIX.to_owned()..);
    ours.map_while(|(key, value)| Some((key.strip_prefix(PREFIX)?, value.as_str())))
}

/// What an object says of its sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SessionSettings {
    /// Its annotations, without the prefix.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<Text, String>,
    /// Of a policy: what it targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) target_refs: Vec<PolicyTarget>,
    /// Of a policy or an `XBackend`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_persistence: Option<SessionPersistence>,
    /// Of a route: that of each rule, by the last part of the rule's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) rules: BTreeMap<Text, SessionPersistence>,
}

/// What is remembered of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RememberedSession {
    /// `<kind>/<namespace>/<name>`.
    pub(crate) object: String,
    /// An object that is created again is another one.
    pub(crate) uid: String,
    /// Its `metadata.generation`.
    #[serde(default)]
    pub(crate) generation: i64,
    #[serde(flatten)]
    pub(crate) settings: SessionSettings,
    /// Whether it counts, because the object does not tell it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) counts: bool,
}

/// By object.
#[derive(Debug, Clone, Default, Eq)]
pub(crate) struct RememberedSessions(Map<String, RememberedSession>);

impl SessionSettings {
    /// What annotations say.
    pub(crate) fn annotated(meta: &Meta) -> Self {
        let ours = session_annotations(&meta.annotations);
        Self {
            annotations: ours.map(|(name, value)| (name.into(), value.to_owned())).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl RememberedSession {
    pub(crate) fn new(object: &ObjectRef, meta: &Meta, settings: SessionSettings, counts: bool) -> Self {
        Self {
            object: object.key(),
            uid: meta.uid.clone(),
            generation: meta.generation,
            settings,
            counts,
        }
    }
}

impl PartialEq for RememberedSessions {
    fn eq(&self, other: &Self) -> bool {
        are_equal(&self.0, &other.0)
    }
}

impl RememberedSessions {
    /// In their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RememberedSession> {
        self.0.values().map(|session| &**session)
    }

    /// The objects that are remembered in another way.
    pub(crate) fn changed<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a String> {
        changed(&self.0, &other.0)
    }

    pub(crate) fn get(&self, object: &str) -> Option<&RememberedSession> {
        self.0.get(object).map(|session| &**session)
    }

    /// What is remembered of this object. One from a file has no uid.
    pub(crate) fn of(&self, object: &ObjectRef, meta: &Meta) -> Option<&RememberedSession> {
        let known = self.get(&object.key());
        known.filter(|known| meta.uid.is_empty() || known.uid == meta.uid)
    }

    /// Takes that of one object over.
    pub(crate) fn copy(&mut self, other: &Self, object: &str) {
        if let Some(session) = other.0.get(object) {
            self.0.insert(object.to_owned(), Arc::clone(session));
        }
    }

    /// Adds those of other objects.
    pub(crate) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn forget(&mut self, object: &str) {
        self.0.remove(object);
    }
}

impl FromIterator<RememberedSession> for RememberedSessions {
    fn from_iter<I: IntoIterator<Item = RememberedSession>>(sessions: I) -> Self {
        let sessions = sessions.into_iter();
        let by_object = sessions.map(|session| (session.object.clone(), Arc::new(session)));
        Self(by_object.collect())
    }
}
