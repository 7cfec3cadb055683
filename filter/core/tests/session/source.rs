//! Sessions that the client's address holds.

use std::time::Duration;

use limpet_core::token::TokenRefusal;
use serde_json::json;

use crate::world::*;

const CLIENT: &str = "192.0.2.1:4711";
const OTHER: &str = "192.0.2.2:4711";

fn source_policy(fields: serde_json::Value) -> serde_json::Value {
    with(json!({ "source": {} }), fields)
}

fn site(fields: serde_json::Value) -> Site {
    Site::new(source_policy(fields))
}

fn from(address: &str) -> FakeRequest {
    FakeRequest::new().client(address)
}

#[test]
fn the_address_keeps_its_backend_and_the_client_gets_nothing() {
    let site = site(json!({}));
    let first = site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    assert_eq!(first.outcomes(), (NO_TOKEN, ISSUED));
    assert_eq!((first.steering, first.edits), (None, vec![]));
    let other = site.visit(&from(OTHER), &FakeResponse::by(B), at(0));
    assert_eq!(other.outcomes(), (NO_TOKEN, ISSUED));
    for (client, host) in [(CLIENT, A), (OTHER, B), ("192.0.2.1:9", A)] {
        let again = site.visit(&from(client), &FakeResponse::by(host), at(1));
        assert_eq!(again.outcomes(), (STEERED, UNCHANGED), "{client}");
        assert_eq!(again.host().as_deref(), Some(host));
        assert_eq!((again.request_edit, again.edits), (None, vec![]));
    }
}

#[test]
fn the_steady_state_asks_for_the_address_only() {
    let site = site(json!({}));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    let (request, response) = (from(CLIENT), FakeResponse::by(A).surely_as_asked());
    site.visit(&request, &response, at(1));
    assert_eq!(request.questions(), ["route_session", "client_address"]);
    assert_eq!(response.questions(), ["maybe_other_host"]);
}

#[test]
fn an_entry_ends_when_it_was_unused_for_the_timeout() {
    let site = site(json!({ "source": { "timeout": "10s" } }));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    for (now, host, outcomes) in [
        (9, A, (STEERED, UNCHANGED)),
        (18, A, (STEERED, UNCHANGED)),
        (28, B, (refused(TokenRefusal::Idle), ISSUED)),
        (29, B, (STEERED, UNCHANGED)),
    ] {
        let visit = site.visit(&from(CLIENT), &FakeResponse::by(host), at(now));
        assert_eq!(visit.outcomes(), outcomes, "after {now} s");
    }
}

#[test]
fn an_entry_that_is_over_is_not_used() {
    let site = site(json!({ "source": { "timeout": "10s" } }));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    let failed = || FakeResponse::local(503, "no_healthy_upstream", A);
    for now in [10, 15, 20] {
        let visit = site.visit(&from(CLIENT), &failed(), at(now));
        assert_eq!(
            visit.outcomes(),
            (refused(TokenRefusal::Idle), UNCHANGED),
            "after {now} s"
        );
    }
}

#[test]
fn a_session_moves_when_another_backend_answers() {
    let site = site(json!({}));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    let moved = site.visit(&from(CLIENT), &FakeResponse::by(B), at(1));
    assert_eq!(moved.outcomes(), (STEERED, REISSUED));
    let again = site.visit(&from(CLIENT), &FakeResponse::by(B), at(2));
    assert_eq!(
        (again.outcomes(), again.host().as_deref()),
        ((STEERED, UNCHANGED), Some(B))
    );
}

#[test]
fn replies_of_the_proxy_begin_no_session() {
    let site = site(json!({}));
    for response in [
        FakeResponse::local(503, "upstream_reset", A),
        FakeResponse::by(A).without_details(),
    ] {
        assert_eq!(
            site.visit(&from(CLIENT), &response, at(0)).outcomes(),
            (NO_TOKEN, UNCHANGED)
        );
    }
    let piped = site.visit(&from(CLIENT), &FakeResponse::by_a_pipe(), at(0));
    assert_eq!(piped.outcomes(), (NO_TOKEN, UNADDRESSABLE));
}

#[test]
fn a_client_without_an_ip_address_has_no_session() {
    let site = site(json!({}));
    for client in [FakeRequest::new(), from("/run/client.sock")] {
        for now in [0, 1] {
            let visit = site.visit(&client, &FakeResponse::by(A), at(now));
            assert_eq!(visit.outcomes(), (NO_TOKEN, UNCHANGED));
        }
    }
}

#[test]
fn no_header_makes_an_address() {
    let site = site(json!({}));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    let forged = from(OTHER)
        .header("x-forwarded-for", "192.0.2.1")
        .header("forwarded", "for=192.0.2.1");
    let visit = site.visit(&forged, &FakeResponse::by(B), at(1));
    assert_eq!((visit.outcomes(), visit.steering), ((NO_TOKEN, ISSUED), None));
}

