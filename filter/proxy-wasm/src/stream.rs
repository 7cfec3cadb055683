//! One request and its response.

use std::rc::Rc;

use limpet_core::outcome::{FILTER_STATE, RequestOutcome};
use limpet_core::view::ViewError;
use limpet_core::{HeaderEdit, Session, SessionError};
use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, LogLevel, MapType, Status};

use crate::host::{self, Request, Response};
use crate::plugin::{self, Plugin};
use crate::steering;

pub(crate) struct Stream {
    plugin: Option<Rc<Plugin>>,
    session: Option<(Session, RequestOutcome)>,
}

impl Stream {
    pub(crate) fn new(plugin: Option<Rc<Plugin>>) -> Self {
        Self { plugin, session: None }
    }
}

/// Why a request goes on as it came.
enum Failure {
    UnknownSession(String),
    Host,
}

impl From<Status> for Failure {
    fn from(_: Status) -> Self {
        Self::Host
    }
}

impl From<ViewError> for Failure {
    fn from(_: ViewError) -> Self {
        Self::Host
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::View(_) => Self::Host,
            other => Self::UnknownSession(other.to_string()),
        }
    }
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        if let Some(plugin) = &self.plugin {
            match on_request(plugin) {
                Ok(session) => self.session = session,
                Err(failure) => report(plugin, failure),
            }
        }
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        // Taken, so that trailers or a second call find no session.
        if let (Some(plugin), Some((session, outcome))) = (&self.plugin, self.session.take())
            && let Err(failure) = on_response(plugin, &session, outcome)
        {
            report(plugin, failure);
        }
        Action::Continue
    }
}

fn on_request(plugin: &Plugin) -> Result<Option<(Session, RequestOutcome)>, Failure> {
    let request = Request::read()?;
    let Some(mut session) = plugin.filter.session(&request)? else {
        return Ok(None);
    };
    let plan = session.on_request(&request, host::now()?)?;
    let outcome = plan.outcome;
    if let Some(edit) = plan.edit {
        apply(MapType::HttpRequestHeaders, edit)?;
    }
    if let Some(steering) = plan.steering {
        steering::apply(steering)?;
    }
    plugin::count(plugin.counters.request(&session, outcome));
    if plugin.filter.access_log() {
        note(outcome.word())?;
    }
    Ok(Some((session, outcome)))
}

fn on_response(plugin: &Plugin, session: &Session, request: RequestOutcome) -> Result<(), Failure> {
    let plan = session.on_response(&Response, host::now)?;
    if let Some(status) = plan.status {
        apply(
            MapType::HttpResponseHeaders,
            HeaderEdit::Set(":status", status.to_string().into_bytes()),
        )?;
    }
    for edit in plan.edits {
        apply(MapType::HttpResponseHeaders, edit)?;
    }
    plugin::count(plugin.counters.response(session, plan.outcome));
    if let Some(word) = plan.outcome.word()
        && plugin.filter.access_log()
    {
        note(&format!("{}+{word}", request.word()))?;
    }
    Ok(())
}

fn report(plugin: &Plugin, failure: Failure) {
    match failure {
        Failure::Host => plugin::count(Some(plugin.counters.host_errors())),
        Failure::UnknownSession(error) => {
            plugin::count(Some(plugin.counters.unknown_sessions()));
            plugin::log(LogLevel::Debug, &format!("limpet: {error}"));
        }
    }
}

fn apply(map: MapType, edit: HeaderEdit<'_>) -> Result<(), Status> {
    match edit {
        HeaderEdit::Remove(name) => hostcalls::remove_map_value(map, name),
        HeaderEdit::Set(name, value) => hostcalls::set_map_value_bytes(map, name, Some(&value)),
        HeaderEdit::Add(name, value) => hostcalls::add_map_value_bytes(map, name, &value),
    }
}

/// Puts the words of what happened where access logs find them.
fn note(words: &str) -> Result<(), Status> {
    hostcalls::set_property(vec![FILTER_STATE], Some(words.as_bytes()))
}
