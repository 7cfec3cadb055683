//! Routes that lead to several clusters, and sessions that belong to one of the clusters.

use limpet_core::token::{Claims, DestinationId, TokenRefusal};
use serde_json::json;

use crate::world::*;

const CANARY: &str = "canary";

fn split(cluster: &str) -> FakeRequest {
    bringing(&claims(A, at(0), at(0)))
        .session("@split/shop/cart")
        .cluster(cluster)
}

fn answer_of(cluster: &str) -> FakeResponse {
    FakeResponse::by(A).cluster(cluster).surely_as_asked()
}

fn sites() -> [Site; 2] {
    [json!({}), json!({ "strict": true })].map(|fields| Site::new(cookie_policy(fields)))
}

#[test]
fn a_session_is_rerouted_to_its_destination() {
    for site in sites() {
        let request = split(CANARY).destinations(&[CLUSTER, CANARY]);
        let visit = site.visit(&request, &answer_of(CLUSTER), at(1));
        assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
        assert_eq!(visit.host().as_deref(), Some(A));
    }
}

#[test]
fn a_session_whose_destination_is_gone_ends() {
    for site in sites() {
        let request = split(CANARY).destinations(&[CANARY]);
        let visit = site.visit(&request, &answer_of(CANARY), at(1));
        assert_eq!(visit.outcomes(), (refused(TokenRefusal::UnknownDestination), ISSUED));
        assert_eq!(visit.steering, None);
    }
}

/// How often the proxy had to match the route again, and to choose its cluster again.
fn led(request: &FakeRequest) -> (usize, usize) {
    let asked = request.questions();
    let times = |what: &str| asked.iter().filter(|asked| *asked == what).count();
    (times("reroute"), times("choose_again"))
}

#[test]
fn a_specifier_chooses_again_and_the_route_stays() {
    for site in sites() {
        let specifier = |cluster| split(cluster).session("@specifier/shop/cart");
        let request = specifier(CANARY).destinations(&[CLUSTER, CANARY]);
        let visit = site.visit(&request, &answer_of(CLUSTER), at(1));
        assert_eq!((visit.outcomes(), led(&request)), ((STEERED, UNCHANGED), (0, 1)));
        assert_eq!(visit.host().as_deref(), Some(A));

        let request = specifier(CLUSTER);
        let visit = site.visit(&request, &answer_of(CLUSTER), at(1));
        assert_eq!((visit.outcomes(), led(&request)), ((STEERED, UNCHANGED), (0, 0)));
        assert_eq!(visit.host().as_deref(), Some(A));

        let request = specifier(CANARY).destinations(&[CANARY]);
        let visit = site.visit(&request, &answer_of(CANARY), at(1));
        assert_eq!(visit.outcomes(), (refused(TokenRefusal::UnknownDestination), ISSUED));
        assert_eq!(visit.steering, None);

        let request = FakeRequest::new().session("@specifier/shop/cart").cluster(CANARY);
        let visit = site.visit(&request, &answer_of(CANARY), at(0));
        assert_eq!((visit.outcomes(), led(&request)), ((NO_TOKEN, ISSUED), (0, 0)));
    }
}

#[test]
fn a_late_answer_about_the_route_settles_with_the_response() {
    for site in sites() {
        let request = split(CANARY).destinations(&[CLUSTER]).rerouted_later();
        let visit = site.visit(&request, &answer_of(CLUSTER), at(1));
        assert!(visit.told_late);
        assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));

        let request = split(CANARY).destinations(&[]).rerouted_later();
        let visit = site.visit(&request, &answer_of(CANARY), at(1));
        assert!(visit.told_late);
        assert_eq!(
            visit.host().as_deref(),
            Some(A),
            "the routes make sure that it has no effect"
        );
        assert_eq!(visit.outcomes(), (refused(TokenRefusal::UnknownDestination), ISSUED));
    }
}

