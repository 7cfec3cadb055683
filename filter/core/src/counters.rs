use std::collections::BTreeMap;
use std::sync::Arc;

use crate::keyring::{KeyId, Keyring};
use crate::outcome::{self, KeyOutcome, RequestOutcome, ResponseOutcome};
use crate::plan::KeyChange;
use crate::{Filter, SessionError};

/// The proxy's handles of a configuration's counters.
#[derive(Debug)]
pub struct Counters<Handle> {
    /// By [`RequestSession::policy_index`](crate::RequestSession::policy_index).
    policies: Vec<PolicyCounters<Handle>>,
    /// Empty if the keyring is in a secret, which may change.
    keys: BTreeMap<KeyId, KeyCounters<Handle>>,
    /// By the index in [`OF_ALL`].
    of_all: Arc<[Handle]>,
}

#[derive(Debug)]
struct PolicyCounters<Handle> {
    /// Outcomes of requests and responses by index, then conflicts about the name.
    always: Arc<[Handle]>,
    /// `None` without a table.
    evicted: Option<Arc<[Handle]>>,
    /// `None` if the application moves no sessions.
    refused_moves: Option<Arc<[Handle]>>,
}

#[derive(Debug)]
struct KeyCounters<Handle> {
    is_revoked: bool,
    /// By the index in [`KeyOutcome::ALL`].
    outcomes: Arc<[Handle]>,
}

/// Counters of no policy or key.
const OF_ALL: [&str; 5] = [
    outcome::HOST_ERRORS,
    outcome::UNKNOWN_SESSIONS,
    outcome::NO_KEYS,
    outcome::REFUSED_SECRETS,
    outcome::UNKNOWN_ROUTE_CONFIGS,
];

/// The defined counters, for reuse: Envoy keeps another id for each definition of a wasm filter for the VM's life.
#[derive(Debug)]
pub struct DefinedCounters<Handle>(BTreeMap<String, Arc<[Handle]>>);

impl<Handle> Default for DefinedCounters<Handle> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<Handle> DefinedCounters<Handle> {
    /// The counters of these names, which the first name determines.
    fn of<E>(&mut self, names: &[String], define: &impl Fn(&str) -> Result<Handle, E>) -> Result<Arc<[Handle]>, E> {
        if let Some(defined) = names.first().and_then(|first| self.0.get(first)) {
            return Ok(Arc::clone(defined));
        }
        let defined: Arc<[Handle]> = names.iter().map(|name| define(name)).collect::<Result<_, E>>()?;
        let first = names.first().cloned().unwrap_or_default();
        self.0.insert(first, Arc::clone(&defined));
        Ok(defined)
    }
}

impl<Handle> Counters<Handle> {
    /// Defines the missing counters, so that each is 0 from the start.
    ///
    /// # Errors
    /// With the first error of `define`.
    pub fn define<E>(
        filter: &Filter,
        defined: &mut DefinedCounters<Handle>,
        define: impl Fn(&str) -> Result<Handle, E>,
    ) -> Result<Self, E> {
        let requests = RequestOutcome::all().map(RequestOutcome::as_str);
        let responses = ResponseOutcome::COUNTED.into_iter().filter_map(ResponseOutcome::as_str);
        let always: Vec<&str> = requests.chain(responses).chain([outcome::NAME_CONFLICTS]).collect();
        let policies = filter.policies().map(|policy| {
            let mut of = |words: &[&str]| {
                let names = words.iter().map(|word| outcome::counter_name(policy, word));
                defined.of(&names.collect::<Vec<_>>(), &define)
            };
            let has_table = filter.has_table(policy);
            let has_moves = filter.has_moves(policy);
            Ok(PolicyCounters {
                always: of(&always)?,
                evicted: has_table.then(|| of(&[outcome::EVICTED])).transpose()?,
                refused_moves: has_moves.then(|| of(&[outcome::REFUSED_MOVES])).transpose()?,
            })
        });
        let policies = policies.collect::<Result<_, E>>()?;
        let keys = filter.keyring().into_iter().flat_map(Keyring::ids);
        let keys = keys.map(|(id, is_revoked)| {
            let names = KeyOutcome::ALL.map(|outcome| outcome::key_counter_name(id, outcome));
            let outcomes = defined.of(&names, &define)?;
            Ok((id, KeyCounters { is_revoked, outcomes }))
        });
        Ok(Self {
            policies,
            keys: keys.collect::<Result<_, E>>()?,
            of_all: defined.of(&OF_ALL.map(str::to_owned), &define)?,
        })
    }

    pub(crate) fn request(&self, policy: usize, outcome: RequestOutcome) -> Option<&Handle> {
        self.policies.get(policy)?.always.get(outcome.index())
    }

