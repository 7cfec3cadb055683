//! The counters of a configuration: which there are, and which one an outcome is counted by.

use crate::outcome::{self, RequestOutcome, ResponseOutcome};
use crate::{Filter, SessionError};

/// A handle of the proxy's for each counter.
#[derive(Debug)]
pub struct Counters<Handle> {
    /// By the policies' places.
    policies: Vec<OfPolicy<Handle>>,
    host_errors: Handle,
    unknown_sessions: Handle,
    no_keys: Handle,
    refused_secrets: Handle,
}

/// By the outcomes' places.
#[derive(Debug)]
struct OfPolicy<Handle> {
    requests: Vec<Handle>,
    responses: Vec<Handle>,
}

impl<Handle> Counters<Handle> {
    /// Defines all counters, so that each shows as 0 from the start. `define` takes a counter's name.
    ///
    /// # Errors
    /// The first that `define` returns.
    pub fn define<E>(filter: &Filter, define: impl Fn(&str) -> Result<Handle, E>) -> Result<Self, E> {
        let policies = filter.policies().map(|policy| {
            let of_word = |word| define(&outcome::counter_name(policy, word));
            let requests = RequestOutcome::all().map(RequestOutcome::word);
            let responses = ResponseOutcome::COUNTED.into_iter().filter_map(ResponseOutcome::word);
            Ok(OfPolicy {
                requests: requests.map(of_word).collect::<Result<_, E>>()?,
                responses: responses.map(of_word).collect::<Result<_, E>>()?,
            })
        });
        Ok(Self {
            policies: policies.collect::<Result<_, E>>()?,
            host_errors: define(outcome::HOST_ERRORS)?,
            unknown_sessions: define(outcome::UNKNOWN_SESSIONS)?,
            no_keys: define(outcome::NO_KEYS)?,
            refused_secrets: define(outcome::REFUSED_SECRETS)?,
        })
    }

    /// Counts what became of a request's token; `policy` is its [`Session::policy_index`](crate::Session::policy_index).
    pub fn request(&self, policy: usize, outcome: RequestOutcome) -> Option<&Handle> {
        self.policies.get(policy)?.requests.get(outcome.index())
    }

    /// Counts what a response did for its session; `None` where it did nothing.
    pub fn response(&self, policy: usize, outcome: ResponseOutcome) -> Option<&Handle> {
        self.policies.get(policy)?.responses.get(outcome.index()?)
    }

    /// Counts why a request has no session although one was meant for it.
    pub fn error(&self, error: &SessionError) -> &Handle {
        match error {
            SessionError::View(_) => &self.host_errors,
            SessionError::UnknownSession(_) => &self.unknown_sessions,
            SessionError::NoKeys => &self.no_keys,
        }
    }

    /// Counts the requests that the proxy gave no answer about.
    pub fn host_errors(&self) -> &Handle {
        &self.host_errors
    }

    /// Counts the secrets that are no keyring.
    pub fn refused_secrets(&self) -> &Handle {
        &self.refused_secrets
    }
}
