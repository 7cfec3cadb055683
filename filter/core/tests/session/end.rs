//! Sessions that the application ends.

use limpet_core::outcome::ResponseOutcome;
use limpet_core::token::TokenRefusal;
use serde_json::{Value, json};

use crate::world::*;

const ENDED: ResponseOutcome = ResponseOutcome::Ended;
const LOGOUT: &str = "login=; Path=/; Max-Age=0";

fn policy(fields: Value) -> Value {
    with(cookie_policy(json!({"end": {"cookie": "login"}})), fields)
}

fn session() -> FakeRequest {
    bringing(&claims(A, at(0), at(0)))
}

fn setting(cookie: &str) -> FakeResponse {
    FakeResponse::by(A).surely_as_asked().header("set-cookie", cookie)
}

#[test]
fn a_logout_deletes_the_sessions_cookie() {
    let site = Site::new(policy(json!({})));
    for cookie in [
        LOGOUT,
        "login=x; max-age=-1",
        "login=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        "login=; Path=/",
    ] {
        let visit = site.visit(&session(), &setting(cookie), at(1));
        assert_eq!(visit.outcomes(), (STEERED, ENDED), "{cookie}");
        assert_eq!(
            visit.set_cookie(),
            Some("session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT")
        );
        assert_eq!(
            visit.cache_control(),
            Some("private"),
            "a cache would end the sessions of others"
        );
    }
}

#[test]
fn any_other_response_ends_nothing() {
    let site = Site::new(policy(json!({})));
    for cookie in [
        "login=abc",
        "other=; Max-Age=0",
        "Login=; Max-Age=0",
        "login=x; Max-Age=60",
    ] {
        let visit = site.visit(&session(), &setting(cookie), at(1));
        assert_eq!(
            (visit.outcomes(), visit.edits),
            ((STEERED, UNCHANGED), vec![]),
            "{cookie}"
        );
    }
    // The former cookie of another path is deleted beside the one that is set.
    let renamed = setting("login=; Path=/old; Max-Age=0").header("set-cookie", "login=abc");
    assert_eq!(site.visit(&session(), &renamed, at(1)).response, UNCHANGED);
}

#[test]
fn the_deletion_has_the_attributes_of_the_cookie() {
    let site = Site::new(policy(json!({
        "cookie": {
            "name": "__Secure-s", "path": "/shop", "domain": "example.com", "secure": "always", "sameSite": "None",
            "httpOnly": false, "partitioned": true, "lifetimeType": "Permanent",
        },
        "absoluteTimeout": "1h",
    })));
    let visit = site.visit(&FakeRequest::new(), &setting(LOGOUT), at(1));
    assert_eq!(
        visit.set_cookie(),
        Some(
            "__Secure-s=; SameSite=None; Partitioned; Secure; Path=/shop; Domain=example.com; Max-Age=0; \
             Expires=Thu, 01 Jan 1970 00:00:00 GMT"
        )
    );
    let https = Site::new(policy(json!({}))).visit(&session().https(), &setting(LOGOUT), at(1));
    assert!(https.attributes().contains(&"Secure"));
}

/// A request from another site may bring the application's cookie and not the session's.
#[test]
fn a_logout_without_a_session_deletes_the_cookie_too() {
    let site = Site::new(policy(json!({"absoluteTimeout": "10s"})));
    for (request, outcome) in [
        (FakeRequest::new(), NO_TOKEN),
        (FakeRequest::new().cookie("session=x"), refused(TokenRefusal::Malformed)),
        (session(), refused(TokenRefusal::Expired)),
    ] {
        let visit = site.visit(&request, &setting(LOGOUT), at(20));
        assert_eq!(
            visit.outcomes(),
            (outcome, UNCHANGED),
            "nothing is counted that did not live"
        );
        assert!(
            visit
                .set_cookie()
                .is_some_and(|cookie| cookie.starts_with("session=; "))
        );
    }
}

#[test]
fn the_response_of_a_logout_has_no_token() {
    let site = Site::new(policy(
        json!({"idleTimeout": "100s", "tell": {"header": {"name": "x-tell"}}}),
    ));
    for (request, response, now) in [
        (FakeRequest::new(), FakeResponse::by(A), 0),
        (session(), FakeResponse::by(A), 50),
        (session(), FakeResponse::by(B), 1),
    ] {
        let visit = site.visit(&request, &response.header("set-cookie", LOGOUT), at(now));
        assert!(visit.set_cookie().is_some_and(|cookie| cookie.contains("Max-Age=0")));
        let sets: Vec<_> = visit
            .edits
            .iter()
            .filter(|edit| matches!(edit, Edit::Set(..)))
            .collect();
        assert_eq!(sets, [&Edit::Set("cache-control".into(), "private".into())]);
        assert_eq!(visit.key_change, None);
    }
}

/// Filters behind this one may answer for the application: a login proxy does.
#[test]
fn a_reply_of_the_proxy_may_end_a_session() {
    let site = Site::new(policy(json!({"cacheControl": "keep"})));
    let reply = FakeResponse::local(302, "oauth_signout", A).header("set-cookie", LOGOUT);
    let visit = site.visit(&session(), &reply, at(1));
    assert_eq!((visit.outcomes(), visit.cache_control()), ((STEERED, ENDED), None));
}

