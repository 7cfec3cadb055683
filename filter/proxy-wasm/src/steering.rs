//! How the wasm filter steers: headers for the native `stateful_session` filters behind it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::view::ViewError;
use limpet_core::{Steering, address};
use proxy_wasm::hostcalls;
use proxy_wasm::types::MapType;

use crate::host;

/// Read by the filter that falls back to load balancing.
pub(crate) const HOST: &str = "x-limpet-host";
/// Read by the one with `strict: true`.
pub(crate) const HOST_STRICT: &str = "x-limpet-host-strict";

/// The header of a policy's kind.
pub(crate) fn header(strict: bool) -> &'static str {
    if strict { HOST_STRICT } else { HOST }
}

/// Sends the request where `steering` says.
pub(crate) fn apply(steering: Steering) -> Result<(), ViewError> {
    let set = |name, value: &str| {
        hostcalls::set_map_value(MapType::HttpRequestHeaders, name, Some(value)).map_err(host::failed("the steering"))
    };
    let host = STANDARD.encode(address::text(steering.host));
    set(header(steering.strict), &host)?;
    if steering.strict {
        // A retry ignores the override host and would reach another backend.
        set("x-envoy-max-retries", "0")?;
    }
    Ok(())
}
