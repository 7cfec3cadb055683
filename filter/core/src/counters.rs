//! The counters of a configuration, and which of them counts an outcome.

use std::collections::BTreeMap;

use crate::keyring::{KeyId, Keyring};
use crate::outcome::{self, KeyOutcome, RequestOutcome, ResponseOutcome};
use crate::plan::KeyChange;
use crate::{Filter, SessionError};

/// The proxy's handle for each counter.
#[derive(Debug)]
pub struct Counters<Handle> {
    /// By [`Session::policy_index`](crate::Session::policy_index).
    policies: Vec<PolicyCounters<Handle>>,
    /// Empty where the keyring is in a secret, which may change without a configuration.
    keys: BTreeMap<KeyId, KeyCounters<Handle>>,
    host_errors: Handle,
    unknown_sessions: Handle,
    no_keys: Handle,
    refused_secrets: Handle,
    unknown_route_configs: Handle,
}

/// Those of outcomes are by their index.
#[derive(Debug)]
struct PolicyCounters<Handle> {
    requests: Vec<Handle>,
    responses: Vec<Handle>,
    name_conflicts: Handle,
    /// `None` without a table.
    evicted: Option<Handle>,
    /// `None` if the application moves no sessions.
    refused_moves: Option<Handle>,
}

#[derive(Debug)]
struct KeyCounters<Handle> {
    is_revoked: bool,
    /// By the index in [`KeyOutcome::ALL`].
    outcomes: Vec<Handle>,
}

impl<Handle> Counters<Handle> {
    /// Defines all counters, so that each is 0 from the start. `define` takes the name of a counter.
    ///
    /// # Errors
    /// If `define` fails, with its first error.
    pub fn define<E>(filter: &Filter, define: impl Fn(&str) -> Result<Handle, E>) -> Result<Self, E> {
        let policies = filter.policies().map(|policy| {
            let of_word = |word| define(&outcome::counter_name(policy, word));
            let requests = RequestOutcome::all().map(RequestOutcome::word);
            let responses = ResponseOutcome::COUNTED.into_iter().filter_map(ResponseOutcome::word);
            Ok(PolicyCounters {
                requests: requests.map(of_word).collect::<Result<_, E>>()?,
                responses: responses.map(of_word).collect::<Result<_, E>>()?,
                name_conflicts: of_word(outcome::NAME_CONFLICTS)?,
                evicted: filter
                    .has_table(policy)
                    .then(|| of_word(outcome::EVICTED))
                    .transpose()?,
                refused_moves: filter
                    .has_moves(policy)
                    .then(|| of_word(outcome::REFUSED_MOVES))
                    .transpose()?,
            })
        });
        let keys = filter.keyring().into_iter().flat_map(Keyring::ids);
        let keys = keys.map(|(id, is_revoked)| {
            let outcomes = KeyOutcome::ALL.into_iter();
            let outcomes = outcomes.map(|outcome| define(&outcome::key_counter_name(id, outcome)));
            let outcomes = outcomes.collect::<Result<_, E>>()?;
            Ok((id, KeyCounters { is_revoked, outcomes }))
        });
        Ok(Self {
            keys: keys.collect::<Result<_, E>>()?,
            policies: policies.collect::<Result<_, E>>()?,
            host_errors: define(outcome::HOST_ERRORS)?,
            unknown_sessions: define(outcome::UNKNOWN_SESSIONS)?,
            no_keys: define(outcome::NO_KEYS)?,
            refused_secrets: define(outcome::REFUSED_SECRETS)?,
            unknown_route_configs: define(outcome::UNKNOWN_ROUTE_CONFIGS)?,
        })
    }

    /// The counter of a request outcome. `policy` is the [`Session::policy_index`](crate::Session::policy_index).
    pub fn request(&self, policy: usize, outcome: RequestOutcome) -> Option<&Handle> {
        self.policies.get(policy)?.requests.get(outcome.index())
    }

    /// The counter of a response outcome; `None` if the outcome is not counted.
    pub fn response(&self, policy: usize, outcome: ResponseOutcome) -> Option<&Handle> {
        self.policies.get(policy)?.responses.get(outcome.index()?)
    }

    /// The counters of a change of a client's key.
    pub fn key_change(&self, change: KeyChange) -> impl Iterator<Item = &Handle> {
        let left = change.from.and_then(|key| {
            let counters = self.keys.get(&key)?;
            counters.outcomes.get(if counters.is_revoked {
                KeyOutcome::Ended as usize
            } else {
                KeyOutcome::Replaced as usize
            })
        });
        let given = self.keys.get(&change.to);
        let given = given.and_then(|counters| counters.outcomes.get(KeyOutcome::Given as usize));
        given.into_iter().chain(left)
    }

    /// The counter of conflicts about the session's name.
    pub fn name_conflicts(&self, policy: usize) -> Option<&Handle> {
        Some(&self.policies.get(policy)?.name_conflicts)
    }

    /// The counter of sessions that had to go from a full table.
    pub fn evicted(&self, policy: usize) -> Option<&Handle> {
        self.policies.get(policy)?.evicted.as_ref()
    }

    /// The counter of moves that did not come about.
    pub fn refused_moves(&self, policy: usize) -> Option<&Handle> {
        self.policies.get(policy)?.refused_moves.as_ref()
    }

    /// The counter for the reason why a request has no session.
    pub fn error(&self, error: &SessionError) -> &Handle {
        match error {
            SessionError::View(_) => &self.host_errors,
            SessionError::UnknownSession(_) => &self.unknown_sessions,
            SessionError::NoKeys => &self.no_keys,
        }
    }

    /// The counter of requests for which the proxy did not answer.
    pub fn host_errors(&self) -> &Handle {
        &self.host_errors
    }

    /// The counter of secrets that hold no keyring.
    pub fn refused_secrets(&self) -> &Handle {
        &self.refused_secrets
    }

    /// The counter of requests whose route has a configuration that is not this filter's.
    pub fn unknown_route_configs(&self) -> &Handle {
        &self.unknown_route_configs
    }
}
