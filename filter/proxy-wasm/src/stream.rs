use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::census::Census;
use limpet_core::envoy::HASH_STATE;
use limpet_core::outcome::{self, FILTER_STATE, RequestOutcome, ResponseOutcome};
use limpet_core::view::ViewError;
use limpet_core::{Actions, RequestSession, SessionError, Steering, address};
use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, LogLevel, MapType};

use crate::census::CENSUS;
use crate::host::{self, UNANSWERED, WasmRequest, WasmResponse, host_header};
use crate::plugin::{self, WasmPlugin};

pub(crate) struct WasmStream {
    plugin: Option<Rc<WasmPlugin>>,
    ongoing: Option<OngoingRequest>,
}

struct OngoingRequest {
    https: bool,
    session: RequestSession,
    outcome: Option<RequestOutcome>,
}

impl WasmStream {
    pub(crate) fn new(plugin: Option<Rc<WasmPlugin>>) -> Self {
        Self { plugin, ongoing: None }
    }
}

impl Drop for WasmStream {
    fn drop(&mut self) {
        // Without a response, Envoy may begin the request again at once.
        if let Some(ongoing) = self.ongoing.take() {
            ongoing.session.end_unanswered(&UNANSWERED, host::now);
        }
    }
}

impl Context for WasmStream {}

impl HttpContext for WasmStream {
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

fn on_request(plugin: &WasmPlugin) -> Result<Option<OngoingRequest>, SessionError> {
    let mut request = WasmRequest::read()?;
    let Some(mut session) = plugin.filter.session(&request)? else {
        return Ok(None);
    };
    let policy = session.policy_index();
    let plan = session.on_request(&mut request, plugin.now()?)?;
    let mut message = WasmActions {
        plugin,
        headers: MapType::HttpRequestHeaders,
        outcome: None,
    };
    plan.apply(&mut message, &plugin.counters, policy)?;
    Ok(Some(OngoingRequest {
        https: request.is_https()?,
        outcome: message.outcome,
        session,
    }))
}

fn on_response(plugin: &WasmPlugin, ongoing: OngoingRequest) -> Result<(), SessionError> {
    let OngoingRequest {
        https,
        mut session,
        outcome,
    } = ongoing;
    let policy = session.policy_index();
    let plan = session.on_response(&WasmResponse::new(https), || plugin.now())?;
    let mut message = WasmActions {
        plugin,
        headers: MapType::HttpResponseHeaders,
        outcome,
    };
    Ok(plan.apply(&mut message, &plugin.counters, policy)?)
}

struct WasmActions<'a> {
    plugin: &'a WasmPlugin,
    headers: MapType,
    outcome: Option<RequestOutcome>,
}

impl Actions for WasmActions<'_> {
    type Counter = u32;

    fn remove_header(&mut self, name: &str) -> Result<(), ViewError> {
        hostcalls::remove_map_value(self.headers, name).map_err(host::failed("a removal of a header"))
    }

    fn set_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError> {
        hostcalls::set_map_value_bytes(self.headers, name, Some(value)).map_err(host::failed("a change of a header"))
    }

    fn add_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError> {
        hostcalls::add_map_value_bytes(self.headers, name, value).map_err(host::failed("a new header"))
    }

    fn hash(&mut self, address: &str) -> Result<(), ViewError> {
        // `SetEnvoyFilterStateArguments` in protocol buffers: two strings, each shorter than 128 bytes; by default for
        // the life of the request.
        let mut arguments = Vec::new();
        for (field, text) in [(1_u8, HASH_STATE), (2, address)] {
            let length = u8::try_from(text.len()).unwrap_or_default();
            arguments.extend([field << 3 | 2, length]);
            arguments.extend_from_slice(text.as_bytes());
        }
        let set = hostcalls::call_foreign_function("set_envoy_filter_state", Some(&arguments));
        set.map(drop).map_err(host::failed("the hash of the address"))
    }

    fn steer(&mut self, steering: Steering) -> Result<(), ViewError> {
        // For a native `stateful_session` filter behind this one.
        let host = STANDARD.encode(address::text(steering.host).as_bytes());
        self.set_header(host_header(steering.strict), host.as_bytes())
    }

    fn count(&mut self, counter: Option<&u32>) {
        plugin::count(counter);
    }

    fn record(&mut self, tell: impl FnOnce(&Census)) {
        CENSUS.with_borrow(|census| census.as_ref().map(tell));
    }

    fn warn(&mut self, line: &str) {
        plugin::log(LogLevel::Warn, &format!("limpet: {line}"));
    }

    fn warn_once(&mut self, line: String) {
        plugin::warn_once(&line);
    }

    fn log_outcome(&mut self, request: Option<RequestOutcome>, response: ResponseOutcome) -> Result<(), ViewError> {
        let is_new = request.is_some() || response != ResponseOutcome::Unchanged;
        self.outcome = self.outcome.or(request);
        match self.outcome {
            Some(outcome) if is_new && self.plugin.filter.access_log() => {
                let words = outcome::access_log_value(outcome, response);
                hostcalls::set_property(vec![FILTER_STATE], Some(words.as_bytes()))
                    .map_err(host::failed("filter state"))
            }
            _ => Ok(()),
        }
    }
}

/// Counts why a request continues without a session.
fn report(plugin: &WasmPlugin, error: &SessionError) {
    plugin::count(plugin.counters.error(error));
    if let SessionError::UnknownSession(_) = error {
        plugin::log(LogLevel::Debug, &format!("limpet: {error}"));
    }
}
