//! Steers requests: by headers for Envoy's native `stateful_session` filters behind this one, and by what load
//! balancing hashes.

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::envoy::{HASH_STATE, MAX_RETRIES_HEADER};
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
    let host = STANDARD.encode(address::text(steering.host).as_bytes());
    set(host_header(steering.strict), &host)?;
    if steering.strict {
        // A retry would ignore the override host and reach another backend.
        set(MAX_RETRIES_HEADER, "0")?;
    }
    Ok(())
}

/// Makes load balancing hash this address in the place of the client's.
pub(crate) fn hash(ip: IpAddr) -> Result<(), ViewError> {
    let value = SocketAddr::new(ip, 0).to_string();
    // `SetEnvoyFilterStateArguments` in protocol buffers: two strings, each shorter than 128 bytes. The third field's
    // default is the life of the request.
    let mut arguments = Vec::new();
    for (field, text) in [(1_u8, HASH_STATE), (2, &value)] {
        let length = u8::try_from(text.len()).unwrap_or_default();
        arguments.extend([field << 3 | 2, length]);
        arguments.extend_from_slice(text.as_bytes());
    }
    let set = hostcalls::call_foreign_function("set_envoy_filter_state", Some(&arguments));
    set.map(drop).map_err(host::failed("the hash of the address"))
}