    pub(crate) fn response(&self, policy: usize, outcome: ResponseOutcome) -> Option<&Handle> {
        let index = RequestOutcome::COUNT + outcome.index()?;
        self.policies.get(policy)?.always.get(index)
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

    pub(crate) fn name_conflicts(&self, policy: usize) -> Option<&Handle> {
        self.policies.get(policy)?.always.last()
    }

    pub(crate) fn evicted(&self, policy: usize) -> Option<&Handle> {
        self.policies.get(policy)?.evicted.as_ref()?.first()
    }

    pub(crate) fn refused_moves(&self, policy: usize) -> Option<&Handle> {
        self.policies.get(policy)?.refused_moves.as_ref()?.first()
    }

    /// The counter of an error.
    #[must_use]
    pub fn error(&self, error: &SessionError) -> Option<&Handle> {
        self.of_all(match error {
            SessionError::View(_) => outcome::HOST_ERRORS,
            SessionError::UnknownSession(_) => outcome::UNKNOWN_SESSIONS,
            SessionError::NoKeys => outcome::NO_KEYS,
        })
    }

    /// The counter of [`outcome::HOST_ERRORS`].
    #[must_use]
    pub fn host_errors(&self) -> Option<&Handle> {
        self.of_all(outcome::HOST_ERRORS)
    }

    /// The counter of [`outcome::REFUSED_SECRETS`].
    #[must_use]
    pub fn refused_secrets(&self) -> Option<&Handle> {
        self.of_all(outcome::REFUSED_SECRETS)
    }

    /// The counter of [`outcome::UNKNOWN_ROUTE_CONFIGS`].
    #[must_use]
    pub fn unknown_route_configs(&self) -> Option<&Handle> {
        self.of_all(outcome::UNKNOWN_ROUTE_CONFIGS)
    }

    fn of_all(&self, name: &str) -> Option<&Handle> {
        self.of_all.get(OF_ALL.iter().position(|of_all| *of_all == name)?)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::{Value, json};

    use super::*;

    /// With the names that are defined.
    fn counters(defined: &mut DefinedCounters<String>, policies: &Value) -> (Counters<String>, Vec<String>) {
        let config = json!({
            "keys": [{"id": 1, "inline": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}],
            "policies": policies,
        });
        let (filter, _) = Filter::from_json(config.to_string().as_bytes(), &|_| None).unwrap();
        let names = RefCell::default();
        let define = |name: &str| {
            RefCell::<Vec<String>>::borrow_mut(&names).push(name.to_owned());
            Ok::<_, ()>(name.to_owned())
        };
        (Counters::define(&filter, defined, define).unwrap(), names.into_inner())
    }

    #[test]
    fn each_counter_is_the_one_of_its_name() {
        let policies = json!({"web": {"source": {"entries": 10, "timeout": "1h"}}});
        let (counters, names) = counters(&mut DefinedCounters::default(), &policies);
        for outcome in RequestOutcome::all() {
            let name = format!("limpet.web.{}", outcome.as_str());
            assert_eq!(counters.request(0, outcome), Some(&name));
        }
        for outcome in ResponseOutcome::COUNTED {
            let name = format!("limpet.web.{}", outcome.as_str().unwrap());
            assert_eq!(counters.response(0, outcome), Some(&name));
        }
        assert_eq!(counters.response(0, ResponseOutcome::Unchanged), None);
        for (counter, name) in [
            (counters.name_conflicts(0), "limpet.web.name_conflicts"),
            (counters.evicted(0), "limpet.web.evicted"),
            (counters.error(&SessionError::NoKeys), "limpet.no_keys"),
            (counters.host_errors(), "limpet.host_errors"),
            (counters.refused_secrets(), "limpet.refused_secrets"),
            (counters.unknown_route_configs(), "limpet.unknown_route_configs"),
        ] {
            assert_eq!(counter.map(String::as_str), Some(name));
        }
        assert_eq!(counters.refused_moves(0), None);
        assert_eq!(names.len(), 20 + 1 + 3 + 5, "{names:?}");
    }

    #[test]
    fn a_counter_is_defined_once_for_all_configurations() {
        let cookie = json!({"cookie": {"name": "session"}});
        let mut defined = DefinedCounters::default();
        let (_, all) = counters(&mut defined, &json!({"web": cookie}));
        let (again, none) = counters(&mut defined, &json!({"web": cookie}));
        assert_eq!((all.len(), none), (20 + 3 + 5, Vec::<String>::new()));
        assert_eq!(
            again.name_conflicts(0).map(String::as_str),
            Some("limpet.web.name_conflicts")
        );
        let (_, of_another) = counters(&mut defined, &json!({"api": cookie, "web": cookie}));
        assert!(
            of_another.iter().all(|name| name.starts_with("limpet.api.")),
            "{of_another:?}"
        );
        let table = json!({"source": {"entries": 10, "timeout": "1h"}});
        let (_, of_table) = counters(&mut defined, &json!({"web": table}));
        assert_eq!(of_table, ["limpet.web.evicted"]);
        assert_eq!(counters(&mut defined, &json!({"web": cookie})).1, Vec::<String>::new());
    }
}