#[test]
fn a_cookie_under_its_former_name_goes_too() {
    let site = Site::new(policy(json!({"cookie": {"perScope": true}})));
    let visit = site.visit(&session(), &setting(LOGOUT), at(1));
    let deleted: Vec<_> = visit
        .edits
        .iter()
        .filter_map(|edit| match edit {
            Edit::Add(_, field) if field.contains("; Max-Age=0") => field.split_once('='),
            _ => None,
        })
        .map(|(name, _)| name.split_once('~').map_or(name, |(plain, _)| plain))
        .collect();
    assert_eq!(deleted, ["session", "session"], "{:?}", visit.edits);
    assert!(visit.edits.contains(&Edit::Add(
        "set-cookie".into(),
        "session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT".into()
    )));
}

#[test]
fn a_session_begins_and_ends_with_the_same_cookie() {
    let site = Site::new(policy(json!({"begin": {"cookie": "login"}})));
    let client = site.client();
    for round in 0..3 {
        let now = |step: u64| at(10 * round + step);
        let login = client.visit_by(FakeRequest::new(), &setting("login=abc"), now(0));
        assert_eq!(login.response, ISSUED);
        assert_eq!(client.visit(A, now(1)).outcomes(), (STEERED, UNCHANGED));
        assert_eq!(
            client.visit_by(FakeRequest::new(), &setting(LOGOUT), now(2)).outcomes(),
            (STEERED, ENDED)
        );
        let after = client.visit(B, now(3));
        assert_eq!((after.steering, after.response), (None, UNCHANGED));
    }
}

#[test]
fn a_logout_removes_the_entry_of_the_address() {
    for strict in [false, true] {
        let site = Site::new(json!({"source": {}, "end": {"cookie": "login"}, "strict": strict}));
        let client = || FakeRequest::new().client("192.0.2.1:4711");
        site.visit(&client(), &FakeResponse::by(A), at(0));
        let other = || FakeRequest::new().client("192.0.2.2:4711");
        site.visit(&other(), &FakeResponse::by(A), at(0));
        let visit = site.visit(&client(), &setting(LOGOUT), at(1));
        assert_eq!((visit.outcomes(), visit.edits), ((STEERED, ENDED), vec![]));
        let again = site.visit(&client(), &setting(LOGOUT), at(2));
        assert_eq!(
            again.outcomes(),
            (NO_TOKEN, UNCHANGED),
            "no entry in the response of a logout"
        );
        let next = site.visit(&client(), &FakeResponse::by(B), at(3));
        assert_eq!((next.outcomes(), next.steering), ((NO_TOKEN, ISSUED), None));
        assert_eq!(site.visit(&other(), &FakeResponse::by(A), at(4)).request, STEERED);
    }
}

#[test]
fn a_header_ends_a_session() {
    let with_header = |name: &str, value: &str| FakeResponse::by(A).surely_as_asked().header(name, value);
    for (header, name, value, ends) in [
        ("X-Logout", "x-logout", "1", true),
        ("X-Logout", "x-logout", "", false),
        ("X-Logout", "x-other", "1", false),
        ("Clear-Site-Data", "clear-site-data", r#""cookies""#, true),
        (
            "Clear-Site-Data",
            "clear-site-data",
            r#""cache","cookies", "storage""#,
            true,
        ),
        ("Clear-Site-Data", "clear-site-data", r#" "*" "#, true),
        ("Clear-Site-Data", "clear-site-data", r#""cache", "storage""#, false),
        ("Clear-Site-Data", "clear-site-data", "cookies", false),
    ] {
        let expected = (STEERED, if ends { ENDED } else { UNCHANGED });
        let by_cookie = Site::new(cookie_policy(json!({"end": {"header": header}})));
        let visit = by_cookie.visit(&session(), &with_header(name, value), at(1));
        assert_eq!(visit.outcomes(), expected, "{name}: {value}");
        let deleted = visit
            .set_cookie()
            .is_some_and(|cookie| cookie.starts_with("session=; "));
        assert_eq!(deleted, ends);

        let by_address = Site::new(json!({"source": {}, "end": {"header": header}}));
        let client = || FakeRequest::new().client("192.0.2.1:4711");
        by_address.visit(&client(), &FakeResponse::by(A), at(0));
        let visit = by_address.visit(&client(), &with_header(name, value), at(1));
        assert_eq!(visit.outcomes(), expected, "{name}: {value}");
        let next = by_address.visit(&client(), &FakeResponse::by(A), at(2));
        assert_eq!(next.request, if ends { NO_TOKEN } else { STEERED });
    }
}

#[test]
fn the_applications_own_cookie_of_the_name_is_removed_as_ever() {
    let site = Site::new(policy(json!({})));
    site.visit(&FakeRequest::new(), &setting("session=app"), at(0));
    let visit = site.visit(&session(), &setting("session=app").header("set-cookie", LOGOUT), at(1));
    assert_eq!(visit.edits[0], Edit::Remove("set-cookie".into()));
    assert_eq!(visit.edits[1], Edit::Add("set-cookie".into(), LOGOUT.into()));
    assert!(matches!(&visit.edits[2], Edit::Add(_, field) if field.starts_with("session=; ")));
}

#[test]
fn a_proxy_that_does_not_answer_is_an_error() {
    let site = Site::new(policy(json!({})));
    let request = session();
    let mut session = site.session(&request);
    session.on_request(&mut request.clone(), at(1)).unwrap();
    let response = FakeResponse::by(A).broken("set-cookie");
    assert!(session.on_response(&response, || Ok(at(1))).is_err());
}