#[test]
fn addresses_with_one_prefix_are_one_client() {
    let site = site(json!({ "source": { "prefixV4": 24, "prefixV6": 48 } }));
    for (first, second, hash) in [
        ("192.0.2.1:1", "192.0.2.200:2", "192.0.2.0"),
        ("[2001:db8:1:2::1]:1", "[2001:db8:1:3::4]:1", "2001:db8:1::"),
        ("198.51.100.7:1", "[::ffff:198.51.100.8]:1", "198.51.100.0"),
    ] {
        let begun = site.visit(&from(first), &FakeResponse::by(B), at(0));
        let visit = site.visit(&from(second), &FakeResponse::by(B), at(1));
        assert_eq!(
            (visit.outcomes(), visit.host().as_deref()),
            ((STEERED, UNCHANGED), Some(B))
        );
        assert_eq!(
            [begun.hash, visit.hash],
            [hash.parse().ok(); 2],
            "load balancing takes them for two"
        );
    }
}

#[test]
fn load_balancing_gets_a_hash_only_for_a_part_of_the_address() {
    let site = site(json!({}));
    for (client, hash) in [
        (CLIENT, None),
        ("[2001:db8::]:1", None),
        ("[2001:db8::1]:1", Some("2001:db8::")),
        ("[::ffff:192.0.2.1]:1", Some("192.0.2.1")),
    ] {
        let visit = site.visit(&from(client), &FakeResponse::by(A), at(0));
        assert_eq!(visit.hash, hash.map(|ip| ip.parse().unwrap()), "{client}");
    }
}

#[test]
fn a_full_table_loses_who_was_not_there_for_longest() {
    let site = site(json!({ "source": { "entries": 3 } }));
    let client = |number: u8| from(&format!("192.0.2.{number}:1"));
    for number in 1..=3 {
        assert!(
            !site
                .visit(&client(number), &FakeResponse::by(A), at(number.into()))
                .evicted
        );
    }
    site.visit(&client(1), &FakeResponse::by(A), at(4));
    assert!(site.visit(&client(4), &FakeResponse::by(B), at(5)).evicted);
    for (number, host) in [(1, Some(A)), (3, Some(A)), (4, Some(B)), (2, None)] {
        let mut session = site.session(&client(number));
        let plan = session.on_request(&mut client(number), at(6)).unwrap();
        assert_eq!(
            plan.steering.map(|steering| steering.host.to_string()).as_deref(),
            host,
            "{number}"
        );
    }
}

#[test]
fn an_entry_that_is_over_goes_uncounted() {
    let site = site(json!({ "source": { "entries": 1, "timeout": "10s" } }));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    assert!(!site.visit(&from(OTHER), &FakeResponse::by(A), at(10)).evicted);
    assert!(site.visit(&from(CLIENT), &FakeResponse::by(A), at(19)).evicted);
}

#[test]
fn scopes_have_sessions_of_their_own() {
    let site = site(json!({}));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    let other = site.visit(&from(CLIENT).session("shop/other"), &FakeResponse::by(B), at(1));
    assert_eq!(other.outcomes(), (NO_TOKEN, ISSUED));
    let again = site.visit(&from(CLIENT), &FakeResponse::by(A), at(2));
    assert_eq!(again.outcomes(), (STEERED, UNCHANGED));
}

#[test]
fn an_absolute_timeout_ends_a_session_in_use() {
    let site = site(json!({ "absoluteTimeout": "10s" }));
    for (now, outcomes) in [
        (0, (NO_TOKEN, ISSUED)),
        (9, (STEERED, UNCHANGED)),
        (10, (refused(TokenRefusal::Expired), ISSUED)),
        (19, (STEERED, UNCHANGED)),
    ] {
        assert_eq!(
            site.visit(&from(CLIENT), &FakeResponse::by(A), at(now)).outcomes(),
            outcomes,
            "{now}"
        );
    }
}

#[test]
fn a_fence_ends_the_sessions_of_its_address() {
    let fence = json!({ "fences": [{ "address": A, "notBefore": at(5).unix_seconds() }] });
    let site = Site::configured(source_policy(json!({})), fence);
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    site.visit(&from(OTHER), &FakeResponse::by(B), at(0));
    let fenced = site.visit(&from(CLIENT), &FakeResponse::by(A), at(6));
    assert_eq!(fenced.outcomes(), (refused(TokenRefusal::Fenced), ISSUED));
    for (client, host) in [(CLIENT, A), (OTHER, B)] {
        assert_eq!(
            site.visit(&from(client), &FakeResponse::by(host), at(7)).outcomes(),
            (STEERED, UNCHANGED)
        );
    }
}

