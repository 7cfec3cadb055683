//! What a request costs: the host calls and allocations of the filter, with a host that answers as Envoy does.
#![allow(unsafe_code, reason = "the host's side of the calls")]

use std::cell::RefCell;
use std::rc::Rc;

use limpet_core::Filter;
use proxy_wasm::traits::HttpContext;

use crate::headers::buffer;
use crate::plugin::{self, Plugin};
use crate::stream::Stream;

const OK: u32 = 0;
const NOT_FOUND: u32 = 1;

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

#[derive(Default)]
struct Host {
    /// The names of calls, in order.
    calls: Vec<&'static str>,
    /// All headers of the request.
    request: Vec<u8>,
}

fn request(cookie: &str) -> Vec<u8> {
    buffer(&[
        (":authority", "shop.example"),
        (":path", "/"),
        (":method", "GET"),
        (":scheme", "https"),
        ("user-agent", "test"),
        ("accept", "*/*"),
        ("cookie", cookie),
        ("x-forwarded-proto", "https"),
        ("x-request-id", "6b0a1a2e-0b39-4d0c-9c55-52a1a9d3b0f4"),
    ])
}

fn called(name: &'static str) {
    HOST.with_borrow_mut(|host| host.calls.push(name));
}

/// Hands a buffer over to the filter, as a host writes into what the filter has allocated.
fn give(bytes: Vec<u8>, data: *mut *mut u8, size: *mut usize) -> u32 {
    let bytes = Box::leak(bytes.into_boxed_slice());
    // SAFETY: the filter passes pointers to its own variables.
    unsafe {
        size.write(bytes.len());
        data.write(bytes.as_mut_ptr());
    }
    OK
}

fn text(data: *const u8, size: usize) -> String {
    // SAFETY: the filter passes bytes of its own.
    let bytes = unsafe { std::slice::from_raw_parts(data, size) };
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_get_header_map_pairs(_: u32, data: *mut *mut u8, size: *mut usize) -> u32 {
    called("get_header_map_pairs");
    give(HOST.with_borrow(|host| host.request.clone()), data, size)
}

#[unsafe(no_mangle)]
extern "C" fn proxy_get_header_map_value(_: u32, _: *const u8, _: usize, _: *mut *mut u8, _: *mut usize) -> u32 {
    called("get_header_map_value");
    NOT_FOUND
}

#[unsafe(no_mangle)]
extern "C" fn proxy_replace_header_map_value(_: u32, _: *const u8, _: usize, _: *const u8, _: usize) -> u32 {
    called("replace_header_map_value");
    OK
}

#[unsafe(no_mangle)]
extern "C" fn proxy_remove_header_map_value(_: u32, _: *const u8, _: usize) -> u32 {
    called("remove_header_map_value");
    OK
}

#[unsafe(no_mangle)]
extern "C" fn proxy_add_header_map_value(_: u32, name: *const u8, length: usize, data: *const u8, size: usize) -> u32 {
    called("add_header_map_value");
    if text(name, length) == "set-cookie" {
        let field = text(data, size);
        let request = request(field.split(';').next().unwrap());
        HOST.with_borrow_mut(|host| host.request = request);
    }
    OK
}

#[unsafe(no_mangle)]
extern "C" fn proxy_get_property(path: *const u8, length: usize, data: *mut *mut u8, size: *mut usize) -> u32 {
    called("get_property");
    let answer: &[u8] = match text(path, length).as_str() {
        "response\0code_details" => b"via_upstream",
        "upstream\0address" => b"10.0.0.1:8080",
        "xds\0cluster_name" => b"backends",
        _ => return NOT_FOUND,
    };
    give(answer.to_vec(), data, size)
}

#[unsafe(no_mangle)]
extern "C" fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32 {
    called("get_current_time_nanoseconds");
    // SAFETY: the filter passes a pointer to its own variable.
    unsafe { time.write(1_763_718_000_000_000_000) };
    OK
}

#[unsafe(no_mangle)]
extern "C" fn proxy_increment_metric(_: u32, _: i64) -> u32 {
    called("increment_metric");
    OK
}

#[unsafe(no_mangle)]
extern "C" fn proxy_define_metric(_: u32, _: *const u8, _: usize, id: *mut u32) -> u32 {
    called("define_metric");
    // SAFETY: the filter passes a pointer to its own variable.
    unsafe { id.write(7) };
    OK
}

#[unsafe(no_mangle)]
extern "C" fn proxy_set_tick_period_milliseconds(period: u32) -> u32 {
    called(if period == 0 { "no_ticks" } else { "ticks" });
    OK
}

/// Calls that no request here makes.
macro_rules! absent {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> u32 {
            called(stringify!($name));
            NOT_FOUND
        }
    )* };
}

