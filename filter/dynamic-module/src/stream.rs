//! One request and its response.

use std::net::SocketAddr;
use std::sync::Arc;

use limpet_core::outcome::{FILTER_STATE, RequestOutcome, ResponseOutcome};
use limpet_core::{HeaderEdit, Session, SessionError, Steering};

use crate::abi::{self, Counter, Exchange, Headers, HostError, Level};
use crate::host::{self, Request, Response};
use crate::plugin::Plugin;

/// What is known of one request.
pub(crate) struct Stream {
    plugin: Arc<Plugin>,
    ongoing: Option<Ongoing>,
    /// For the access log: Envoy keeps the first value that it is given, so it is given the last.
    outcome: Option<(RequestOutcome, ResponseOutcome)>,
}

/// A request whose response is still to come.
struct Ongoing {
    session: Session,
    request: RequestOutcome,
    asked: Option<SocketAddr>,
    local_reply: Option<Vec<u8>>,
}

impl Stream {
    pub(crate) fn new(plugin: Arc<Plugin>) -> Self {
        Self {
            plugin,
            ongoing: None,
            outcome: None,
        }
    }

    /// The request's headers are there.
    pub(crate) fn on_request(&mut self, exchange: &Exchange<'_>) {
        match on_request(&self.plugin, exchange) {
            Ok(ongoing) => {
                self.outcome = ongoing
                    .as_ref()
                    .map(|ongoing| (ongoing.request, ResponseOutcome::Unchanged));
                self.ongoing = ongoing;
            }
            Err(error) => self.report(exchange, &error),
        }
    }

    /// Envoy is about to answer by itself.
    pub(crate) fn on_local_reply(&mut self, details: Vec<u8>) {
        if let Some(ongoing) = &mut self.ongoing {
            ongoing.local_reply = Some(details);
        }
    }

    /// The response's headers are there.
    pub(crate) fn on_response(&mut self, exchange: &Exchange<'_>) {
        // Taken, so that a second call finds no session.
        let Some(ongoing) = self.ongoing.take() else {
            return;
        };
        match on_response(&self.plugin, exchange, &ongoing) {
            Ok(response) => self.outcome = Some((ongoing.request, response)),
            Err(error) => self.report(exchange, &error),
        }
    }

    /// The access log is about to be written.
    pub(crate) fn on_complete(&mut self, exchange: &Exchange<'_>) {
        let Some((request, response)) = self.outcome.take() else {
            return;
        };
        if !self.plugin.filter.access_log() {
            return;
        }
        let noted = match response.word() {
            None => exchange.set_filter_state(FILTER_STATE, request.word()),
            Some(word) => exchange.set_filter_state(FILTER_STATE, &format!("{}+{word}", request.word())),
        };
        if let Err(error) = noted {
            self.report(exchange, &error.into());
        }
    }

    /// Something panicked: the rest of the exchange is none of the filter's business.
    pub(crate) fn give_up(&mut self, exchange: &Exchange<'_>) {
        self.ongoing = None;
        count(exchange, Some(self.plugin.counters.host_errors()));
    }

    /// Counts why a request goes on as it came.
    fn report(&self, exchange: &Exchange<'_>, error: &SessionError) {
        match error {
            SessionError::View(_) => count(exchange, Some(self.plugin.counters.host_errors())),
            unknown => {
                count(exchange, Some(self.plugin.counters.unknown_sessions()));
                abi::log(Level::Debug, &format!("limpet: {unknown}"));
            }
        }
    }
}

fn on_request(plugin: &Plugin, exchange: &Exchange<'_>) -> Result<Option<Ongoing>, SessionError> {
    let request = Request(exchange);
    let Some(mut session) = plugin.filter.session(&request)? else {
        return Ok(None);
    };
    let plan = session.on_request(&request, host::now())?;
    let (outcome, steering) = (plan.outcome, plan.steering);
    if let Some(edit) = plan.edit {
        apply(exchange, Headers::Request, edit)?;
    }
    if let Some(steering) = steering {
        steer(exchange, steering)?;
    }
    count(exchange, plugin.counters.request(&session, outcome));
    Ok(Some(Ongoing {
        session,
        request: outcome,
        asked: steering.map(|steering| steering.host),
        local_reply: None,
    }))
}

fn on_response(plugin: &Plugin, exchange: &Exchange<'_>, ongoing: &Ongoing) -> Result<ResponseOutcome, SessionError> {
    let response = Response {
        exchange,
        asked: ongoing.asked,
        local_reply: ongoing.local_reply.as_deref(),
    };
    let plan = ongoing.session.on_response(&response, || Ok(host::now()))?;
    if let Some(status) = plan.status {
        exchange.set_header(Headers::Response, ":status", status.to_string().as_bytes())?;
    }
    for edit in plan.edits {
        apply(exchange, Headers::Response, edit)?;
    }
    count(exchange, plugin.counters.response(&ongoing.session, plan.outcome));
    Ok(plan.outcome)
}

fn steer(exchange: &Exchange<'_>, steering: Steering) -> Result<(), HostError> {
    if steering.strict {
        // A retry ignores the override host and would reach another backend.
        exchange.set_header(Headers::Request, "x-envoy-max-retries", b"0")?;
    }
    exchange.override_host(&steering.host.to_string(), steering.strict)
}

fn apply(exchange: &Exchange<'_>, of: Headers, edit: HeaderEdit<'_>) -> Result<(), HostError> {
    match edit {
        HeaderEdit::Remove(name) => exchange.remove_header(of, name),
        HeaderEdit::Set(name, value) => exchange.set_header(of, name, &value),
        HeaderEdit::Add(name, value) => exchange.add_header(of, name, &value),
    }
}

/// Adds one to a counter, where there is one for what happened.
fn count(exchange: &Exchange<'_>, counter: Option<&Counter>) {
    if let Some(counter) = counter {
        // It was defined, so Envoy knows it; and a count is not worth a request.
        let _ = exchange.increment(*counter);
    }
}
