//! The Limpet filter as a proxy-wasm module: an adapter. [`host`] answers the core's questions with host calls, and
//! [`stream`] carries out its plans.
//!
//! Two native `stateful_session` filters behind this one steer: one reads `x-limpet-host`, the strict one
//! `x-limpet-host-strict`. They add the same headers to the response if another host answered.

mod abi;
mod budgets;
mod census;
#[cfg(test)]
mod fake_host;
mod headers;
mod host;
mod plugin;
mod reporter;
mod root;
mod stream;
mod table;
mod tick;

use proxy_wasm::traits::RootContext;

// The linker must find the macro's `_initialize` by that name.
#[allow(unsafe_code)]
mod entry {
    use super::{RootContext, root};

    proxy_wasm::main! {{
        proxy_wasm::set_log_level(proxy_wasm::types::LogLevel::Warn);
        proxy_wasm::set_root_context(|_| -> Box<dyn RootContext> { Box::new(root::WasmRoot::default()) });
    }}
}
