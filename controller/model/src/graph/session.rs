//! Whose sessions are kept.

use limpet_api::Text;
use serde::Serialize;

/// Whose the sessions of a route are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Session {
    /// It has none.
    #[default]
    None,
    /// The rule's: a session keeps its destination, whatever the weights are.
    Rule(SessionUse),
    /// The rule's at each destination: the split chooses the destination of every request. A destination's scope has
    /// its cluster ([`limpet_core::scope_of_cluster`]).
    EachDestination(SessionUse),
    /// Each destination's own ([`session`](super::Cluster::session)): the split chooses the destination of every
    /// request.
    Destinations,
}

/// A policy, and the scope that it is used in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionUse {
    /// A name from [`policies`](super::Graph::policies).
    pub policy: Text,
    /// The scope of the tokens: `<kind>/<namespace>/<name>…`.
    pub scope: Text,
}

impl SessionUse {
    /// The namespace in the scope, for fences.
    #[must_use]
    pub fn namespace(&self) -> Text {
        self.scope.split('/').nth(1).unwrap_or_default().into()
    }

    /// The same at the cluster with this base, where each destination has its own sessions.
    #[must_use]
    pub fn at(&self, base: &str) -> Self {
        Self {
            policy: self.policy.clone(),
            scope: format!("{}/{base}", self.scope).into(),
        }
    }
}
