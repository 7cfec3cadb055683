//! The SDK's filter without a function, with every exported hook.

use proxy_wasm::traits::{Context, HttpContext};

struct NoopFilter;

impl Context for NoopFilter {}
impl HttpContext for NoopFilter {}

// The macro exports `_initialize`. The linker must find this name.
#[allow(unsafe_code)]
mod entry {
    use super::{HttpContext, NoopFilter};

    proxy_wasm::main! {{
        proxy_wasm::set_http_context(|_, _| -> Box<dyn HttpContext> { Box::new(NoopFilter) });
    }}
}
