//! What a living session costs the module: no allocation, and these callbacks.

use super::host::host;
use super::*;

const BACKEND: &[u8] = b"10.0.0.7:8080";

const CALLBACKS: [&str; 6] = [
    "http_filter_get_attribute_string",
    "http_filter_increment_counter",
    "http_get_headers",
    "http_get_headers_size",
    "http_get_metadata_string",
    "http_set_upstream_override_host",
];

fn exchange(config: *const c_void) -> u64 {
    // SAFETY: called as Envoy calls it. The fake ignores handles.
    let exchange = || unsafe {
        let stream = envoy_dynamic_module_on_http_filter_new(config, ptr::null_mut());
        envoy_dynamic_module_on_http_filter_request_headers(ptr::null_mut(), stream, true);
        envoy_dynamic_module_on_http_filter_response_headers(ptr::null_mut(), stream, false);
        envoy_dynamic_module_on_http_filter_stream_complete(ptr::null_mut(), stream);
        envoy_dynamic_module_on_http_filter_destroy(stream);
    };
    allocation_counter::measure(exchange).count_total
}

fn begin(config: *const c_void, route_session: &'static str) -> String {
    host(|host| {
        host.request = Vec::new();
        host.response = Vec::new();
        host.route_session = Some(route_session.as_bytes());
        host.upstream = Some(BACKEND);
        host.asked = Some(Vec::with_capacity(64));
    });
    exchange(config);
    host(|host| {
        let set = host.response.iter().find(|(name, _)| *name == "set-cookie").unwrap();
        let set = String::from_utf8(set.1.clone()).unwrap();
        set.split(';').next().unwrap().to_owned()
    })
}

/// Allocations and callbacks of the second exchange with these cookies, when the token is remembered.
fn steady(config: *const c_void, cookies: &str) -> (u64, Vec<&'static str>) {
    let once_more = || {
        host(|host| {
            host.request = [
                (":method", "GET"),
                (":path", "/"),
                ("x-request-id", "0123"),
                ("cookie", cookies),
            ]
            .map(|(name, value)| (name, value.as_bytes().to_vec()))
            .to_vec();
            host.response = vec![(":status", b"200".to_vec())];
            host.calls.values_mut().for_each(|calls| *calls = 0);
        });
        exchange(config)
    };
    once_more();
    let allocations = once_more();
    let calls = host(|host| {
        assert_eq!(host.asked.as_deref(), Some(BACKEND));
        assert_eq!(host.response.len(), 1, "nothing is set");
        let times = |(name, times): (&&'static str, &u64)| vec![*name; usize::try_from(*times).unwrap()];
        host.calls.iter().flat_map(times).collect()
    });
    (allocations, calls)
}

#[test]
fn a_living_session_allocates_nothing_and_asks_little() {
    let (config, stream) = start();
    for (route_session, edits) in [("web/HTTPRoute/shop/web/all", true), ("forwarded/a", false)] {
        let token = begin(config, route_session);
        for cookies in [token.clone(), format!("{token}; a=1"), format!("a=1; {token}; b=2")] {
            let mut expected = CALLBACKS.to_vec();
            // The backend does not see the token.
            expected.extend(edits.then_some("http_set_header"));
            expected.sort_unstable();
            assert_eq!(steady(config, &cookies), (0, expected), "{cookies}");
        }
    }
    end((config, stream));
}
