use std::net::SocketAddr;

use crate::census::Census;
use crate::counters::Counters;
use crate::envoy::MAX_RETRIES_HEADER;
use crate::outcome::{RequestOutcome, ResponseOutcome};
use crate::plan::{HeaderEdit, RequestPlan, ResponsePlan, Steering};
use crate::view::ViewError;

/// What an adapter does to the request or response of a plan.
#[expect(clippy::missing_errors_doc, reason = "each fails if the proxy does not do it")]
pub trait Actions {
    /// A counter's handle.
    type Counter;
    /// Removes every field of the header.
    fn remove_header(&mut self, name: &str) -> Result<(), ViewError>;
    /// Replaces every field of the header by one.
    fn set_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError>;
    /// Adds a field.
    fn add_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError>;
    /// Takes back the memory of a header field, for the next [`RequestView::room`](crate::view::RequestView).
    fn keep_room(&mut self, _room: Vec<u8>) {}
    /// Sets [`HASH_STATE`](crate::envoy::HASH_STATE) to this address, as `ip:port`.
    fn hash(&mut self, address: &str) -> Result<(), ViewError>;
    /// Sends the request to this host. A strict one's retries are already forbidden.
    fn steer(&mut self, steering: Steering) -> Result<(), ViewError>;
    /// Increments a counter, if there is one.
    fn count(&mut self, counter: Option<&Self::Counter>);
    /// Tells the census, if there is one.
    fn record(&mut self, tell: impl FnOnce(&Census));
    /// Logs a warning.
    fn warn(&mut self, line: &str);
    /// Logs a warning, unless it was logged before.
    fn warn_once(&mut self, line: String);
    /// Notes outcomes for the access log; the request's is `None` if it is known, or not yet.
    fn log_outcome(&mut self, request: Option<RequestOutcome>, response: ResponseOutcome) -> Result<(), ViewError>;
}

impl RequestPlan<'_> {
    /// Carries the plan out, for a [`RequestSession::policy_index`](crate::RequestSession::policy_index).
    ///
    /// # Errors
    /// Of the first action that fails.
    #[inline]
    pub fn apply<A: Actions>(
        self,
        actions: &mut A,
        counters: &Counters<A::Counter>,
        policy: usize,
    ) -> Result<(), ViewError> {
        // By name, so that a new field does not compile until it is carried out.
        let Self {
            edit,
            further_edits,
            steering,
            outcome,
            hash,
        } = self;
        if let Some(edit) = edit {
            change(actions, edit)?;
        }
        for edit in further_edits {
            change(actions, edit)?;
        }
        if let Some(ip) = hash {
            actions.hash(&SocketAddr::new(ip, 0).to_string())?;
        }
        if let Some(steering) = steering {
            if steering.strict {
                // A retry would ignore the override host and reach another backend.
                actions.set_header(MAX_RETRIES_HEADER, b"0")?;
            }
            actions.steer(steering)?;
        }
        if let Some(outcome) = outcome {
            actions.count(counters.request(policy, outcome));
        }
        actions.log_outcome(outcome, ResponseOutcome::Unchanged)
    }
}

impl ResponsePlan<'_> {
    /// Carries the plan out, for a [`RequestSession::policy_index`](crate::RequestSession::policy_index).
    ///
    /// # Errors
    /// Of the first action that fails.
    #[inline]
    pub fn apply<A: Actions>(
        self,
        actions: &mut A,
        counters: &Counters<A::Counter>,
        policy: usize,
    ) -> Result<(), ViewError> {
        let Self {
            request,
            status,
            edits,
            outcome,
            key_change,
            name_conflict,
            evicted,
            refused_move,
            observed: seen,
            departed: left,
        } = self;
        if let Some(status) = status {
            actions.set_header(":status", status.to_string().as_bytes())?;
        }
        for edit in edits {
            change(actions, edit)?;
        }
        if let Some(request) = request {
            actions.count(counters.request(policy, request));
        }
        actions.count(counters.response(policy, outcome));
        if evicted {
            actions.count(counters.evicted(policy));
        }
        if let Some(refused) = refused_move {
            actions.count(counters.refused_moves(policy));
            if let Some(line) = refused.line {
                actions.warn(&line);
            }
        }
        if seen.is_some() || left.is_some() {
            actions.record(|census| {
                if let Some(seen) = &seen {
                    census.record(seen);
                }
                if let Some(left) = left {
                    census.record_departure(left);
                }
            });
        }
        if let Some(change) = key_change {
            for counter in counters.key_change(change) {
                actions.count(Some(counter));
            }
        }
        if let Some(conflict) = name_conflict {
            actions.count(counters.name_conflicts(policy));
            if let Some(line) = conflict.line {
                actions.warn_once(line);
            }
        }
        actions.log_outcome(request, outcome)
    }
}

#[inline]
fn change(actions: &mut impl Actions, edit: HeaderEdit<'_>) -> Result<(), ViewError> {
    match edit {
        HeaderEdit::Remove(name) => actions.remove_header(name),
        HeaderEdit::Set(name, value) => {
            let did = actions.set_header(name, &value);
            actions.keep_room(value);
            did
        }
        HeaderEdit::Add(name, value) => actions.add_header(name, &value),
    }
}

#[cfg(test)]
mod tests;