absent! {
    proxy_call_foreign_function proxy_get_shared_data proxy_set_shared_data proxy_log proxy_set_property
}

fn plugin() -> Rc<Plugin> {
    let config = br#"{
        "keys": [{"id": 1, "inline": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}],
        "policies": {"web": {"cookie": {"name": "session"}}},
        "default": {"policy": "web", "scope": "shop"}
    }"#;
    let (filter, _) = Filter::from_json(config, &|_| None).unwrap();
    filter.remember_tokens();
    let counters = plugin::counters(&filter).unwrap();
    Rc::new(Plugin {
        filter,
        counters,
        exact_time: false,
    })
}

/// The calls of a request and its response.
fn visit(plugin: &Rc<Plugin>) -> Vec<&'static str> {
    HOST.with_borrow_mut(|host| host.calls.clear());
    let is_first = HOST.with_borrow(|host| host.request.is_empty());
    if is_first {
        HOST.with_borrow_mut(|host| host.request = request("a=1"));
    }
    let mut stream = Stream::new(Some(Rc::clone(plugin)));
    stream.on_http_request_headers(0, true);
    stream.on_http_response_headers(0, false);
    drop(stream);
    HOST.with_borrow_mut(|host| std::mem::take(&mut host.calls))
}

const STEADY: [&str; 4] = [
    "get_header_map_pairs",
    "remove_header_map_value",
    "replace_header_map_value",
    "get_header_map_value",
];

#[test]
fn a_living_session_makes_four_host_calls() {
    let plugin = plugin();
    visit(&plugin);
    let without_ticks = visit(&plugin);
    assert!(without_ticks.contains(&"get_current_time_nanoseconds") && without_ticks.contains(&"increment_metric"));
    crate::tick::tick();
    crate::tick::tick();
    assert_eq!(visit(&plugin), STEADY);
    HOST.with_borrow_mut(|host| host.calls.clear());
    crate::tick::tick();
    let counted = HOST.with_borrow_mut(|host| std::mem::take(&mut host.calls));
    assert_eq!(counted, ["get_current_time_nanoseconds", "increment_metric"]);
    visit(&plugin);
    crate::tick::stop();
    let last = HOST.with_borrow_mut(|host| std::mem::take(&mut host.calls));
    assert_eq!(
        last,
        ["no_ticks", "increment_metric"],
        "a count was lost, or Envoy's timer goes on"
    );
}

/// Envoy keeps another id for each counter that is defined, for as long as the VM lives.
#[test]
fn a_new_configuration_defines_no_counter_twice() {
    let defined = || {
        HOST.with_borrow_mut(|host| host.calls.clear());
        plugin();
        HOST.with_borrow_mut(|host| std::mem::take(&mut host.calls))
    };
    assert!(defined().contains(&"define_metric"));
    assert_eq!(defined(), [""; 0]);
}

/// Of them, the host's buffer and the list of calls are the test's own, and the buffer would be the filter's in a VM.
#[test]
fn a_living_session_allocates_little() {
    let plugin = plugin();
    crate::tick::tick();
    crate::tick::tick();
    visit(&plugin);
    visit(&plugin);
    let measured = allocation_counter::measure(|| assert_eq!(visit(&plugin), STEADY));
    let allocations = measured.count_total;
    println!("{allocations} allocations");
    assert!(allocations <= 8, "{allocations} allocations");
}
