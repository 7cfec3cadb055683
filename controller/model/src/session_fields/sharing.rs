//! Which rules share a session, and whether it stays at its backend of a split.

use serde::{Deserialize, Serialize};

use super::values::{ValueError, yaml};

/// The longest name of a scope, as for a label.
const MAX_NAME: usize = 63;

/// Which rules share a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionScope {
    /// None: each rule has its own sessions.
    #[default]
    Rule,
    /// Rules of a namespace that lead to one port of a Service.
    Service,
    /// Rules of a namespace with this name.
    Name(ScopeName),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: ScopeName,
}

pub(crate) fn scope(text: &str) -> Result<SessionScope, ValueError> {
    match text {
        "rule" => Ok(SessionScope::Rule),
        "service" => Ok(SessionScope::Service),
        text => yaml(text).map(|Named { name }| SessionScope::Name(name)),
    }
}

/// A name within a namespace: 1 to 63 letters, digits, `-`, `_` and `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ScopeName(String);

impl ScopeName {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ScopeName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_legal) {
            return Err(format!("expected 1 to {MAX_NAME} letters, digits, -, _ and ."));
        }
        Ok(Self(name))
    }
}

/// What becomes of a session where a rule leads to several backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionSplit {
    /// It stays at its backend, whatever the weights are: GEP-1619 up to release 1.6.
    Keep,
    /// The weights choose the backend of every request, with a session at each: GEP-1619 from release 1.7 on.
    Choose,
}
