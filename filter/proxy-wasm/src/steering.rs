//! How the wasm filter steers: headers for the native `stateful_session` filters behind it.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::Steering;
use limpet_core::view::ViewError;
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
    let host = STANDARD.encode(text(steering.host));
    set(header(steering.strict), &host)?;
    if steering.strict {
        // A retry ignores the override host and would reach another backend.
        set("x-envoy-max-retries", "0")?;
    }
    Ok(())
}

/// `ip:port` as Envoy writes it. Without the standard library's formatting for the usual case: its code is large, cold
/// when it is needed once per request, and showed in measurements.
fn text(host: SocketAddr) -> String {
    let SocketAddr::V4(host) = host else {
        return host.to_string();
    };
    let mut text = String::with_capacity("255.255.255.255:65535".len());
    let mut digits = itoa::Buffer::new();
    for (i, octet) in host.ip().octets().into_iter().enumerate() {
        if i > 0 {
            text.push('.');
        }
        text.push_str(digits.format(octet));
    }
    text.push(':');
    text.push_str(digits.format(host.port()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_standard_library_does() {
        for host in [
            "0.0.0.0:0",
            "10.0.0.7:8080",
            "255.255.255.255:65535",
            "[::1]:80",
            "[2001:db8::7]:443",
        ] {
            assert_eq!(text(host.parse().unwrap()), host);
        }
    }
}
