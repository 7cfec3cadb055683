//! The cost of a token and of a request in the steady state, in native code. Target: open and verify in 500 ns.
#![expect(clippy::expect_used, reason = "a benchmark may panic")]

mod exchange;

use std::time::Duration;

use divan::{AllocProfiler, Bencher, black_box};
use limpet_core::fakes::FakeResponse;
use limpet_core::outcome::{RequestOutcome, ResponseOutcome};
use limpet_core::token::PayloadForm;

use exchange::{claims, filter, now, realm, request};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

const SCOPE: &str = "HTTPRoute/shop/web/cart";
const FORMS: [PayloadForm; 2] = [PayloadForm::Sealed, PayloadForm::Signed];

fn main() {
    divan::main();
}

#[divan::bench(args = FORMS, sample_size = 1000)]
fn open_and_verify(bencher: Bencher<'_, '_>, form: PayloadForm) {
    let realm = realm(SCOPE);
    let token = realm.seal(form, &claims(), [1, 2, 3, 4]);
    assert!(realm.open(token.as_bytes()).is_ok(), "the token opens");
    bencher.bench_local(|| realm.open(black_box(token.as_bytes())));
}

#[divan::bench(args = FORMS, sample_size = 1000)]
fn seal(bencher: Bencher<'_, '_>, form: PayloadForm) {
    let (realm, claims) = (realm(SCOPE), claims());
    bencher.bench_local(|| realm.seal(form, black_box(&claims), black_box([1, 2, 3, 4])));
}

#[divan::bench(sample_size = 1000)]
fn request_in_the_steady_state(bencher: Bencher<'_, '_>) {
    let (filter, mut request, now) = (filter(), request(SCOPE), now().after(Duration::from_secs(1)));
    bencher.bench_local(|| {
        let mut session = filter
            .session(&request)
            .ok()
            .flatten()
            .expect("the route has a session");
        let plan = session.on_request(&mut request, now).expect("the view answers");
        assert_eq!(plan.outcome, Some(RequestOutcome::Steered));
        black_box(plan);
        session
    });
}

#[divan::bench(sample_size = 1000)]
fn response_in_the_steady_state(bencher: Bencher<'_, '_>) {
    let (filter, mut request, now) = (filter(), request(SCOPE), now().after(Duration::from_secs(1)));
    let mut session = filter
        .session(&request)
        .ok()
        .flatten()
        .expect("the route has a session");
    session.on_request(&mut request, now).expect("the view answers");
    let response = FakeResponse::by("10.0.0.7:8080").surely_as_asked().unrecorded();
    bencher.bench_local(|| {
        let plan = black_box(&mut session)
            .on_response(black_box(&response), || Ok(now))
            .expect("the view answers");
        assert_eq!(plan.outcome, ResponseOutcome::Unchanged);
    });
}
