use std::sync::Arc;

use limpet_core::census::Census;
use limpet_core::envoy::{SESSION_HEADER, VIA_UPSTREAM};
use limpet_core::fakes::exchanges::{Exchange, ExchangeInput, ExchangeOutput, Exchanges, now};
use limpet_core::token::DestinationId;

use super::*;
use crate::budgets;
use crate::census::CENSUS;
use crate::host::host_header;
use crate::table::BucketTable;

pub(super) struct Ongoing {
    response: Vec<(String, String)>,
    /// By path, whose parts NUL divides.
    properties: BTreeMap<&'static str, String>,
    pub(super) done: ExchangeOutput,
}

impl Ongoing {
    fn new(exchange: &Exchange) -> Self {
        let given = &exchange.given;
        let mut properties = BTreeMap::from([
            ("xds\0cluster_name", given.cluster().to_owned()),
            ("xds\0route_name", given.route.clone()),
            ("upstream\0address", given.by.clone()),
            (
                "response\0code_details",
                given.reply.clone().unwrap_or(VIA_UPSTREAM.to_owned()),
            ),
        ]);
        let cluster_session = (
            "xds\0cluster_metadata\0filter_metadata\0limpet\0session",
            &given.cluster_session,
        );
        for (path, value) in [("source\0address", &given.client), cluster_session] {
            properties.extend(value.clone().map(|value| (path, value)));
        }
        Self {
            response: given.response_fields(),
            properties,
            done: ExchangeOutput::default(),
        }
    }

    pub(super) fn response(&self) -> Vec<u8> {
        all(&self.response)
    }

    pub(super) fn response_field(&self, name: &str) -> Option<Vec<u8>> {
        let field = self.response.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| value.clone().into_bytes())
    }

    pub(super) fn property(&self, path: &str) -> Option<Vec<u8>> {
        self.properties.get(path).map(|value| value.clone().into_bytes())
    }

    pub(super) fn change(&mut self, of_response: bool, change: String) {
        if of_response {
            self.done.response.push(change);
        } else {
            self.done.request.push(change);
        }
    }

    /// Matches the request again after the filter returns, with this destination in its header.
    pub(super) fn lead(&mut self) {
        self.done.extract_destination();
    }

    /// Without a route for the destination, the native filter does not get the host.
    fn match_again(&mut self, given: &ExchangeInput) {
        let Some(led) = &self.done.led else { return };
        let cluster = given.led_to(led);
        if DestinationId::of_cluster(cluster.as_bytes()).to_string() != *led {
            self.done.steered = None;
        }
        self.properties.insert("xds\0cluster_name", cluster.to_owned());
    }

    /// The native filter behind this one reports that another host answered.
    fn answered(&mut self, by: &str) {
        if self.done.steered.as_ref().is_some_and(|asked| asked != by) {
            let name = host_header(self.done.strict).to_owned();
            self.response.push((name, STANDARD.encode(by)));
        }
    }
}

fn all(fields: &[(String, String)]) -> Vec<u8> {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    buffer(&fields)
}

fn configured(table: &Exchanges) -> Rc<WasmPlugin> {
    let (filter, _) = Filter::from_json(table.config.to_string().as_bytes(), &|_| None).unwrap();
    filter.remember_tokens();
    filter.set_tables(|_, rules| Arc::new(BucketTable::new(*rules, [7; 16])));
    Rc::new(WasmPlugin {
        counters: plugin::counters(&filter).unwrap(),
        filter,
        exact_time: true,
    })
}

fn carry_out(plugin: &Rc<WasmPlugin>, exchange: &Exchange) -> ExchangeOutput {
    let given = &exchange.given;
    let mut request = given.request_fields();
    if !given.session.is_empty() {
        request.push((SESSION_HEADER.to_owned(), given.session.clone()));
    }
    let answer = given.answer();
    CENSUS.with_borrow(|census| census.as_ref().unwrap().apply(&answer, now()));
    budgets::publish(&answer.sheds, now());
    HOST.with_borrow_mut(|host| {
        host.request = all(&request);
        host.exchange = Some(Ongoing::new(exchange));
    });
    let mut stream = WasmStream::new(Some(Rc::clone(plugin)));
    stream.on_http_request_headers(0, true);
    done(|exchange| exchange.match_again(given));
    done(|exchange| exchange.answered(&given.by));
    stream.on_http_response_headers(0, false);
    drop(stream);
    HOST.with_borrow_mut(|host| host.exchange.take()).unwrap().done
}

#[test]
fn every_exchange_of_the_core_is_carried_out_by_the_wasm_filter() {
    let table = Exchanges::read().unwrap();
    let plugin = configured(&table);
    CENSUS.set(Some(Census::new([0; 16], 100)));
    for exchange in &table.exchanges {
        let done = exchange.shown(carry_out(&plugin, exchange));
        assert_eq!(done, exchange.done, "{}", exchange.why);
    }
    let told = CENSUS.with_borrow(|census| census.as_ref()?.report(now()));
    assert_eq!(told.unwrap().backends.len(), table.told);
}

#[test]
fn two_sessions_that_begin_at_once_have_different_tokens() {
    let table = Exchanges::read().unwrap();
    let (plugin, first) = (configured(&table), table.exchanges.first().unwrap());
    CENSUS.set(Some(Census::new([0; 16], 100)));
    let [one, two] = [(); 2].map(|()| carry_out(&plugin, first));
    assert_ne!(one.response, two.response);
    assert_eq!(first.shown(one), first.shown(two));
}
