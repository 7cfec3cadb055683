//! Checks `golden/exchanges.json`, which each adapter's tests walk through; `UPDATE_GOLDEN=1` writes it.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and this one writes a file"
)]

use limpet_core::census::Census;
use limpet_core::fakes::exchanges::{Exchange, ExchangeOutput, Exchanges, now};
use limpet_core::outcome::{self, RequestOutcome, ResponseOutcome};
use limpet_core::view::ViewError;
use limpet_core::{Actions, Counters, DefinedCounters, Filter, SessionError, Steering};

struct Proxy {
    filter: Filter,
    counters: Counters<String>,
    census: Census,
}

impl Proxy {
    fn of(table: &Exchanges) -> Self {
        let (filter, _) = Filter::from_json(table.config.to_string().as_bytes(), &|_| None).unwrap();
        let counters = Counters::define(&filter, &mut DefinedCounters::default(), |name| {
            Ok::<_, ()>(name.to_owned())
        });
        Self {
            filter,
            counters: counters.unwrap(),
            census: Census::new([0; 16], 100),
        }
    }

    fn carry_out(&self, exchange: &Exchange) -> ExchangeOutput {
        let mut message = Message {
            census: &self.census,
            done: ExchangeOutput::default(),
            is_response: false,
            outcome: None,
        };
        if let Err(error) = self.visit(exchange, &mut message) {
            message.count(self.counters.error(&error));
        }
        exchange.shown(message.done)
    }

    fn visit(&self, exchange: &Exchange, message: &mut Message<'_>) -> Result<(), SessionError> {
        let mut request = exchange.given.request();
        let Some(mut session) = self.filter.session(&request)? else {
            return Ok(());
        };
        let policy = session.policy_index();
        let plan = session.on_request(&mut request, now())?;
        let asked = plan.steering.map(|steering| steering.host);
        message.done.led = request.led().map(|destination| destination.to_string());
        let cluster = message.done.led.as_deref().map(|led| exchange.given.led_to(led));
        let response = exchange
            .given
            .response(cluster.unwrap_or(exchange.given.cluster()), asked);
        plan.apply(message, &self.counters, policy)?;
        message.is_response = true;
        response.answer(&request);
        let plan = session.on_response(&response, || Ok(now()))?;
        plan.apply(message, &self.counters, policy)?;
        Ok(())
    }
}

struct Message<'p> {
    census: &'p Census,
    done: ExchangeOutput,
    is_response: bool,
    outcome: Option<RequestOutcome>,
}

impl Message<'_> {
    #[expect(clippy::unnecessary_wraps, reason = "as actions return it")]
    fn change(&mut self, change: String) -> Result<(), ViewError> {
        if self.is_response {
            self.done.response.push(change);
        } else {
            self.done.request.push(change);
        }
        Ok(())
    }
}

fn text(value: &[u8]) -> &str {
    std::str::from_utf8(value).unwrap()
}

impl Actions for Message<'_> {
    type Counter = String;

    fn remove_header(&mut self, name: &str) -> Result<(), ViewError> {
        self.change(format!("remove {name}"))
    }
    fn set_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError> {
        self.change(format!("set {name}: {}", text(value)))
    }
    fn add_header(&mut self, name: &str, value: &[u8]) -> Result<(), ViewError> {
        self.change(format!("add {name}: {}", text(value)))
    }
    fn hash(&mut self, address: &str) -> Result<(), ViewError> {
        self.done.hash = Some(address.to_owned());
        Ok(())
    }
    fn steer(&mut self, steering: Steering) -> Result<(), ViewError> {
        self.done.steered = Some(steering.host.to_string());
        self.done.strict = steering.strict;
        Ok(())
    }
    fn count(&mut self, counter: Option<&String>) {
        self.done.counted.extend(counter.cloned());
    }
    fn record(&mut self, tell: impl FnOnce(&Census)) {
        tell(self.census);
    }
    fn warn(&mut self, line: &str) {
        self.done.warned.push(line.to_owned());
    }
    fn warn_once(&mut self, line: String) {
        self.done.warned.push(line);
    }
    fn log_outcome(&mut self, request: Option<RequestOutcome>, response: ResponseOutcome) -> Result<(), ViewError> {
        self.outcome = self.outcome.or(request);
        let noted = self.outcome.map(|outcome| outcome::access_log_value(outcome, response));
        self.done.logged = noted.map(String::from);
        Ok(())
    }
}

#[test]
fn what_is_done_for_each_exchange_is_what_adapters_are_held_to() {
    let mut table = Exchanges::read().unwrap();
    let proxy = Proxy::of(&table);
    let done: Vec<ExchangeOutput> = table
        .exchanges
        .iter()
        .map(|exchange| proxy.carry_out(exchange))
        .collect();
    let told = proxy.census.report(now()).unwrap().backends.len();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        table.told = told;
        for (exchange, done) in table.exchanges.iter_mut().zip(done) {
            exchange.done = done;
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/exchanges.json");
        std::fs::write(path, table.text().unwrap()).unwrap();
        return;
    }
    for (exchange, done) in table.exchanges.iter().zip(done) {
        assert_eq!(done, exchange.done, "{}", exchange.why);
    }
    assert_eq!(told, table.told);
}

#[test]
fn every_outcome_of_a_request_and_of_a_response_has_an_exchange() {
    let table = Exchanges::read().unwrap();
    let proxy = Proxy::of(&table);
    let done: Vec<ExchangeOutput> = table
        .exchanges
        .iter()
        .map(|exchange| proxy.carry_out(exchange))
        .collect();
    let is_counted = |word: &str| {
        let end = format!(".{word}");
        done.iter()
            .flat_map(|done| &done.counted)
            .any(|counter| counter.ends_with(&end))
    };
    let requests = RequestOutcome::all().map(RequestOutcome::as_str);
    let responses = ResponseOutcome::COUNTED.into_iter().filter_map(ResponseOutcome::as_str);
    let missing: Vec<&str> = requests.chain(responses).filter(|word| !is_counted(word)).collect();
    assert_eq!(missing, [""; 0]);
}
