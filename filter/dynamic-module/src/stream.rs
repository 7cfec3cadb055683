//! A request and its response.

use std::net::SocketAddr;
use std::sync::Arc;

use limpet_core::envoy::{HASH_STATE, MAX_RETRIES_HEADER};
use limpet_core::outcome::{self, FILTER_STATE, RequestOutcome, ResponseOutcome};
use limpet_core::{HeaderEdit, Session, SessionError, Steering, address};

use crate::abi::{self, Exchange, Headers, HostError, Level};
use crate::census::CENSUS;
use crate::host::{self, Request, Response, UNANSWERED};
use crate::plugin::{self, Plugin};

/// The state of a request. What it holds stays where it is: to move a session costs more than to look at it.
pub(crate) struct Stream {
    plugin: Arc<Plugin>,
    /// `None` without a session, and once there is nothing left to do for it.
    session: Option<Session>,
    /// The host that the request was steered to.
    asked: Option<address::Text>,
    /// The response code details of a reply of Envoy's own.
    local_reply: Option<Vec<u8>>,
    /// For the access log. Envoy keeps the first value that it gets, so the filter sets it once, at the end.
    outcome: (Option<RequestOutcome>, ResponseOutcome),
}

impl Stream {
    pub(crate) fn new(plugin: Arc<Plugin>) -> Self {
        Self {
            plugin,
            session: None,
            asked: None,
            local_reply: None,
            outcome: (None, ResponseOutcome::Unchanged),
        }
    }

    /// The headers of the request are complete.
    pub(crate) fn on_request(&mut self, exchange: &mut Exchange<'_>) {
        if let Err(error) = self.begin(exchange) {
            self.session = None;
            self.outcome.0 = None;
            self.report(exchange, &error);
        }
    }

    /// Envoy is about to send a reply of its own.
    pub(crate) fn on_local_reply(&mut self, details: &[u8]) {
        if self.session.is_some() {
            self.local_reply = Some(details.to_vec());
        }
    }

    /// The headers of the response are complete.
    pub(crate) fn on_response(&mut self, exchange: &mut Exchange<'_>) {
        let answered = self.answer(exchange);
        // A second call finds no session.
        self.session = None;
        if let Err(error) = answered {
            self.report(exchange, &error);
        }
    }

    /// The request has ended, and the access log is about to be written.
    pub(crate) fn on_complete(&mut self, exchange: &mut Exchange<'_>) {
        // Without a response, Envoy may begin the request again at once.
        if let Some(session) = self.session.take() {
            session.end_unanswered(&UNANSWERED, || Ok(host::now()));
        }
        let (Some(request), response) = self.outcome else {
            return;
        };
        if !self.plugin.filter.access_log() {
            return;
        }
        let noted = exchange.set_filter_state(FILTER_STATE, &outcome::access_log_value(request, response));
        if let Err(error) = noted {
            self.report(exchange, &error.into());
        }
    }

    /// A hook has panicked. The filter leaves the rest of the exchange alone.
    pub(crate) fn give_up(&mut self, exchange: &Exchange<'_>) {
        self.session = None;
        exchange.count(self.plugin.counters.host_errors());
    }

    /// Counts why a request continues without a session.
    fn report(&self, exchange: &Exchange<'_>, error: &SessionError) {
        exchange.count(self.plugin.counters.error(error));
        if let SessionError::UnknownSession(_) = error {
            abi::log(Level::Debug, &format!("limpet: {error}"));
        }
    }

    /// Finds the session of the request, and sends the request where it belongs.
    fn begin(&mut self, exchange: &mut Exchange<'_>) -> Result<(), SessionError> {
        let plugin = &*self.plugin;
        let discovered = plugin.discovered(exchange)?;
        let filter = discovered.as_deref().unwrap_or(&plugin.filter);
        let mut request = Request {
            exchange,
            counters: &plugin.counters,
        };
        self.session = filter.session(&request)?;
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let policy = session.policy_index();
        let plan = session.on_request(&mut request, host::now())?;
        if let Some(edit) = plan.edit {
            apply(exchange, Headers::Request, edit)?;
        }
        for edit in plan.further_edits {
            apply(exchange, Headers::Request, edit)?;
        }
        if let Some(ip) = plan.hash {
            exchange.set_typed_filter_state(HASH_STATE, &SocketAddr::new(ip, 0).to_string())?;
        }
        if let Some(steering) = plan.steering {
            steer(exchange, steering, self.asked.insert(address::text(steering.host)))?;
        }
        if let Some(outcome) = plan.outcome {
            exchange.count(plugin.counters.request(policy, outcome));
        }
        self.outcome.0 = plan.outcome;
        Ok(())
    }

    /// Gives the client a token if it needs one, and counts what became of the session.
    fn answer(&mut self, exchange: &mut Exchange<'_>) -> Result<(), SessionError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let counters = &self.plugin.counters;
        let policy = session.policy_index();
        let response = Response {
            exchange,
            asked: self.asked.as_ref().map(address::Text::as_bytes),
            local_reply: self.local_reply.as_deref(),
        };
        let plan = session.on_response(&response, || Ok(host::now()))?;
        if let Some(status) = plan.status {
            exchange.set_header(Headers::Response, ":status", status.to_string().as_bytes())?;
        }
        for edit in plan.edits {
            apply(exchange, Headers::Response, edit)?;
        }
        if let Some(outcome) = plan.request {
            exchange.count(counters.request(policy, outcome));
            self.outcome.0 = Some(outcome);
        }
        exchange.count(counters.response(policy, plan.outcome));
        self.outcome.1 = plan.outcome;
        if plan.evicted {
            exchange.count(counters.evicted(policy));
        }
        if let Some(refused) = plan.refused_move {
            exchange.count(counters.refused_moves(policy));
            if let Some(line) = refused.line {
                abi::log(Level::Warn, &format!("limpet: {line}"));
            }
        }
        if let Some(seen) = &plan.seen {
            CENSUS.see(seen);
        }
        if let Some(left) = plan.left {
            CENSUS.leave(left);
        }
        if let Some(change) = plan.key_change {
            let counters = counters.key_change(change);
            counters.for_each(|counter| exchange.count(Some(counter)));
        }
        if let Some(conflict) = plan.name_conflict {
            exchange.count(counters.name_conflicts(policy));
            if let Some(line) = conflict.line {
                plugin::warn_once(line);
            }
        }
        Ok(())
    }
}

/// Sends the request to the host of `steering`, whose text is `host`.
fn steer(exchange: &mut Exchange<'_>, steering: Steering, host: &address::Text) -> Result<(), HostError> {
    if steering.strict {
        // A retry would ignore the override host and reach another backend.
        exchange.set_header(Headers::Request, MAX_RETRIES_HEADER, b"0")?;
    }
    exchange.override_host(host.as_bytes(), steering.strict)
}

fn apply(exchange: &mut Exchange<'_>, of: Headers, edit: HeaderEdit<'_>) -> Result<(), HostError> {
    match edit {
        HeaderEdit::Remove(name) => exchange.remove_header(of, name),
        HeaderEdit::Set(name, value) => {
            let did = exchange.set_header(of, name, &value);
            host::keep_room(value);
            did
        }
        HeaderEdit::Add(name, value) => exchange.add_header(of, name, &value),
    }
}
