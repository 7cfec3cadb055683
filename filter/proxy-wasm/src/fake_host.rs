//! A host that answers as Envoy does, and what a request costs: host calls and allocations.
#![allow(unsafe_code, reason = "the host's side of the calls")]

mod exchanges;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::Filter;
use limpet_core::envoy::{HASH_STATE, HOST_HEADER, STRICT_HOST_HEADER};
use limpet_core::outcome::FILTER_STATE;
use proxy_wasm::traits::HttpContext;
use proxy_wasm::types::{LogLevel, MapType};

use crate::headers::buffer;
use crate::plugin::{self, WasmPlugin};
use crate::stream::WasmStream;

const OK: u32 = 0;
const NOT_FOUND: u32 = 1;
const BAD_ARGUMENT: u32 = 2;
const CAS_MISMATCH: u32 = 8;

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

#[derive(Default)]
struct Host {
    calls: Vec<&'static str>,
    request: Vec<u8>,
    counters: Vec<String>,
    /// With their versions.
    shared: BTreeMap<String, (Vec<u8>, u32)>,
    exchange: Option<exchanges::Ongoing>,
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

fn done(write: impl FnOnce(&mut exchanges::Ongoing)) -> u32 {
    HOST.with_borrow_mut(|host| host.exchange.as_mut().map(write));
    OK
}

/// Hands a buffer over, as if in memory that the filter has allocated.
fn give(bytes: Vec<u8>, data: *mut *mut u8, size: *mut usize) -> u32 {
    let bytes = Box::leak(bytes.into_boxed_slice());
    // SAFETY: the filter passes pointers to its own variables.
    unsafe {
        size.write(bytes.len());
        data.write(bytes.as_mut_ptr());
    }
    OK
}

fn bytes<'a>(data: *const u8, size: usize) -> &'a [u8] {
    // SAFETY: the filter's own bytes, which stay during the call.
    unsafe { std::slice::from_raw_parts(data, size) }
}

fn text(data: *const u8, size: usize) -> String {
    String::from_utf8(bytes(data, size).to_vec()).unwrap()
}

fn is_response(map: u32) -> bool {
    map == MapType::HttpResponseHeaders as u32
}

#[unsafe(no_mangle)]
extern "C" fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32 {
    called("get_header_map_pairs");
    let all = HOST.with_borrow(|host| match &host.exchange {
        Some(exchange) if is_response(map) => exchange.response(),
        _ => host.request.clone(),
    });
    give(all, data, size)
}

#[unsafe(no_mangle)]
extern "C" fn proxy_get_header_map_value(
    map: u32,
    name: *const u8,
    length: usize,
    data: *mut *mut u8,
    size: *mut usize,
) -> u32 {
    called("get_header_map_value");
    let field = HOST.with_borrow(|host| {
        let exchange = host.exchange.as_ref().filter(|_| is_response(map))?;
        exchange.response_field(&text(name, length))
    });
    field.map_or(NOT_FOUND, |field| give(field, data, size))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_replace_header_map_value(
    map: u32,
    name: *const u8,
    length: usize,
    data: *const u8,
    size: usize,
) -> u32 {
    called("replace_header_map_value");
    done(|exchange| {
        let (name, value) = (text(name, length), text(data, size));
        if [HOST_HEADER, STRICT_HOST_HEADER].contains(&name.as_str()) {
            let host = String::from_utf8(STANDARD.decode(value).unwrap());
            exchange.done.steered = Some(host.unwrap());
            exchange.done.strict = name == STRICT_HOST_HEADER;
        } else {
            exchange.change(is_response(map), format!("set {name}: {value}"));
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_remove_header_map_value(map: u32, name: *const u8, length: usize) -> u32 {
    called("remove_header_map_value");
    done(|exchange| exchange.change(is_response(map), format!("remove {}", text(name, length))))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_add_header_map_value(
    map: u32,
    name: *const u8,
    length: usize,
    data: *const u8,
    size: usize,
) -> u32 {
    called("add_header_map_value");
    if text(name, length) == "set-cookie" {
        let field = text(data, size);
        let request = request(field.split(';').next().unwrap());
        HOST.with_borrow_mut(|host| host.request = request);
    }
    done(|exchange| {
        let change = format!("add {}: {}", text(name, length), text(data, size));
        exchange.change(is_response(map), change);
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_get_property(path: *const u8, length: usize, data: *mut *mut u8, size: *mut usize) -> u32 {
    called("get_property");
    let known = HOST.with_borrow(|host| {
        let exchange = host.exchange.as_ref()?;
        Some(exchange.property(&text(path, length)))
    });
    if let Some(known) = known {
        return known.map_or(NOT_FOUND, |answer| give(answer, data, size));
    }
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
extern "C" fn proxy_increment_metric(id: u32, _: i64) -> u32 {
    called("increment_metric");
    HOST.with_borrow_mut(|host| {
        if let Some(exchange) = &mut host.exchange {
            exchange.done.counted.extend(host.counters.get(id as usize).cloned());
        }
    });
    OK
}

#[unsafe(no_mangle)]
extern "C" fn proxy_define_metric(_: u32, name: *const u8, length: usize, id: *mut u32) -> u32 {
    called("define_metric");
    HOST.with_borrow_mut(|host| {
        // SAFETY: the filter passes a pointer to its own variable.
        unsafe { id.write(u32::try_from(host.counters.len()).unwrap()) };
        host.counters.push(text(name, length));
    });
    OK
}

#[unsafe(no_mangle)]
extern "C" fn proxy_log(level: u32, data: *const u8, size: usize) -> u32 {
    called("log");
    if level < LogLevel::Warn as u32 {
        return OK;
    }
    done(|exchange| {
        let line = text(data, size);
        exchange
            .done
            .warned
            .push(line.strip_prefix("limpet: ").unwrap().to_owned());
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_set_property(path: *const u8, length: usize, data: *const u8, size: usize) -> u32 {
    called("set_property");
    if text(path, length) != FILTER_STATE {
        return NOT_FOUND;
    }
    done(|exchange| exchange.done.logged = Some(text(data, size)))
}

/// `SetEnvoyFilterStateArguments`: a name and a value, both short.
#[unsafe(no_mangle)]
extern "C" fn proxy_call_foreign_function(
    name: *const u8,
    length: usize,
    data: *const u8,
    size: usize,
    _: *mut *mut u8,
    _: *mut usize,
) -> u32 {
    called("call_foreign_function");
    match text(name, length).as_str() {
        "set_envoy_filter_state" => {}
        "clear_route_cache" => return done(exchanges::Ongoing::lead),
        _ => return NOT_FOUND,
    }
    let length = u8::try_from(HASH_STATE.len()).unwrap();
    let named = [&[0x0A, length], HASH_STATE.as_bytes(), &[0x12]].concat();
    let value = bytes(data, size)
        .strip_prefix(named.as_slice())
        .and_then(<[u8]>::split_first);
    let Some((_, value)) = value.filter(|(length, value)| usize::from(**length) == value.len()) else {
        return BAD_ARGUMENT;
    };
    let value = String::from_utf8(value.to_vec()).unwrap();
    done(|exchange| exchange.done.hash = Some(value))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_get_shared_data(
    name: *const u8,
    length: usize,
    data: *mut *mut u8,
    size: *mut usize,
    version: *mut u32,
) -> u32 {
    called("get_shared_data");
    let known = HOST.with_borrow(|host| host.shared.get(&text(name, length)).cloned());
    known.map_or(NOT_FOUND, |(content, at)| {
        // SAFETY: the filter passes a pointer to its own variable.
        unsafe { version.write(at) };
        give(content, data, size)
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_set_shared_data(name: *const u8, length: usize, data: *const u8, size: usize, version: u32) -> u32 {
    called("set_shared_data");
    HOST.with_borrow_mut(|host| {
        let (content, at) = host.shared.entry(text(name, length)).or_default();
        if version != 0 && version != *at {
            return CAS_MISMATCH;
        }
        *content = bytes(data, size).to_vec();
        *at += 1;
        OK
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_set_tick_period_milliseconds(period: u32) -> u32 {
    called(if period == 0 { "no_ticks" } else { "ticks" });
    OK
}

fn plugin() -> Rc<WasmPlugin> {
    let config = br#"{
        "keys": [{"id": 1, "inline": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}],
        "policies": {"web": {"cookie": {"name": "session"}}},
        "default": {"policy": "web", "scope": "shop"}
    }"#;
    let (filter, _) = Filter::from_json(config, &|_| None).unwrap();
    filter.remember_tokens();
    let counters = plugin::counters(&filter).unwrap();
    Rc::new(WasmPlugin {
        filter,
        counters,
        exact_time: false,
    })
}

fn visit(plugin: &Rc<WasmPlugin>) -> Vec<&'static str> {
    HOST.with_borrow_mut(|host| host.calls.clear());
    let is_first = HOST.with_borrow(|host| host.request.is_empty());
    if is_first {
        HOST.with_borrow_mut(|host| host.request = request("a=1"));
    }
    let mut stream = WasmStream::new(Some(Rc::clone(plugin)));
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

/// Envoy keeps another id for each defined counter for the VM's life.
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

/// The host's buffer and the list of calls are the test's; in a VM, the buffer would be the filter's.
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
