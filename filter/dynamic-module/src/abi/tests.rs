//! The boundary to Envoy, with a fake Envoy.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed test"
)]

mod exchanges;
mod host;
mod steady;

use super::*;
use host::host;

const CONFIG: &[u8] = br#"{
    "keys": [{"id": 1, "inline": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}],
    "policies": {
        "web": {"cookie": {"name": "session"}},
        "forwarded": {"cookie": {"name": "session", "forward": true}}
    },
    "default": {"policy": "web", "scope": "default"}
}"#;

fn configured(config: &[u8]) -> *const c_void {
    CALLBACKS.get_or_init(host::callbacks);
    let (name, config) = (Buffer::lend(b"limpet"), Buffer::lend(config));
    // SAFETY: called as Envoy calls it.
    let config = unsafe { envoy_dynamic_module_on_http_filter_config_new(ptr::null_mut(), name, config) };
    assert!(!config.is_null());
    config
}

fn start() -> (*const c_void, *const c_void) {
    let config = configured(CONFIG);
    // SAFETY: called as Envoy calls it.
    unsafe {
        let stream = envoy_dynamic_module_on_http_filter_new(config, ptr::null_mut());
        assert!(!stream.is_null());
        (config, stream)
    }
}

fn end((config, stream): (*const c_void, *const c_void)) {
    // SAFETY: each is destroyed once. Envoy may drop a configuration before its streams.
    unsafe {
        envoy_dynamic_module_on_http_filter_config_destroy(config);
        envoy_dynamic_module_on_http_filter_stream_complete(ptr::null_mut(), stream);
        envoy_dynamic_module_on_http_filter_destroy(stream);
    }
}

#[test]
fn a_panic_is_caught_and_the_request_is_counted_and_untouched() {
    let (config, stream) = start();
    // SAFETY: the stream is alive, and the fake ignores handles.
    unsafe {
        about(ptr::null_mut(), stream, ModuleStream::on_request);
        about(ptr::null_mut(), stream, |_, _| panic!("of a test"));
    }
    let expected = [
        ("limpet.web.no_token".to_owned(), 1),
        ("limpet.host_errors".to_owned(), 1),
    ];
    assert_eq!(host(|host| host.counted()), expected);
    // SAFETY: as above.
    let status = unsafe { envoy_dynamic_module_on_http_filter_response_headers(ptr::null_mut(), stream, true) };
    assert_eq!(status, CONTINUE);
    assert_eq!(host(|host| host.counted()), expected);
    end((config, stream));
}

#[test]
fn a_bad_configuration_is_refused() {
    end(start());
    for config in [b"".as_slice(), b"{", b"{}", b"\xff"] {
        let config = Buffer::lend(config);
        // SAFETY: called as Envoy calls it.
        let made = unsafe { envoy_dynamic_module_on_http_filter_config_new(ptr::null_mut(), Buffer::NONE, config) };
        assert!(made.is_null());
    }
    // SAFETY: as above.
    let made = unsafe { envoy_dynamic_module_on_http_filter_config_new(ptr::null_mut(), Buffer::NONE, Buffer::NONE) };
    assert!(made.is_null());
}

/// Outside of Envoy there are no callbacks, as in an Envoy that is too old.
#[test]
fn without_its_callbacks_the_module_refuses_to_load() {
    assert_eq!(Callbacks::find().err(), Some(c"envoy_dynamic_module_callback_log"));
    assert!(envoy_dynamic_module_on_program_init().is_null());
}
