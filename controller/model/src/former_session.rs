//! What is remembered of the sessions of a policy.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Map;
use crate::maps::{are_equal, changed};
use limpet_api::Meta;

/// The fields of `spec.sessionPersistence` that release 1.7 of the Gateway API took away.
pub const NAME: &str = "sessionName";
/// Only cookies have it.
pub const LIFETIME: &str = "cookieConfig.lifetimeType";

/// The name and the lifetime of the sessions of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FormerSession {
    /// `<namespace>/<name>` of an `XBackendTrafficPolicy`.
    policy: String,
    uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime_type: Option<String>,
}

/// By policy.
#[derive(Debug, Clone, Default, Eq)]
pub(crate) struct FormerSessions(Map<String, FormerSession>);

impl PartialEq for FormerSessions {
    fn eq(&self, other: &Self) -> bool {
        are_equal(&self.0, &other.0)
    }
}

impl FormerSessions {
    /// In their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &FormerSession> {
        self.0.values().map(|session| &**session)
    }

    /// The policies that are remembered in another way.
    pub(crate) fn changed<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a String> {
        changed(&self.0, &other.0)
    }

    pub(crate) fn policy(&self, policy: &str) -> Option<&FormerSession> {
        self.0.get(policy).map(|session| &**session)
    }

    /// Takes that of one policy over.
    pub(crate) fn copy(&mut self, other: &Self, policy: &str) {
        if let Some(session) = other.0.get(policy) {
            self.0.insert(policy.to_owned(), Arc::clone(session));
        }
    }

    /// Adds those of other policies.
    pub(crate) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn forget(&mut self, policy: &str) {
        self.0.remove(policy);
    }

    pub(crate) fn of(&self, meta: &Meta) -> Option<&FormerSession> {
        let known = self.0.get(&meta.object_name().to_string())?;
        (meta.uid.is_empty() || known.uid == meta.uid).then_some(known)
    }
}

impl FromIterator<FormerSession> for FormerSessions {
    fn from_iter<I: IntoIterator<Item = FormerSession>>(sessions: I) -> Self {
        Self(
            sessions
                .into_iter()
                .map(|session| (session.policy.clone(), Arc::new(session)))
                .collect(),
        )
    }
}

impl FormerSession {
    pub(crate) fn new(policy: &str, uid: &str, session_name: Option<&str>, lifetime_type: Option<&str>) -> Self {
        Self {
            policy: policy.to_owned(),
            uid: uid.to_owned(),
            session_name: session_name.map(str::to_owned),
            lifetime_type: lifetime_type.map(str::to_owned),
        }
    }

    pub(crate) fn policy(&self) -> &str {
        &self.policy
    }

    /// What the field was.
    pub(crate) fn field(&self, field: &str) -> Option<&str> {
        let value = if field == NAME {
            &self.session_name
        } else {
            &self.lifetime_type
        };
        value.as_deref()
    }
}
