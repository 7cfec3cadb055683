//! Envoy counters for what the core calls outcomes.

use limpet_core::outcome::{self, RequestOutcome, ResponseOutcome};
use limpet_core::{Filter, Session};

use crate::abi::{Configuring, Counter, Exchange, HostError};

/// The counters of one configuration.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// By the policies' places.
    policies: Vec<Counters>,
    host_errors: Counter,
    unknown_sessions: Counter,
}

/// A policy's counters by the outcomes' places.
#[derive(Debug)]
struct Counters {
    requests: Vec<Counter>,
    responses: Vec<Counter>,
}

impl Metrics {
    /// Defines all counters, so that each shows as 0 from the start.
    pub(crate) fn define(configuring: &Configuring<'_>, filter: &Filter) -> Result<Self, HostError> {
        let policies = filter.policies().map(|policy| {
            let of_word = |word| configuring.counter(&outcome::counter_name(policy, word));
            let responses = ResponseOutcome::COUNTED.into_iter().filter_map(ResponseOutcome::word);
            Ok(Counters {
                requests: RequestOutcome::all()
                    .map(RequestOutcome::word)
                    .map(of_word)
                    .collect::<Result<_, _>>()?,
                responses: responses.map(of_word).collect::<Result<_, _>>()?,
            })
        });
        Ok(Self {
            policies: policies.collect::<Result<_, HostError>>()?,
            host_errors: configuring.counter(outcome::HOST_ERRORS)?,
            unknown_sessions: configuring.counter(outcome::UNKNOWN_SESSIONS)?,
        })
    }

    /// Counts what became of a request's token.
    pub(crate) fn count_request(&self, exchange: &Exchange<'_>, session: &Session, outcome: RequestOutcome) {
        let counters = self.policies.get(session.policy_index());
        let counter = counters.and_then(|counters| counters.requests.get(outcome.index()));
        increment(exchange, counter);
    }

    /// Counts what a response did for its session.
    pub(crate) fn count_response(&self, exchange: &Exchange<'_>, session: &Session, outcome: ResponseOutcome) {
        let counters = self.policies.get(session.policy_index());
        let counter = counters.and_then(|counters| counters.responses.get(outcome.index()?));
        increment(exchange, counter);
    }

    /// Counts a request that Envoy gave no answer about, or that the filter failed at.
    pub(crate) fn count_host_error(&self, exchange: &Exchange<'_>) {
        increment(exchange, Some(&self.host_errors));
    }

    /// Counts a request whose route names a session that is not in the configuration.
    pub(crate) fn count_unknown_session(&self, exchange: &Exchange<'_>) {
        increment(exchange, Some(&self.unknown_sessions));
    }
}

fn increment(exchange: &Exchange<'_>, counter: Option<&Counter>) {
    if let Some(counter) = counter {
        // It was defined, so Envoy knows it; and a count is not worth a request.
        let _ = exchange.increment(*counter);
    }
}
