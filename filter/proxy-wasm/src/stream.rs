//! A request and its response.

use std::rc::Rc;

use limpet_core::outcome::{self, FILTER_STATE, RequestOutcome, ResponseOutcome};
use limpet_core::view::ViewError;
use limpet_core::{HeaderEdit, Session, SessionError};
use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, LogLevel, MapType};

use crate::census;
use crate::host::{self, Request, Response, UNANSWERED};
use crate::plugin::{self, Plugin};
use crate::steering;

pub(crate) struct Stream {
    plugin: Option<Rc<Plugin>>,
    ongoing: Option<Ongoing>,
}

/// A request that waits for its response.
struct Ongoing {
    https: bool,
    session: Session,
    outcome: Option<RequestOutcome>,
}

impl Stream {
    pub(crate) fn new(plugin: Option<Rc<Plugin>>) -> Self {
        Self { plugin, ongoing: None }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Without a response, Envoy may begin the request again at once.
        if let Some(ongoing) = self.ongoing.take() {
            ongoing.session.end_unanswered(&UNANSWERED, host::now);
        }
    }
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        if let Some(plugin) = &self.plugin {
            match on_request(plugin) {
                Ok(ongoing) => self.ongoing = ongoing,
                Err(error) => report(plugin, &error),
            }
        }
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        // `take`, so that trailers and a second call find no session.
        if let (Some(plugin), Some(ongoing)) = (&self.plugin, self.ongoing.take())
            && let Err(error) = on_response(plugin, ongoing)
        {
            report(plugin, &error);
        }
        Action::Continue
    }
}

fn on_request(plugin: &Plugin) -> Result<Option<Ongoing>, SessionError> {
    let mut request = Request::read()?;
    let Some(mut session) = plugin.filter.session(&request)? else {
        return Ok(None);
    };
    let plan = session.on_request(&mut request, plugin.now()?)?;
    let outcome = plan.outcome;
    for edit in plan.edit.into_iter().chain(plan.further_edits) {
        apply(MapType::HttpRequestHeaders, edit)?;
    }
    if let Some(ip) = plan.hash {
        steering::hash(ip)?;
    }
    if let Some(steering) = plan.steering {
        steering::apply(steering)?;
    }
    if let Some(outcome) = outcome {
        plugin::count(plugin.counters.request(session.policy_index(), outcome));
        if plugin.filter.access_log() {
            set_filter_state(outcome.word())?;
        }
    }
    Ok(Some(Ongoing {
        https: request.is_https()?,
        session,
        outcome,
    }))
}

fn on_response(plugin: &Plugin, ongoing: Ongoing) -> Result<(), SessionError> {
    let Ongoing {
        https,
        mut session,
        outcome: known,
    } = ongoing;
    let policy = session.policy_index();
    let plan = session.on_response(&Response::to(https), || plugin.now())?;
    if let Some(status) = plan.status {
        apply(
            MapType::HttpResponseHeaders,
            HeaderEdit::Set(":status", status.to_string().into_bytes()),
        )?;
    }
    for edit in plan.edits {
        apply(MapType::HttpResponseHeaders, edit)?;
    }
    if let Some(outcome) = plan.request {
        plugin::count(plugin.counters.request(policy, outcome));
    }
    plugin::count(plugin.counters.response(policy, plan.outcome));
    if plan.evicted {
        plugin::count(plugin.counters.evicted(policy));
    }
    if let Some(refused) = plan.refused_move {
        plugin::count(plugin.counters.refused_moves(policy));
        if let Some(line) = refused.line {
            plugin::log(LogLevel::Warn, &format!("limpet: {line}"));
        }
    }
    census::count(plan.seen.as_ref(), plan.left);
    if let Some(change) = plan.key_change {
        plugin
            .counters
            .key_change(change)
            .for_each(|counter| plugin::count(Some(counter)));
    }
    if let Some(conflict) = plan.name_conflict {
        plugin::count(plugin.counters.name_conflicts(policy));
        conflict.line.iter().for_each(|line| plugin::warn_once(line));
    }
    let is_new = plan.request.is_some() || plan.outcome != ResponseOutcome::Unchanged;
    if let Some(request) = known.or(plan.request)
        && is_new
        && plugin.filter.access_log()
    {
        set_filter_state(&outcome::access_log_value(request, plan.outcome))?;
    }
    Ok(())
}

/// Counts why a request continues without a session.
fn report(plugin: &Plugin, error: &SessionError) {
    plugin::count(plugin.counters.error(error));
    if let SessionError::UnknownSession(_) = error {
        plugin::log(LogLevel::Debug, &format!("limpet: {error}"));
    }
}

fn apply(map: MapType, edit: HeaderEdit<'_>) -> Result<(), ViewError> {
    match edit {
        HeaderEdit::Remove(name) => hostcalls::remove_map_value(map, name),
        HeaderEdit::Set(name, value) => hostcalls::set_map_value_bytes(map, name, Some(&value)),
        HeaderEdit::Add(name, value) => hostcalls::add_map_value_bytes(map, name, &value),
    }
    .map_err(host::failed("a change of a header"))
}

/// Writes the outcome to the filter state for access logs.
fn set_filter_state(words: &str) -> Result<(), ViewError> {
    hostcalls::set_property(vec![FILTER_STATE], Some(words.as_bytes())).map_err(host::failed("filter state"))
}
