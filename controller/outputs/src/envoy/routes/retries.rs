//! When Envoy tries a request again.
//!
//! Retries ignore where a session is led: it continues on the backend that answers, with a new token. Requests of
//! strict sessions carry a header that forbids every retry.
//!
//! Envoy keeps a body for another try as far as it fits in the listener's buffer.

use envoy_types::pb::envoy::config::route::v3::RetryPolicy;
use envoy_types::pb::envoy::config::route::v3::retry_policy::retry_host_predicate::ConfigType;
use envoy_types::pb::envoy::config::route::v3::retry_policy::{RetryBackOff, RetryHostPredicate};
use envoy_types::pb::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;

use crate::envoy::pack::{duration, number, pack};
use limpet_model::graph::{Forward, Retry};

/// Where a rule asks for nothing: tried again if no backend can have acted on it. There is no connection; or the
/// backend refuses the stream, which in HTTP/2 says that it has done nothing with it, as do streams behind the last one
/// of a GOAWAY; or the connection ends before the first byte of the request.
const UNASKED: &str = "connect-failure,refused-stream,reset-before-request";
/// Where it asks: whatever leaves a try without an answer. `reset` includes the timeout of one try.
const ASKED: &str = "connect-failure,refused-stream,reset";

/// Every status from 500 on, and whatever leaves a try without an answer.
const SERVER_ERRORS: &str = "5xx";

/// How often another host is chosen until it is one that was not tried. A host that refuses connections has no
/// requests, so a load balancer that looks for the least of them prefers it: of two hosts, three times in four.
const SELECTIONS: i64 = 32;

pub(super) fn policy(forward: &Forward) -> RetryPolicy {
    let timeout = forward.backend_timeout.filter(|timeout| !timeout.is_zero());
    let policy = RetryPolicy {
        retry_on: UNASKED.to_owned(),
        num_retries: number(2),
        per_try_timeout: timeout.and_then(duration),
        retry_host_predicate: vec![other_hosts()],
        host_selection_retry_max_attempts: SELECTIONS,
        ..RetryPolicy::default()
    };
    match &forward.retry {
        None => policy,
        Some(retry) => requested_policy(retry, policy),
    }
}

fn requested_policy(retry: &Retry, policy: RetryPolicy) -> RetryPolicy {
    let by_status = if retry.codes.is_empty() {
        ""
    } else {
        ",retriable-status-codes"
    };
    RetryPolicy {
        retry_on: format!("{}{by_status}", if retry.server_errors { SERVER_ERRORS } else { ASKED }),
        num_retries: number(retry.attempts),
        retriable_status_codes: retry.codes.iter().map(|code| u32::from(*code)).collect(),
        retry_back_off: retry.backoff.map(|backoff| RetryBackOff {
            base_interval: duration(backoff),
            ..RetryBackOff::default()
        }),
        ..policy
    }
}

/// Prefers hosts that the request has not been sent to.
fn other_hosts() -> RetryHostPredicate {
    RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(ConfigType::TypedConfig(pack(PreviousHostsPredicate {}))),
    }
}
