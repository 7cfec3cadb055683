//! Envoy counters for what the core calls outcomes.

use std::collections::HashMap;

use limpet_core::Filter;
use limpet_core::outcome::{self, RequestOutcome, ResponseOutcome};

use crate::abi::{Configuring, Counter, Exchange, HostError};

/// The counters of one configuration.
#[derive(Debug)]
pub(crate) struct Metrics {
    policies: HashMap<String, Counters>,
    host_errors: Counter,
    unknown_sessions: Counter,
}

/// A policy's counters by their words. Few, so a scan beats hashing.
#[derive(Debug)]
struct Counters(Vec<(&'static str, Counter)>);

impl Metrics {
    /// Defines all counters, so that each shows as 0 from the start.
    pub(crate) fn define(configuring: &Configuring<'_>, filter: &Filter) -> Result<Self, HostError> {
        let counter = |name: &str| configuring.counter(name);
        let mut policies = HashMap::new();
        for policy in filter.policies() {
            let requests = RequestOutcome::all().map(RequestOutcome::word);
            let responses = ResponseOutcome::COUNTED.into_iter().filter_map(ResponseOutcome::word);
            let counters = requests
                .chain(responses)
                .map(|word| Ok((word, counter(&outcome::counter_name(policy, word))?)))
                .collect::<Result<_, HostError>>()?;
            policies.insert(policy.to_owned(), Counters(counters));
        }
        Ok(Self {
            policies,
            host_errors: counter(outcome::HOST_ERRORS)?,
            unknown_sessions: counter(outcome::UNKNOWN_SESSIONS)?,
        })
    }

    /// Counts an outcome of a policy.
    pub(crate) fn count(&self, exchange: &Exchange<'_>, policy: &str, word: &str) {
        let counters = self.policies.get(policy).map(|counters| counters.0.as_slice());
        let found = counters.unwrap_or_default().iter().find(|(known, _)| *known == word);
        if let Some((_, counter)) = found {
            increment(exchange, *counter);
        }
    }

    /// Counts a request that Envoy gave no answer about, or that the filter failed at.
    pub(crate) fn count_host_error(&self, exchange: &Exchange<'_>) {
        increment(exchange, self.host_errors);
    }

    /// Counts a request whose route names a session that is not in the configuration.
    pub(crate) fn count_unknown_session(&self, exchange: &Exchange<'_>) {
        increment(exchange, self.unknown_sessions);
    }
}

fn increment(exchange: &Exchange<'_>, counter: Counter) {
    // It was defined, so Envoy knows it; and a count is not worth a request.
    let _ = exchange.increment(counter);
}
