use limpet_core::fakes::exchanges::{Exchange, ExchangeOutput, Exchanges, now};

use super::host::host;
use super::*;
use crate::census::CENSUS;
use crate::host::TIME;

fn leaked(text: &str) -> &'static str {
    text.to_owned().leak()
}

fn fields(fields: Vec<(String, String)>) -> Vec<(&'static str, Vec<u8>)> {
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (leaked(&name), value.into_bytes()))
        .collect()
}

fn carry_out(config: *const c_void, exchange: &Exchange) -> ExchangeOutput {
    let given = &exchange.given;
    CENSUS.apply(&given.answer(), now());
    let lent = |text: &str| Some(leaked(text).as_bytes());
    host(|host| {
        host.request = fields(given.request_fields());
        host.response = fields(given.response_fields());
        host.route_session = lent(&given.session);
        host.cluster_session = given.cluster_session.as_deref().and_then(lent);
        host.route = lent(&given.route);
        host.cluster = lent(given.cluster());
        host.destinations.clone_from(&given.destinations);
        host.client = given.client.as_deref().and_then(lent);
        host.upstream = lent(&given.by);
        host.asked = Some(Vec::new());
        host.done = Some(ExchangeOutput::default());
    });
    let any = ptr::null_mut();
    // SAFETY: called as Envoy calls it. The fake ignores handles.
    unsafe {
        let stream = envoy_dynamic_module_on_http_filter_new(config, any);
        envoy_dynamic_module_on_http_filter_request_headers(any, stream, true);
        if let Some(details) = &given.reply {
            let details = Buffer::lend(details.as_bytes());
            envoy_dynamic_module_on_http_filter_local_reply(any, stream, 0, details, false);
        }
        envoy_dynamic_module_on_http_filter_response_headers(any, stream, false);
        envoy_dynamic_module_on_http_filter_stream_complete(any, stream);
        envoy_dynamic_module_on_http_filter_destroy(stream);
    }
    host(|host| host.done.take()).unwrap()
}

fn start() -> (Exchanges, *const c_void) {
    TIME.set(Some(now()));
    let table = Exchanges::read().unwrap();
    let config = configured(table.config.to_string().as_bytes());
    (table, config)
}

fn end(config: *const c_void) {
    // SAFETY: it is destroyed once.
    unsafe { envoy_dynamic_module_on_http_filter_config_destroy(config) };
}

#[test]
fn every_exchange_of_the_core_is_carried_out_by_the_module() {
    CENSUS.limit(100);
    let (table, config) = start();
    for exchange in &table.exchanges {
        let done = exchange.shown(carry_out(config, exchange));
        assert_eq!(done, exchange.done, "{}", exchange.why);
    }
    assert_eq!(CENSUS.report(now()).unwrap().backends.len(), table.told);
    end(config);
}

#[test]
fn two_sessions_that_begin_at_once_have_different_tokens() {
    let (table, config) = start();
    let first = table.exchanges.first().unwrap();
    let [one, two] = [(); 2].map(|()| carry_out(config, first));
    assert_ne!(one.response, two.response);
    assert_eq!(first.shown(one), first.shown(two));
    end(config);
}
