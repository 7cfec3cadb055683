//! Steers requests by headers for Envoy's native `stateful_session` filters behind this one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::envoy::MAX_RETRIES_HEADER;
use limpet_core::view::ViewError;
use limpet_core::{Steering, address};
use proxy_wasm::hostcalls;
use proxy_wasm::types::MapType;

use crate::host::{self, host_header};

/// Sends the request to the host of `steering`.
pub(crate) fn apply(steering: Steering) -> Result<(), ViewError> {
    let set = |name, value: &str| {
        hostcalls::set_map_value(MapType::HttpRequestHeaders, name, Some(value)).map_err(host::failed("the steering"))
    };
    let host = STANDARD.encode(address::text(steering.host));
    set(host_header(steering.strict), &host)?;
    if steering.strict {
        // A retry would ignore the override host and reach another backend.
        set(MAX_RETRIES_HEADER, "0")?;
    }
    Ok(())
}
