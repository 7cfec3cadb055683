//! The Limpet filter as a proxy-wasm module.
//!
//! An adapter and no more: it answers the core's questions by host calls ([`host`]) and carries out its plans
//! ([`stream`]). What a session is, the core says.
//!
//! Steering goes through two native `stateful_session` filters behind this one: one reads `x-limpet-host`, the strict
//! one `x-limpet-host-strict`. They put the same headers into the response where another host answered.

mod host;
mod plugin;
mod root;
mod steering;
mod stream;

use proxy_wasm::traits::RootContext;

// The macro exports `_initialize`, which the linker must find by that name.
#[allow(unsafe_code)]
mod entry {
    use super::{RootContext, root};

    proxy_wasm::main! {{
        proxy_wasm::set_log_level(proxy_wasm::types::LogLevel::Warn);
        proxy_wasm::set_root_context(|_| -> Box<dyn RootContext> { Box::new(root::Root::default()) });
    }}
}
