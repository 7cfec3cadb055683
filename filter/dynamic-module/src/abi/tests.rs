//! The boundary to Envoy, with a fake Envoy.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed test"
)]

use std::cell::RefCell;

use super::*;

const CONFIG: &[u8] = br#"{
    "keys": [{"id": 1, "inline": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}],
    "policies": {"web": {"cookie": {"name": "session"}}},
    "default": {"policy": "web", "scope": "default"}
}"#;

thread_local! {
    /// The counters of the fake by their numbers, and their values.
    static COUNTERS: RefCell<Vec<(String, u64)>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn log(_: c_int, _: Buffer) {}

extern "C" fn no_header(_: *mut c_void, _: c_int, _: Buffer, _: *mut Buffer, _: usize, total: *mut usize) -> bool {
    // SAFETY: the caller lends a number to fill in.
    unsafe { *total = 0 };
    false
}

extern "C" fn change_header(_: *mut c_void, _: c_int, _: Buffer, _: Buffer) -> bool {
    true
}

extern "C" fn no_attribute(_: *mut c_void, _: c_int, _: *mut Buffer) -> bool {
    false
}

extern "C" fn no_route_config(_: *mut c_void) -> *const c_void {
    ptr::null()
}

extern "C" fn no_cluster(_: *mut c_void, _: *mut Buffer) -> bool {
    false
}

extern "C" fn no_metadata(_: *mut c_void, _: c_int, _: Buffer, _: Buffer, _: *mut Buffer) -> bool {
    false
}

extern "C" fn set_filter_state(_: *mut c_void, _: Buffer, _: Buffer) -> bool {
    true
}

extern "C" fn keep_route(_: *mut c_void) {}

extern "C" fn refuse_host(_: *mut c_void, _: Buffer, _: bool) -> bool {
    false
}

extern "C" fn define(_: *mut c_void, name: Buffer, _: *mut Buffer, _: usize, id: *mut usize) -> c_int {
    COUNTERS.with_borrow_mut(|counters| {
        // SAFETY: the caller lends a name, and a number to fill in.
        let name = unsafe {
            *id = counters.len();
            name.bytes().to_vec()
        };
        counters.push((String::from_utf8(name).unwrap(), 0));
    });
    0
}

extern "C" fn increment(_: *mut c_void, id: usize, _: *mut Buffer, _: usize, by: u64) -> c_int {
    COUNTERS.with_borrow_mut(|counters| counters[id].1 += by);
    0
}

/// Counters that are not 0.
fn counted() -> Vec<(String, u64)> {
    COUNTERS.with_borrow(|counters| counters.iter().filter(|(_, count)| *count > 0).cloned().collect())
}

/// A configuration and a stream, created as Envoy creates them.
fn start() -> (*const c_void, *const c_void) {
    CALLBACKS.get_or_init(|| Callbacks {
        log,
        http_get_header: no_header,
        http_set_header: change_header,
        http_add_header: change_header,
        http_filter_get_attribute_string: no_attribute,
        get_most_specific_route_config: no_route_config,
        http_get_cluster_name: no_cluster,
        http_clear_route_cache: keep_route,
        http_get_metadata_string: no_metadata,
        http_set_filter_state_bytes: set_filter_state,
        http_set_filter_state_typed: set_filter_state,
        http_set_upstream_override_host: refuse_host,
        http_filter_config_define_counter: define,
        http_filter_increment_counter: increment,
    });
    // SAFETY: called as Envoy calls it.
    unsafe {
        let config = envoy_dynamic_module_on_http_filter_config_new(
            ptr::null_mut(),
            Buffer::lend(b"limpet"),
            Buffer::lend(CONFIG),
        );
        assert!(!config.is_null());
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
        about(ptr::null_mut(), stream, Stream::on_request);
        about(ptr::null_mut(), stream, |_, _| panic!("of a test"));
    }
    let expected = [
        ("limpet.web.no_token".to_owned(), 1),
        ("limpet.host_errors".to_owned(), 1),
    ];
    assert_eq!(counted(), expected);
    // SAFETY: as above.
    let status = unsafe { envoy_dynamic_module_on_http_filter_response_headers(ptr::null_mut(), stream, true) };
    assert_eq!(status, CONTINUE);
    assert_eq!(counted(), expected);
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
    // SAFETY: called as Envoy calls it.
    let made = unsafe { envoy_dynamic_module_on_http_filter_config_new(ptr::null_mut(), Buffer::NONE, Buffer::NONE) };
    assert!(made.is_null());
}

/// Outside of Envoy there are no callbacks, just as in an Envoy that is too old.
#[test]
fn without_its_callbacks_the_module_refuses_to_load() {
    assert_eq!(Callbacks::find().err(), Some(c"envoy_dynamic_module_callback_log"));
    assert!(envoy_dynamic_module_on_program_init().is_null());
}
