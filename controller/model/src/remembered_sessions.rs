//! The sessions of objects when they could be followed last; also that a route had none while others gave it sessions.
//!
//! An object that cannot be followed any more keeps them (`stand_in.rs`). So does a policy that an upgrade of the
//! Gateway API takes fields from (`sessions/former.rs`). Sessions that an object renames continue by their former
//! names.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Map;
use crate::maps::{are_equal, changed};
use limpet_api::{Meta, Object, ObjectRef, PolicyTarget, SessionPersistence, Text, XBackendSpec};

/// Former names of a session that count. Each is looked for in every request.
const MAX_FORMER: usize = 2;
/// Rules of a route whose former names are remembered. A route has at most 16.
const MAX_FORMER_RULES: usize = 32;
/// Annotations that decide which carrier a session has.
const OF_CARRIERS: [&str; 3] = ["mode", "query", "source"];

pub(crate) const PREFIX: &str = "session.limpet.dev/";

/// The annotations about sessions, without the prefix.
pub(crate) fn session_annotations(all: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    let ours = all.range(PREFIX.to_owned()..);
    ours.map_while(|(key, value)| Some((key.strip_prefix(PREFIX)?, value.as_str())))
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SessionSettings {
    /// Without the prefix.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<Text, String>,
    /// Of a policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) target_refs: Vec<PolicyTarget>,
    /// Of a policy or an `XBackend`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_persistence: Option<SessionPersistence>,
    /// Of a route: each rule's, by the last part of the rule's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) rules: BTreeMap<Text, SessionPersistence>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RememberedSession {
    /// `<kind>/<namespace>/<name>`.
    pub(crate) object: String,
    /// An object that is created again is another one.
    pub(crate) uid: String,
    /// Its `metadata.generation`, except for an object that said nothing, which each change would write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<i64>,
    #[serde(flatten)]
    pub(crate) settings: SessionSettings,
    /// Former settings of carriers, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) former: Vec<SessionSettings>,
    /// Whether it counts, because the object does not say it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) counts: bool,
}

#[derive(Debug, Clone, Default, Eq)]
pub(crate) struct RememberedSessions(Map<String, RememberedSession>);

impl SessionSettings {
    pub(crate) fn annotated(meta: &Meta) -> Self {
        let ours = session_annotations(&meta.annotations);
        Self {
            annotations: ours.map(|(name, value)| (name.into(), value.to_owned())).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn of_backend(object: &Object<XBackendSpec>) -> Self {
        Self {
            session_persistence: object.spec.session_persistence.clone(),
            ..Self::annotated(&object.meta)
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The part that decides which carriers sessions have, and their names.
    fn of_carriers(&self) -> Self {
        let annotations = self.annotations.iter();
        let annotations = annotations.filter(|(name, _)| OF_CARRIERS.contains(&name.as_str()));
        let rules = self.rules.iter();
        Self {
            annotations: annotations.map(|(name, value)| (name.clone(), value.clone())).collect(),
            target_refs: Vec::new(),
            session_persistence: self.session_persistence.as_ref().map(of_carrier),
            rules: rules
                .map(|(rule, persistence)| (rule.clone(), of_carrier(persistence)))
                .collect(),
        }
    }

    fn other_than(mut self, now: &Self) -> Self {
        self.rules
            .retain(|rule, persistence| now.rules.get(rule) != Some(persistence));
        self
    }

    /// Whether it says something for other rules only, so that both can be one.
    fn is_of_others(&self, other: &Self) -> bool {
        let is_of_rules = !self.rules.is_empty() && self.session_persistence.is_none();
        let total = self.rules.len() + other.rules.len();
        is_of_rules
            && self.annotations == other.annotations
            && total <= MAX_FORMER_RULES
            && self.rules.keys().all(|rule| !other.rules.contains_key(rule))
    }
}

/// The carrier and its name, in the shape that all kinds had first.
fn of_carrier(persistence: &SessionPersistence) -> SessionPersistence {
    let name = persistence.session_name.as_ref();
    let name = name.or_else(|| persistence.cookie.as_ref()?.name.as_ref());
    SessionPersistence {
        session_name: name.or_else(|| persistence.header.as_ref()?.name.as_ref()).cloned(),
        kind: persistence.kind.clone().filter(|kind| kind != "Cookie"),
        ..SessionPersistence::default()
    }
}

impl RememberedSession {
    pub(crate) fn new(object: &ObjectRef, meta: &Meta, settings: SessionSettings, counts: bool) -> Self {
        Self {
            object: object.key(),
            uid: meta.uid.clone(),
            generation: (!settings.is_empty()).then_some(meta.generation),
            settings,
            former: Vec::new(),
            counts,
        }
    }

    /// Former settings of carriers, the newest first. They stay the same when this is remembered.
    pub(crate) fn former(&self, now: &SessionSettings) -> Vec<SessionSettings> {
        let (known, now) = (self.settings.of_carriers(), now.of_carriers());
        let mut former = self.former.clone();
        // If it said nothing, its annotations of now change the carriers of a policy's sessions.
        let had_sessions = !self.settings.is_empty() || !now.annotations.is_empty();
        if known != now && had_sessions {
            let known = known.other_than(&now);
            match former.first_mut() {
                Some(newest) if known.is_of_others(newest) => newest.rules.extend(known.rules),
                _ => former.insert(0, known),
            }
        }
        former.truncate(MAX_FORMER);
        former
    }
}

impl PartialEq for RememberedSessions {
    fn eq(&self, other: &Self) -> bool {
        are_equal(&self.0, &other.0)
    }
}

impl RememberedSessions {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RememberedSession> {
        self.0.values().map(|session| &**session)
    }

    pub(crate) fn changed<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a String> {
        changed(&self.0, &other.0)
    }

    pub(crate) fn get(&self, object: &str) -> Option<&RememberedSession> {
        self.0.get(object).map(|session| &**session)
    }

    /// An object from a file has no uid.
    pub(crate) fn of(&self, object: &ObjectRef, meta: &Meta) -> Option<&RememberedSession> {
        let known = self.get(&object.key());
        known.filter(|known| meta.uid.is_empty() || known.uid == meta.uid)
    }

    /// Former settings of carriers, the newest first. Most objects are not remembered, and are not asked.
    pub(crate) fn former(
        &self,
        object: &ObjectRef,
        meta: &Meta,
        now: impl FnOnce() -> SessionSettings,
    ) -> Vec<SessionSettings> {
        let known = self.of(object, meta);
        known.map(|known| known.former(&now())).unwrap_or_default()
    }

    pub(crate) fn copy(&mut self, other: &Self, object: &str) {
        if let Some(session) = other.0.get(object) {
            self.0.insert(object.to_owned(), Arc::clone(session));
        }
    }

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
