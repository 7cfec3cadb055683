//! How the wasm filter steers: headers for the native `stateful_session` filters behind it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::names::{HOST_HEADER, MAX_RETRIES_HEADER, STRICT_HOST_HEADER};
use limpet_core::view::ViewError;
use limpet_core::{Steering, address};
use proxy_wasm::hostcalls;
use proxy_wasm::types::MapType;

use crate::host;

/// The header of a policy's kind.
pub(crate) fn header(strict: bool) -> &'static str {
    if strict { STRICT_HOST_HEADER } else { HOST_HEADER }
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
        set(MAX_RETRIES_HEADER, "0")?;
    }
    Ok(())
}
