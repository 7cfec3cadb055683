//! The cost of a request in one of many scopes, in one run: it must not grow with their number, nor with the threads
//! that share the filter. And what it costs to bind a policy to a scope.
#![expect(clippy::expect_used, reason = "a benchmark may panic")]

mod exchange;

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use divan::Bencher;
use limpet_core::Filter;
use limpet_core::fakes::FakeRequest;
use limpet_core::outcome::RequestOutcome;

use exchange::{filter, now, request};

/// Around the number of scopes that a former version kept, and four times as many as rules are promised.
const SCOPES: [usize; 6] = [1, 1_000, 4_096, 4_097, 5_000, 20_000];

fn main() {
    divan::main();
}

fn of_scopes(scopes: usize) -> Vec<FakeRequest> {
    (0..scopes)
        .map(|number| request(&format!("HTTPRoute/shop/{number}/all")))
        .collect()
}

fn serve(filter: &Filter, request: &mut FakeRequest) {
    let session = filter.session(request).ok().flatten();
    let mut session = session.expect("the route has a session");
    let plan = session
        .on_request(request, now().after(Duration::from_secs(1)))
        .expect("the view answers");
    assert_eq!(plan.outcome, Some(RequestOutcome::Steered));
}

/// Requests of all scopes. What they need of 20,000 scopes is more than the CPU's caches hold.
#[divan::bench(args = SCOPES, threads = [1, 2, 8], sample_size = 1000)]
fn requests_of_all(bencher: Bencher<'_, '_>, scopes: usize) {
    requests(bencher, scopes, scopes);
}

/// Requests of 500 scopes only, which the caches hold: the rest is the cost of searching among all of them.
#[divan::bench(args = SCOPES, threads = [1, 2, 8], sample_size = 1000)]
fn requests_of_500_among(bencher: Bencher<'_, '_>, scopes: usize) {
    requests(bencher, scopes, 500);
}

fn requests(bencher: Bencher<'_, '_>, scopes: usize, asked: usize) {
    static BEGIN: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static TURN: Cell<usize> = Cell::new(BEGIN.fetch_add(104_729, Ordering::Relaxed));
    }
    let (filter, mut requests) = (filter(), of_scopes(scopes));
    for request in &requests {
        serve(&filter, &mut request.clone());
    }
    requests.truncate(asked);
    bencher
        .with_inputs(|| {
            // An order that no cache could learn, and that begins elsewhere in each thread.
            let turn = TURN.replace(TURN.get() + 1).wrapping_mul(7_919) % requests.len();
            requests.get(turn).expect("a scope").clone()
        })
        .bench_values(|mut request| serve(&filter, &mut request));
}

/// A request of a scope that is not bound yet.
#[divan::bench(sample_count = 20, sample_size = 1000)]
fn the_first_request_in_each_of_20000(bencher: Bencher<'_, '_>) {
    let (filter, requests) = (filter(), of_scopes(20_000));
    let mut each = requests.iter();
    bencher
        .with_inputs(|| each.next().expect("as many as samples").clone())
        .bench_local_values(|mut request| serve(&filter, &mut request));
}
