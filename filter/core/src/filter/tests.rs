#![allow(clippy::unwrap_used, reason = "a failed test")]

use super::*;
use crate::fakes::FakeRequest;

const CONFIG: &[u8] = br#"{
    "keys": [{"id": 1, "inline": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}],
    "policies": {"web": {"cookie": {"name": "session"}}}
}"#;

fn of_route(number: usize) -> FakeRequest {
    FakeRequest::new().session(scope(number))
}

fn scope(number: usize) -> String {
    format!("web/HTTPRoute/shop/{number}")
}

fn filter() -> Filter {
    Filter::from_json(CONFIG, &|_| None).unwrap().0
}

fn bound(filter: &Filter, number: usize) -> Arc<BoundPolicy> {
    filter.session(&of_route(number)).unwrap().unwrap();
    filter.bound_policies.get(scope(number).as_bytes()).unwrap()
}

/// Four times as many rules as are promised.
#[test]
fn twenty_thousand_scopes_are_bound_once_by_eight_threads() {
    let filter = filter();
    let first: Vec<_> = (0..20_000).map(|number| bound(&filter, number)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (filter, first) = (&filter, &first);
            scope.spawn(move || {
                let again = (0..first.len()).map(|at| (at + thread * 2_500) % first.len());
                let anew = again.filter(|number| !Arc::ptr_eq(&bound(filter, *number), &first[*number]));
                assert_eq!(anew.count(), 0, "bound again");
            });
        }
    });
}

#[test]
fn a_client_cannot_make_scopes() {
    let filter = filter();
    for number in 0..10_000 {
        let chosen = format!("session=web/{number}; x-limpet-session=web/{number}");
        let mut request = of_route(0).other_headers(&chosen);
        let mut session = filter.session(&request).unwrap().unwrap();
        session
            .on_request(&mut request, crate::time::Timestamp::from_unix_seconds(1))
            .unwrap();
    }
    assert_eq!(filter.bound_policies.len(), 1);
}

/// Takes seconds: 100,000 scopes derive their keys.
#[test]
fn beyond_the_limit_each_scope_ends_one_that_is_not_used() {
    let filter = filter();
    let first = bound(&filter, 0);
    let (mut most, mut kept) = (0, 0);
    for number in 1..100_000 {
        filter.session(&of_route(number)).unwrap();
        assert!(
            Arc::ptr_eq(&bound(&filter, 0), &first),
            "the one in use is gone at {number}"
        );
        kept = filter.bound_policies.len();
        assert!(kept >= most, "{number} ends {most} - {kept}");
        most = kept;
    }
    assert!((20_000..40_000).contains(&kept), "{kept}");
}