/// As with a token, only its backend's answer keeps a strict session alive.
#[test]
fn a_strict_session_fails_and_ends_when_its_backend_is_gone() {
    let site = site(json!({ "strict": true, "strictStatus": 421, "source": { "timeout": "10s" } }));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    let kept = site.visit(&from(CLIENT), &FakeResponse::by(A), at(9));
    assert_eq!((kept.outcomes(), kept.status), ((STEERED, UNCHANGED), None));
    let failed = || FakeResponse::local(503, "no_healthy_upstream", A);
    for now in [12, 16] {
        let visit = site.visit(&from(CLIENT), &failed(), at(now));
        assert_eq!((visit.outcomes(), visit.status), ((STEERED, UNCHANGED), Some(421)));
        assert!(visit.steering.is_some_and(|steering| steering.strict));
    }
    let over = site.visit(&from(CLIENT), &FakeResponse::by(B), at(19));
    assert_eq!(over.outcomes(), (refused(TokenRefusal::Idle), ISSUED));
}

#[test]
fn a_strict_session_of_another_cluster_begins_anew() {
    let site = site(json!({ "strict": true }));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    let moved = site.visit(&from(CLIENT).cluster("new"), &FakeResponse::by(B).cluster("new"), at(1));
    assert_eq!(moved.outcomes(), (refused(TokenRefusal::UnknownDestination), ISSUED));
    assert_eq!(moved.steering, None);
}

#[test]
fn an_entry_remembers_the_destination_of_a_split() {
    let site = site(json!({}));
    let client = || from(CLIENT).session("@split/shop/cart").destinations(&["v1", "v2"]);
    site.visit(&client(), &FakeResponse::by(A).cluster("v2"), at(0));
    let request = client();
    let visit = site.visit(&request, &FakeResponse::by(A).cluster("v2"), at(1));
    assert_eq!(
        (visit.outcomes(), visit.host().as_deref()),
        ((STEERED, UNCHANGED), Some(A))
    );
    assert!(request.questions().contains(&"reroute".to_owned()));

    let gone = client().destinations(&["v1"]);
    let visit = site.visit(&gone, &FakeResponse::by(B).cluster("v1"), at(2));
    assert_eq!(visit.outcomes(), (refused(TokenRefusal::UnknownDestination), ISSUED));
}

#[test]
fn a_split_that_is_matched_later_tells_with_the_response() {
    let site = site(json!({}));
    let client = || from(CLIENT).session("@split/shop/cart").rerouted_later();
    site.visit(&client(), &FakeResponse::by(A).cluster("v2"), at(0));
    let there = site.visit(&client(), &FakeResponse::by(A).cluster("v2"), at(1));
    assert_eq!((there.outcomes(), there.told_late), ((STEERED, UNCHANGED), true));
    let elsewhere = site.visit(&client(), &FakeResponse::by(B).cluster("v1"), at(2));
    assert_eq!(
        elsewhere.outcomes(),
        (refused(TokenRefusal::UnknownDestination), ISSUED)
    );
    assert!(elsewhere.told_late);
}

#[test]
fn a_clock_that_is_set_back_ends_no_session() {
    let site = site(json!({ "source": { "timeout": "10s" } }));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(1000));
    for now in [0, 9, 18] {
        assert_eq!(
            site.visit(&from(CLIENT), &FakeResponse::by(A), at(now)).outcomes(),
            (STEERED, UNCHANGED),
            "{now}"
        );
    }
    assert_eq!(
        site.visit(&from(CLIENT), &FakeResponse::by(A), at(28)).request,
        refused(TokenRefusal::Idle)
    );
}

/// An entry that was used before it began would be a moving session.
#[test]
fn a_clock_that_is_set_back_moves_no_session() {
    let site = site(json!({ "move": { "header": "x-move-session" } }));
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(1000));
    for (now, host) in [(1, A), (2, B), (3, A)] {
        let visit = site.visit(&from(CLIENT), &FakeResponse::by(host), at(now));
        assert_eq!(visit.refused_move, None, "{now}");
    }
}

#[test]
fn sessions_by_address_need_no_keys() {
    let config = json!({ "sdsKeys": { "name": "keys" }, "policies": { "shop": source_policy(json!({})) } });
    let config = limpet_core::config::parse(config.to_string().as_bytes()).unwrap();
    let site = Site {
        filter: limpet_core::Filter::without_keys(&config).unwrap(),
    };
    site.visit(&from(CLIENT), &FakeResponse::by(A), at(0));
    assert_eq!(
        site.visit(&from(CLIENT), &FakeResponse::by(A), at(1)).outcomes(),
        (STEERED, UNCHANGED)
    );
}

#[test]
fn a_proxy_that_does_not_tell_the_address_is_an_error() {
    let site = site(json!({}));
    let request = from(CLIENT).broken("client_address");
    let mut session = site.session(&request);
    assert!(session.on_request(&mut request.clone(), at(0)).is_err());
}

/// Retiring keys and fences stay for as long as an entry may live.
#[test]
fn the_longest_life_counts_the_table() {
    let config = json!({
        "keys": [key(1, "signing")], "clockSkew": "1s",
        "policies": { "shop": source_policy(json!({ "source": { "timeout": "100h" } })) },
    });
    let config = limpet_core::config::parse(config.to_string().as_bytes()).unwrap();
    let life = limpet_core::config::longest_life(&config);
    assert!(life >= Duration::from_secs(100 * 3600), "{life:?}");
}
