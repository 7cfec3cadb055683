//! Envoy counters for what the core calls outcomes.

use limpet_core::outcome::{self, RequestOutcome, ResponseOutcome};
use limpet_core::{Filter, Session};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{MetricType, Status};

/// The counters of one configuration.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// By the policies' places.
    policies: Vec<Counters>,
    host_errors: u32,
    unknown_sessions: u32,
}

/// A policy's counters by the outcomes' places.
#[derive(Debug)]
struct Counters {
    requests: Vec<u32>,
    responses: Vec<u32>,
}

impl Metrics {
    /// Defines all counters, so that each shows as 0 from the start.
    pub(crate) fn define(filter: &Filter) -> Result<Self, Status> {
        let counter = |name: &str| hostcalls::define_metric(MetricType::Counter, name);
        let policies = filter.policies().map(|policy| {
            let of_word = |word| counter(&outcome::counter_name(policy, word));
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
            policies: policies.collect::<Result<_, Status>>()?,
            host_errors: counter(outcome::HOST_ERRORS)?,
            unknown_sessions: counter(outcome::UNKNOWN_SESSIONS)?,
        })
    }

    /// Counts what became of a request's token.
    pub(crate) fn count_request(&self, session: &Session, outcome: RequestOutcome) {
        let counters = self.policies.get(session.policy_index());
        increment(counters.and_then(|counters| counters.requests.get(outcome.index())));
    }

    /// Counts what a response did for its session.
    pub(crate) fn count_response(&self, session: &Session, outcome: ResponseOutcome) {
        let counters = self.policies.get(session.policy_index());
        increment(counters.and_then(|counters| counters.responses.get(outcome.index()?)));
    }

    /// Counts a request that Envoy gave no answer about.
    pub(crate) fn count_host_error(&self) {
        increment(Some(&self.host_errors));
    }

    /// Counts a request whose route names a session that is not in the configuration.
    pub(crate) fn count_unknown_session(&self) {
        increment(Some(&self.unknown_sessions));
    }
}

fn increment(id: Option<&u32>) {
    if let Some(id) = id {
        // The id comes from `define_metric`, so the host knows it; and a count is not worth a request.
        let _ = hostcalls::increment_metric(*id, 1);
    }
}