#[test]
fn a_request_without_a_session_follows_the_split() {
    let request = FakeRequest::new().session("@split/shop/cart").cluster(CANARY);
    let visit = sites()[0].visit(&request, &answer_of(CANARY), at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
    assert!(!request.questions().contains(&"reroute".to_owned()));
}

#[test]
fn a_destination_is_what_stands_before_a_hash() {
    let of = |name: &str| DestinationId::of_cluster(name.as_bytes());
    for same in ["canary#", "canary#1f2e", "canary#1f2e#3d"] {
        assert_eq!(of(same), of(CANARY), "{same}");
    }
    for other in ["canar#y", "canary1f2e", "canary/#", "#canary"] {
        assert_ne!(of(other), of(CANARY), "{other}");
    }
    for site in sites() {
        let moved = format!("{CLUSTER}#1f2e");
        let own = bringing(&claims(A, at(0), at(0))).cluster(&moved);
        let split = split(CANARY).destinations(&[&moved, CANARY]);
        let late = || self::split(CANARY).destinations(&[&moved]).rerouted_later();
        for request in [own, split, late()] {
            let visit = site.visit(&request, &answer_of(&moved), at(1));
            assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
        }
        let visit = site.visit(&late(), &answer_of("canary#1f2e"), at(1));
        assert_eq!(visit.outcomes(), (refused(TokenRefusal::UnknownDestination), ISSUED));
    }
}

const NONE: &str = "@none";

/// An answer of a destination that issues no tokens.
fn silent() -> FakeResponse {
    FakeResponse::by(A).cluster(CANARY).cluster_session(NONE)
}

#[test]
fn a_destination_may_issue_no_tokens() {
    for site in sites() {
        let request = || FakeRequest::new().session("@split/shop/cart");
        let visit = site.visit(&request(), &silent(), at(0));
        assert_eq!((visit.outcomes(), visit.edits), ((NO_TOKEN, UNCHANGED), vec![]));
        for session in ["", "@non", "shop/cart"] {
            let other = FakeResponse::by(A).cluster(CANARY).cluster_session(session);
            assert_eq!(site.visit(&request(), &other, at(0)).response, ISSUED, "{session}");
        }
    }
}

/// A token from before the destination was silent counts until it times out.
#[test]
fn a_silent_destination_honours_tokens_and_renews_none() {
    let site = Site::new(cookie_policy(json!({ "idleTimeout": "100s" })));
    let request = || {
        let begun = Claims {
            destination: DestinationId::of_cluster(CANARY.as_bytes()),
            ..claims(A, at(0), at(0))
        };
        bringing(&begun).session("@split/shop/cart").destinations(&[CANARY])
    };
    for (response, now) in [(silent(), 1), (silent(), 50)] {
        let visit = site.visit(&request(), &response, at(now));
        assert_eq!(
            (visit.outcomes(), visit.edits),
            ((STEERED, UNCHANGED), vec![]),
            "after {now} s"
        );
    }
    let moved = FakeResponse::by(B).cluster(CANARY).cluster_session(NONE);
    assert_eq!(site.visit(&request(), &moved, at(2)).outcomes(), (STEERED, UNCHANGED));
    assert_eq!(
        site.visit(&request(), &silent(), at(111)).outcomes(),
        (refused(TokenRefusal::Idle), UNCHANGED)
    );
}

#[test]
fn a_silent_destination_leaves_the_applications_cookie() {
    let site = Site::new(json!({"cookie": {"name": "JSESSIONID", "mode": "prefix"}}));
    let request = FakeRequest::new().session("@split/shop/cart");
    let response = silent().header("set-cookie", "JSESSIONID=abc");
    let visit = site.visit(&request, &response, at(0));
    assert_eq!((visit.response, visit.edits), (UNCHANGED, vec![]));
}

#[test]
fn a_silent_destination_makes_no_entry() {
    let site = Site::new(json!({"source": {}}));
    let client = || FakeRequest::new().client("192.0.2.1:1").session("@split/shop/cart");
    for now in [0, 1] {
        assert_eq!(
            site.visit(&client(), &silent(), at(now)).outcomes(),
            (NO_TOKEN, UNCHANGED)
        );
    }
}

#[test]
fn only_a_split_asks_whether_its_destination_is_silent() {
    let site = Site::new(cookie_policy(json!({})));
    let response = silent();
    let visit = site.visit(&FakeRequest::new(), &response, at(0));
    assert_eq!(visit.response, ISSUED);
    assert!(!response.questions().contains(&"cluster_session".to_owned()));
}

#[test]
fn a_split_route_shares_sessions_with_the_same_scope() {
    let visit = sites()[0].visit(&bringing(&claims(A, at(0), at(0))), &answer_of(CLUSTER), at(1));
    assert_eq!(visit.outcomes(), (STEERED, UNCHANGED));
}

#[test]
fn a_session_may_belong_to_the_cluster() {
    let site = Site::new(cookie_policy(json!({})));
    let of_cluster = |session| FakeRequest::new().session("@destination").cluster_session(session);
    let visit = site.visit(&of_cluster("shop/blue"), &FakeResponse::by(A), at(0));
    assert_eq!(visit.outcomes(), (NO_TOKEN, ISSUED));
    let cookie = format!("{COOKIE}={}", visit.token().unwrap());
    for (session, outcome) in [
        ("shop/blue", STEERED),
        ("shop/green", refused(TokenRefusal::BadSignature)),
    ] {
        let request = of_cluster(session).cookie(&cookie);
        assert_eq!(
            site.visit(&request, &FakeResponse::by(A), at(1)).request,
            outcome,
            "{session}"
        );
        assert!(
            !request.questions().contains(&"reroute".to_owned()),
            "the split chooses"
        );
    }
}

/// A rule's policy in each of its clusters, by the route's metadata and by the table of routes.
#[test]
fn a_rule_may_have_a_session_in_each_cluster() {
    let by_metadata = Site::new(cookie_policy(json!({})));
    let by_table = Site::of(&json!({
        "keys": [key(1, "signing")],
        "policies": {"shop": cookie_policy(json!({}))},
        "routes": [{"route": "route", "policy": "shop", "scope": "cart", "perCluster": true}],
    }));
    let requests = [
        (&by_metadata, FakeRequest::new().session("@destination/shop/cart")),
        (&by_table, FakeRequest::on_route("route")),
    ];
    for (site, request) in requests {
        let at_blue = |request: FakeRequest| request.cluster("blue#1");
        let first = site.visit(&at_blue(request.clone()), &FakeResponse::by(A).cluster("blue#1"), at(0));
        assert_eq!(first.outcomes(), (NO_TOKEN, ISSUED));
        let cookie = format!("{COOKIE}={}", first.token().unwrap());
        for (cluster, outcome) in [
            ("blue#1", STEERED),
            ("blue#2", STEERED),
            ("green", refused(TokenRefusal::BadSignature)),
        ] {
            let request = request.clone().cluster(cluster).cookie(&cookie);
            let visit = site.visit(&request, &FakeResponse::by(A).cluster(cluster), at(1));
            assert_eq!(visit.request, outcome, "{cluster}");
            assert!(
                !request.questions().contains(&"reroute".to_owned()),
                "the split chooses"
            );
        }
        // It is no session of the rule, nor of a rule with that name.
        for session in ["shop/cart", "shop/cart/green", "@split/shop/cart"] {
            let visit = by_metadata.visit(
                &FakeRequest::new().session(session).cookie(&cookie),
                &FakeResponse::by(A),
                at(1),
            );
            assert_eq!(visit.request, refused(TokenRefusal::BadSignature), "{session}");
        }
        let at_none = request.clone().cluster("blue").cluster_session(NONE);
        assert_eq!(site.policy_of(&at_none), Ok(None));
        let at_other = request
            .clone()
            .cluster("blue")
            .cluster_session("shop/blue")
            .cookie(&cookie);
        assert_eq!(site.visit(&at_other, &FakeResponse::by(A), at(1)).request, STEERED);
    }
    // Where the controller knows the cluster, it names it.
    let request = FakeRequest::new().session("@destination/shop/cart").cluster("blue");
    let first = by_metadata.visit(&request, &FakeResponse::by(A).cluster("blue"), at(0));
    let known = FakeRequest::new().session("shop/cart/blue").cluster("blue");
    let cookie = format!("{COOKIE}={}", first.token().unwrap());
    assert_eq!(
        by_metadata
            .visit(&known.cookie(&cookie), &FakeResponse::by(A), at(1))
            .request,
        STEERED
    );
}

/// A client has one value for a header: the token of the destination that answered last.
#[test]
fn a_token_of_another_destination_is_removed_like_the_own() {
    for forward in [false, true] {
        let site = Site::new(header_policy(json!({ "header": { "forward": forward } })));
        let of_cluster = |session| FakeRequest::new().session("@destination").cluster_session(session);
        let first = site.visit(&of_cluster("shop/blue"), &FakeResponse::by(A), at(0));
        let token = first.token().unwrap();
        for (session, outcomes) in [
            ("shop/blue", (STEERED, UNCHANGED)),
            ("shop/green", (refused(TokenRefusal::BadSignature), ISSUED)),
        ] {
            let visit = site.visit(&of_cluster(session).header(HEADER, &token), &FakeResponse::by(A), at(1));
            assert_eq!(visit.outcomes(), outcomes, "{session}");
            let removed = (!forward).then(|| Edit::Remove(HEADER.into()));
            assert_eq!(visit.request_edit, removed, "{session}");
        }
    }
}

#[test]
fn cluster_metadata_may_be_absent_but_not_wrong() {
    let site = Site::new(cookie_policy(json!({})));
    assert_eq!(site.policy_of(&FakeRequest::new().session("@destination")), Ok(None));
    let none = FakeRequest::new().session("@destination").cluster_session(NONE);
    assert_eq!(site.policy_of(&none), Ok(None));
    for session in ["other/a", "shop", "shop/", "@destination", "@split/shop/a", ""] {
        let request = FakeRequest::new().session("@destination").cluster_session(session);
        assert!(site.policy_of(&request).is_err(), "{session}");
    }
}
