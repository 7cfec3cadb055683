use std::sync::Arc;

use limpet_core::census::Census;
use limpet_core::envoy::HASH_STATE;
use limpet_core::outcome::{self, FILTER_STATE, RequestOutcome, ResponseOutcome};
use limpet_core::view::ViewError;
use limpet_core::{Actions, RequestSession, SessionError, Steering, address};

use crate::abi::{self, Counter, EnvoyFilter, HeaderType, LogLevel};
use crate::census::CENSUS;
use crate::host::{self, ModuleRequest, ModuleResponse, UNANSWERED};
use crate::plugin::{self, ModulePlugin};

/// The state of a request. Its parts stay in place: to move a session costs more than to look at it.
pub(crate) struct ModuleStream {
    plugin: Arc<ModulePlugin>,
    session: Option<RequestSession>,
    asked: Option<address::AddressText>,
    /// The response code details of Envoy's own reply.
    local_reply: Option<Vec<u8>>,
    /// For the access log. Set once, at the end, because Envoy keeps the first value.
    outcome: (Option<RequestOutcome>, ResponseOutcome),
}

impl ModuleStream {
    pub(crate) fn new(plugin: Arc<ModulePlugin>) -> Self {
        Self {
            plugin,
            session: None,
            asked: None,
            local_reply: None,
            outcome: (None, ResponseOutcome::Unchanged),
        }
    }

    pub(crate) fn on_request(&mut self, exchange: &mut EnvoyFilter<'_>) {
        if let Err(error) = self.begin(exchange) {
            self.session = None;
            self.outcome.0 = None;
            self.report(exchange, &error);
        }
    }

    pub(crate) fn on_local_reply(&mut self, details: &[u8]) {
        if self.session.is_some() {
            self.local_reply = Some(details.to_vec());
        }
    }

    pub(crate) fn on_response(&mut self, exchange: &mut EnvoyFilter<'_>) {
        let answered = self.answer(exchange);
        // A second call finds no session.
        self.session = None;
        if let Err(error) = answered {
            self.report(exchange, &error);
        }
    }

    pub(crate) fn on_complete(&mut self, exchange: &mut EnvoyFilter<'_>) {
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

    /// Ends the session, because a hook has panicked.
    pub(crate) fn abort(&mut self, exchange: &EnvoyFilter<'_>) {
        self.session = None;
        exchange.count(self.plugin.counters.host_errors());
    }

    /// Counts why a request continues without a session.
    fn report(&self, exchange: &EnvoyFilter<'_>, error: &SessionError) {
        exchange.count(self.plugin.counters.error(error));
        if let SessionError::UnknownSession(_) = error {
            abi::log(LogLevel::Debug, &format!("limpet: {error}"));
        }
    }

    fn begin(&mut self, exchange: &mut EnvoyFilter<'_>) -> Result<(), SessionError> {
        let plugin = &*self.plugin;
        let discovered = plugin.discovered(exchange)?;
        let filter = discovered.as_deref().unwrap_or(&plugin.filter);
        let mut request = ModuleRequest {
            exchange,
            counters: &plugin.counters,
        };
        self.session = filter.session(&request)?;
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let policy = session.policy_index();
        let plan = session.on_request(&mut request, host::now())?;
        let mut message = ModuleActions {
            exchange,
            headers: HeaderType::Request,
            asked: &mut self.asked,
            outcome: &mut self.outcome,
        };
        Ok(plan.apply(&mut message, &plugin.counters, policy)?)
    }

    fn answer(&mut self, exchange: &mut EnvoyFilter<'_>) -> Result<(), SessionError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let policy = session.policy_index();
        let response = ModuleResponse {
            exchange,
            requested_host: self.asked.as_ref().map(address::AddressText::as_bytes),
            local_reply: self.local_reply.as_deref(),
        };
        let plan = session.on_response(&response, || Ok(host::now()))?;
        let mut message = ModuleActions {
            exchange,
            headers: HeaderType::Response,
            asked: &mut self.asked,
            outcome: &mut self.outcome,
        };
        Ok(plan.apply(&mut message, &self.plugin.counters, policy)?)
    }
}

struct ModuleActions<'e, 'h> {
    exchange: &'e mut EnvoyFilter<'h>,
    headers: HeaderType,
    asked: &'e mut Option<address::AddressText>,
    outcome: &'e mut (Option<RequestOutcome>, ResponseOutcome),
}

impl Actions for ModuleActions<'_, '_> {
    type Counter = Counter;

    fn remove_header(&mut self, name: &str) -> Result<(), ViewError> {
        Ok(self.exchange.remove_header(self.headers, name)?)
    }

    fn set_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError> {
        Ok(self.exchange.set_header(self.headers, name, value)?)
    }

    fn add_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError> {
        Ok(self.exchange.add_header(self.headers, name, value)?)
    }

    fn keep_room(&mut self, room: Vec<u8>) {
        host::keep_room(room);
    }

    fn hash(&mut self, address: &str) -> Result<(), ViewError> {
        Ok(self.exchange.set_typed_filter_state(HASH_STATE, address)?)
    }

    fn steer(&mut self, steering: Steering) -> Result<(), ViewError> {
        let host = self.asked.insert(address::text(steering.host));
        Ok(self.exchange.override_host(host.as_bytes(), steering.strict)?)
    }

    fn count(&mut self, counter: Option<&Counter>) {
        self.exchange.count(counter);
    }

    fn record(&mut self, tell: impl FnOnce(&Census)) {
        tell(&CENSUS);
    }

    fn warn(&mut self, line: &str) {
        abi::log(LogLevel::Warn, &format!("limpet: {line}"));
    }

    fn warn_once(&mut self, line: String) {
        plugin::warn_once(line);
    }

    fn log_outcome(&mut self, request: Option<RequestOutcome>, response: ResponseOutcome) -> Result<(), ViewError> {
        *self.outcome = (self.outcome.0.or(request), response);
        Ok(())
    }
}
