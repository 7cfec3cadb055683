//! Requests that panic on demand.

use std::sync::Arc;

use crate::abi::{EnvoyFilter, HeaderType};
use crate::plugin::ModulePlugin;
use crate::shipped::stream as shipped;

pub(crate) struct ModuleStream {
    shipped: shipped::ModuleStream,
    /// The panic shows it, so that tests can look for secrets in its message.
    plugin: Arc<ModulePlugin>,
    panics: String,
}

impl ModuleStream {
    pub(crate) fn new(plugin: Arc<ModulePlugin>) -> Self {
        plugin.panic_in("http_filter_new");
        Self {
            shipped: shipped::ModuleStream::new(Arc::clone(&plugin)),
            plugin,
            panics: String::new(),
        }
    }

    pub(crate) fn on_request(&mut self, exchange: &mut EnvoyFilter<'_>) {
        let fields: Vec<&[u8]> = exchange
            .fields(HeaderType::Request, "x-panic")
            .into_iter()
            .flatten()
            .collect();
        self.panics = String::from_utf8_lossy(&fields.join(b" ".as_slice())).into_owned();
        self.panic_in("request_headers");
        self.shipped.on_request(exchange);
    }

    pub(crate) fn on_local_reply(&mut self, details: &[u8]) {
        self.panic_in("local_reply");
        self.shipped.on_local_reply(details);
    }

    pub(crate) fn on_response(&mut self, exchange: &mut EnvoyFilter<'_>) {
        self.panic_in("response_headers");
        self.shipped.on_response(exchange);
    }

    pub(crate) fn on_complete(&mut self, exchange: &mut EnvoyFilter<'_>) {
        self.panic_in("stream_complete");
        self.shipped.on_complete(exchange);
    }

    pub(crate) fn abort(&mut self, exchange: &EnvoyFilter<'_>) {
        self.panic_in("give_up");
        self.shipped.abort(exchange);
    }

    fn panic_in(&self, hook: &str) {
        let asked = self.panics.split(' ').any(|named| named == hook);
        assert!(!asked, "in {hook}, as a test asked for: {:?}", self.plugin);
    }
}

impl Drop for ModuleStream {
    fn drop(&mut self) {
        self.panic_in("destroy");
    }
}
