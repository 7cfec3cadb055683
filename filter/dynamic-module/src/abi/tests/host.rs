//! A fake Envoy for each test's thread.

use std::cell::RefCell;
use std::collections::BTreeMap;

use limpet_core::envoy::HASH_STATE;
use limpet_core::fakes::exchanges::ExchangeOutput;
use limpet_core::outcome::FILTER_STATE;
use limpet_core::token::DestinationId;

use super::super::*;

#[derive(Default)]
pub(super) struct Host {
    pub(super) request: Vec<(&'static str, Vec<u8>)>,
    pub(super) response: Vec<(&'static str, Vec<u8>)>,
    /// `filter_metadata.limpet.session` of the route.
    pub(super) route_session: Option<&'static [u8]>,
    /// `filter_metadata.limpet.session` of the cluster.
    pub(super) cluster_session: Option<&'static [u8]>,
    pub(super) route: Option<&'static [u8]>,
    pub(super) cluster: Option<&'static [u8]>,
    /// Other clusters that the request can be led to.
    pub(super) destinations: Vec<String>,
    pub(super) client: Option<&'static [u8]>,
    pub(super) upstream: Option<&'static [u8]>,
    /// What the module does, if that matters.
    pub(super) done: Option<ExchangeOutput>,
    /// The upstream override host; `None` if Envoy refuses one.
    pub(super) asked: Option<Vec<u8>>,
    counters: Vec<(String, u64)>,
    pub(super) calls: BTreeMap<&'static str, u64>,
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

pub(super) fn host<T>(change: impl FnOnce(&mut Host) -> T) -> T {
    HOST.with_borrow_mut(change)
}

fn called<T>(name: &'static str, change: impl FnOnce(&mut Host) -> T) -> T {
    host(|host| {
        *host.calls.entry(name).or_default() += 1;
        change(host)
    })
}

impl Host {
    fn headers(&mut self, of: c_int) -> &mut Vec<(&'static str, Vec<u8>)> {
        if of == HeaderType::Request as c_int {
            &mut self.request
        } else {
            &mut self.response
        }
    }

    fn change(&mut self, of: c_int, change: impl FnOnce() -> String) {
        if let Some(done) = &mut self.done {
            if of == HeaderType::Request as c_int {
                done.request.push(change());
            } else {
                done.response.push(change());
            }
        }
    }

    pub(super) fn counted(&self) -> Vec<(String, u64)> {
        self.counters.iter().filter(|(_, count)| *count > 0).cloned().collect()
    }
}

fn lend(bytes: Option<&[u8]>, answer: *mut Buffer) -> bool {
    let Some(bytes) = bytes else {
        return false;
    };
    // SAFETY: the caller lends a buffer to fill in.
    unsafe { *answer = Buffer::lend(bytes) };
    true
}

fn text(buffer: Buffer) -> &'static [u8] {
    // SAFETY: lent during the callback, and the fake keeps none of it.
    unsafe { buffer.bytes() }
}

fn string(buffer: Buffer) -> String {
    String::from_utf8(text(buffer).to_vec()).unwrap()
}

extern "C" fn log(level: c_int, line: Buffer) {
    host(|host| {
        let done = host.done.as_mut().filter(|_| level >= LogLevel::Warn as c_int);
        if let Some(done) = done {
            done.warned
                .push(string(line).strip_prefix("limpet: ").unwrap().to_owned());
        }
    });
}

extern "C" fn headers_size(_: *mut c_void, of: c_int) -> usize {
    called("http_get_headers_size", |host| host.headers(of).len())
}

extern "C" fn get_headers(_: *mut c_void, of: c_int, answer: *mut HeaderField) -> bool {
    called("http_get_headers", |host| {
        for (at, (name, value)) in host.headers(of).iter().enumerate() {
            let (name, value) = (Buffer::lend(name.as_bytes()), Buffer::lend(value));
            // SAFETY: the caller lends room for as many fields as there are.
            unsafe { answer.add(at).write(HeaderField { name, value }) };
        }
    });
    true
}

extern "C" fn set_header(_: *mut c_void, of: c_int, name: Buffer, value: Buffer) -> bool {
    called("http_set_header", |host| {
        host.change(of, || match string(value) {
            none if none.is_empty() => format!("remove {}", string(name)),
            value => format!("set {}: {value}", string(name)),
        });
        let headers = host.headers(of);
        let value = text(value);
        match headers.iter_mut().find(|(own, _)| own.as_bytes() == text(name)) {
            _ if value.is_empty() => headers.retain(|(own, _)| own.as_bytes() != text(name)),
            // In place, because allocations are counted.
            Some((_, own)) => {
                own.clear();
                own.extend_from_slice(value);
            }
            None => {}
        }
    });
    true
}

extern "C" fn add_header(_: *mut c_void, of: c_int, name: Buffer, value: Buffer) -> bool {
    called("http_add_header", |host| {
        host.change(of, || format!("add {}: {}", string(name), string(value)));
        let name = String::from_utf8(text(name).to_vec()).unwrap().leak();
        host.headers(of).push((name, text(value).to_vec()));
    });
    true
}

extern "C" fn get_attribute(_: *mut c_void, attribute: c_int, answer: *mut Buffer) -> bool {
    called("http_filter_get_attribute_string", |host| {
        let known = [
            (AttributeId::UpstreamAddress, host.upstream),
            (AttributeId::SourceAddress, host.client),
            (AttributeId::RouteName, host.route),
        ];
        let known = known.into_iter().find(|(known, _)| *known as c_int == attribute);
        lend(known.and_then(|(_, value)| value), answer)
    })
}

extern "C" fn no_route_config(_: *mut c_void) -> *const c_void {
    called("get_most_specific_route_config", |_| ptr::null())
}

extern "C" fn cluster(_: *mut c_void, answer: *mut Buffer) -> bool {
    called("http_get_cluster_name", |host| {
        lend(host.cluster.or(Some(b"backends")), answer)
    })
}

extern "C" fn get_metadata(_: *mut c_void, of: c_int, _: Buffer, _: Buffer, answer: *mut Buffer) -> bool {
    called("http_get_metadata_string", |host| {
        let is_route = of == MetadataSource::Route as c_int;
        lend(
            if is_route {
                host.route_session
            } else {
                host.cluster_session
            },
            answer,
        )
    })
}

extern "C" fn set_filter_state(_: *mut c_void, key: Buffer, value: Buffer) -> bool {
    called("http_set_filter_state_bytes", |host| {
        // Envoy keeps the first value of each key.
        let logged = host.done.as_mut().map(|done| &mut done.logged);
        if let Some(logged @ None) = logged {
            *logged = (text(key) == FILTER_STATE.as_bytes()).then(|| string(value));
        }
        true
    })
}

extern "C" fn set_typed_filter_state(_: *mut c_void, key: Buffer, value: Buffer) -> bool {
    called("http_set_filter_state_typed", |host| {
        if let Some(done) = &mut host.done {
            done.hash = (text(key) == HASH_STATE.as_bytes()).then(|| string(value));
        }
        true
    })
}

extern "C" fn keep_route(_: *mut c_void) {
    called("http_clear_route_cache", |host| {
        let Some(done) = &mut host.done else { return };
        let led = done.extract_destination();
        let is_led = |name: &&String| DestinationId::of_cluster(name.as_bytes()).to_string() == led;
        let cluster = host.destinations.iter().find(is_led).cloned();
        host.cluster = cluster.map_or(host.cluster, |name| Some(name.leak().as_bytes()));
    });
}

extern "C" fn override_host(_: *mut c_void, asked: Buffer, strict: bool) -> bool {
    called("http_set_upstream_override_host", |host| {
        if let Some(done) = &mut host.done {
            done.steered = Some(string(asked));
            done.strict = strict;
        }
        host.asked.as_mut().is_some_and(|own| {
            own.clear();
            own.extend_from_slice(text(asked));
            true
        })
    })
}

extern "C" fn define(_: *mut c_void, name: Buffer, _: *mut Buffer, _: usize, id: *mut usize) -> c_int {
    host(|host| {
        // SAFETY: the caller lends a number to fill in.
        unsafe { *id = host.counters.len() };
        let name = String::from_utf8(text(name).to_vec()).unwrap();
        host.counters.push((name, 0));
    });
    0
}

extern "C" fn increment(_: *mut c_void, id: usize, _: *mut Buffer, _: usize, by: u64) -> c_int {
    called("http_filter_increment_counter", |host| {
        let (name, count) = &mut host.counters[id];
        *count += by;
        if let Some(done) = &mut host.done {
            done.counted.push(name.clone());
        }
    });
    0
}

pub(super) fn callbacks() -> Callbacks {
    Callbacks {
        log,
        http_get_headers_size: headers_size,
        http_get_headers: get_headers,
        http_set_header: set_header,
        http_add_header: add_header,
        http_filter_get_attribute_string: get_attribute,
        get_most_specific_route_config: no_route_config,
        http_get_cluster_name: cluster,
        http_clear_route_cache: keep_route,
        http_get_metadata_string: get_metadata,
        http_set_filter_state_bytes: set_filter_state,
        http_set_filter_state_typed: set_typed_filter_state,
        http_set_upstream_override_host: override_host,
        http_filter_config_define_counter: define,
        http_filter_increment_counter: increment,
    }
}
