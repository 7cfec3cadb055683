//! Envoy counters for what the core calls outcomes.

use std::collections::HashMap;

use limpet_core::Filter;
use limpet_core::outcome::{self, RequestOutcome, ResponseOutcome};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{MetricType, Status};

/// The counters of one configuration.
#[derive(Debug)]
pub(crate) struct Metrics {
    policies: HashMap<String, Counters>,
    host_errors: u32,
    unknown_sessions: u32,
}

/// A policy's counters by their words. Few, so a scan beats hashing.
#[derive(Debug)]
struct Counters(Vec<(&'static str, u32)>);

impl Metrics {
    /// Defines all counters, so that each shows as 0 from the start.
    pub(crate) fn define(filter: &Filter) -> Result<Self, Status> {
        let counter = |name: &str| hostcalls::define_metric(MetricType::Counter, name);
        let mut policies = HashMap::new();
        for policy in filter.policies() {
            let requests = RequestOutcome::all().map(RequestOutcome::word);
            let responses = ResponseOutcome::COUNTED.into_iter().filter_map(ResponseOutcome::word);
            let counters = requests
                .chain(responses)
                .map(|word| Ok((word, counter(&outcome::counter_name(policy, word))?)))
                .collect::<Result<_, Status>>()?;
            policies.insert(policy.to_owned(), Counters(counters));
        }
        Ok(Self {
            policies,
            host_errors: counter(outcome::HOST_ERRORS)?,
            unknown_sessions: counter(outcome::UNKNOWN_SESSIONS)?,
        })
    }

    /// Counts an outcome of a policy.
    pub(crate) fn count(&self, policy: &str, word: &str) {
        let counters = self.policies.get(policy).map(|counters| counters.0.as_slice());
        let found = counters.unwrap_or_default().iter().find(|(known, _)| *known == word);
        if let Some((_, id)) = found {
            increment(*id);
        }
    }

    /// Counts a request that Envoy gave no answer about.
    pub(crate) fn count_host_error(&self) {
        increment(self.host_errors);
    }

    /// Counts a request whose route names a session that is not in the configuration.
    pub(crate) fn count_unknown_session(&self) {
        increment(self.unknown_sessions);
    }
}

fn increment(id: u32) {
    // The id comes from `define_metric`, so the host knows it; and a count is not worth a request.
    let _ = hostcalls::increment_metric(id, 1);
}
