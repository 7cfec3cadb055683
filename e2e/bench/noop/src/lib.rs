//! The SDK's filter that does nothing, with every hook that the SDK exports.

use proxy_wasm::traits::{Context, HttpContext};

struct Nothing;

impl Context for Nothing {}
impl HttpContext for Nothing {}

// The macro exports `_initialize`, which the linker must find by that name.
#[allow(unsafe_code)]
mod entry {
    use super::{HttpContext, Nothing};

    proxy_wasm::main! {{
        proxy_wasm::set_http_context(|_, _| -> Box<dyn HttpContext> { Box::new(Nothing) });
    }}
}
