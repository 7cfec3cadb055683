//! The cost of a token and of a request in the steady state, in native code. Target: open and verify in 500 ns.
#![expect(clippy::expect_used, reason = "a benchmark may panic")]

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use divan::{AllocProfiler, Bencher, black_box};
use limpet_core::Filter;
use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::outcome::{RequestOutcome, ResponseOutcome};
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, Destination, Form, Realm};
use limpet_core::view::{Answer, RequestView, ResponseView, ViewError};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

const CONFIG: &str = r#"{
    "keys": [{ "id": 1, "inline": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" }],
    "policies": { "shop": { "cookie": { "name": "session" }, "idleTimeout": "30m" } }
}"#;
const SCOPE: &str = "HTTPRoute/shop/web/cart";
const FORMS: [Form; 2] = [Form::Sealed, Form::Signed];

fn main() {
    divan::main();
}

fn now() -> Timestamp {
    Timestamp::from_unix_seconds(1_763_718_000)
}

fn realm() -> Realm {
    let secret = Secret::new(std::array::from_fn(|i| u8::try_from(i).unwrap_or(0)));
    let keyring = Keyring::new(vec![Key::new(KeyId(1), KeyState::Signing, &secret)]).expect("one key signs");
    Realm::new(&keyring, SCOPE.as_bytes(), CarrierMode::Cookie, "session")
}

fn claims() -> Claims {
    Claims {
        host: SocketAddr::from(([10, 0, 0, 7], 8080)),
        destination: Destination::of_cluster(b"backends"),
        issued_at: now(),
        last_seen: now(),
    }
}

#[divan::bench(args = FORMS, sample_size = 1000)]
fn open_and_verify(bencher: Bencher<'_, '_>, form: Form) {
    let realm = realm();
    let token = realm.seal(form, &claims(), [1, 2, 3, 4]);
    assert!(realm.open(token.as_bytes()).is_ok(), "the token opens");
    bencher.bench_local(|| realm.open(black_box(token.as_bytes())));
}

#[divan::bench(args = FORMS, sample_size = 1000)]
fn seal(bencher: Bencher<'_, '_>, form: Form) {
    let (realm, claims) = (realm(), claims());
    bencher.bench_local(|| realm.seal(form, black_box(&claims), black_box([1, 2, 3, 4])));
}

/// A request with a live session, and the response of its backend.
struct Exchange {
    session: Vec<u8>,
    cookie: Vec<u8>,
}

impl Exchange {
    fn new() -> Self {
        let token = realm().seal(Form::Sealed, &claims(), [1, 2, 3, 4]);
        Self {
            session: format!("shop/{SCOPE}").into_bytes(),
            cookie: format!("theme=dark; session={token}; _ga=GA1.1.1234567890.1700000000").into_bytes(),
        }
    }
}

impl RequestView for Exchange {
    fn route_session(&self) -> Answer<'_> {
        Ok(Some(Cow::Borrowed(&self.session)))
    }
    fn route_name(&self) -> Answer<'_> {
        Ok(None)
    }
    fn virtual_host(&self) -> Answer<'_> {
        Ok(None)
    }
    fn cluster_name(&self) -> Answer<'_> {
        Ok(None)
    }
    fn cluster_session(&self) -> Answer<'_> {
        Ok(None)
    }
    fn reroute(&mut self, _: Destination) -> Answer<'_> {
        Ok(None)
    }
    fn header(&self, name: &str) -> Answer<'_> {
        Ok((name == "cookie").then_some(Cow::Borrowed(self.cookie.as_slice())))
    }
}

impl ResponseView for Exchange {
    fn maybe_other_host(&self, _: bool) -> Result<bool, ViewError> {
        Ok(false)
    }
    fn code_details(&self) -> Answer<'_> {
        Ok(None)
    }
    fn upstream_address(&self) -> Answer<'_> {
        Ok(None)
    }
    fn cluster_name(&self) -> Answer<'_> {
        Ok(None)
    }
    fn fields(&self, _: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError> {
        Ok(Vec::new())
    }
    fn request_header(&self, _: &str) -> Answer<'_> {
        Ok(None)
    }
    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        Ok([0; 4])
    }
}

fn filter() -> Filter {
    let (filter, _) = Filter::from_json(CONFIG.as_bytes(), &|_| None).expect("a valid configuration");
    filter
}

#[divan::bench(sample_size = 1000)]
fn request_in_the_steady_state(bencher: Bencher<'_, '_>) {
    let (filter, mut exchange, now) = (filter(), Exchange::new(), now().after(Duration::from_secs(1)));
    bencher.bench_local(|| {
        let mut session = filter
            .session(&exchange)
            .ok()
            .flatten()
            .expect("the route has a session");
        let plan = session.on_request(&mut exchange, now).expect("the view answers");
        assert_eq!(plan.outcome, Some(RequestOutcome::Steered));
        black_box(plan);
        session
    });
}

#[divan::bench(sample_size = 1000)]
fn response_in_the_steady_state(bencher: Bencher<'_, '_>) {
    let (filter, mut exchange, now) = (filter(), Exchange::new(), now().after(Duration::from_secs(1)));
    let mut session = filter
        .session(&exchange)
        .ok()
        .flatten()
        .expect("the route has a session");
    session.on_request(&mut exchange, now).expect("the view answers");
    bencher.bench_local(|| {
        let plan = black_box(&mut session)
            .on_response(black_box(&exchange), || Ok(now))
            .expect("the view answers");
        assert_eq!(plan.outcome, ResponseOutcome::Unchanged);
    });
}
