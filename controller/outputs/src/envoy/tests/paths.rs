use serde_json::{Value, json};

use super::{acting, forward, graph, listening, made, prefix, to};
use crate::envoy::EnvoyOptions;
use limpet_model::graph::{Action, Hostname, Listener, PathChange, PathMatch, Redirect, VirtualHost};
use limpet_resources::ResourceType;

fn rewritten(matched: &str, change: PathChange) -> Value {
    let mut action = forward(vec![to("v1", 1)]);
    action.rewrite.path = Some(change);
    let mut wanted = acting(Action::Forward(action));
    wanted.matches = prefix(matched);
    let action = made(wanted)["route"].clone();
    match (action.get("prefix_rewrite"), action.get("regex_rewrite")) {
        (Some(prefix), None) => prefix.clone(),
        (None, Some(regex)) => json!([regex["pattern"]["regex"], regex["substitution"]]),
        (None, None) => Value::Null,
        both => panic!("{both:?}"),
    }
}

#[test]
fn a_prefix_is_replaced_without_losing_or_doubling_a_slash() {
    let replaced = |matched: &str, becomes: &str| rewritten(matched, PathChange::Prefix(becomes.to_owned()));
    assert_eq!(replaced("/foo", "/xyz"), "/xyz");
    assert_eq!(replaced("/foo", "/xyz/"), "/xyz");
    assert_eq!(replaced("/foo.bar", ""), json!([r"^/foo\.bar/*", "/"]));
    assert_eq!(replaced("/foo", "/"), json!(["^/foo/*", "/"]));
    assert_eq!(replaced("", "/xyz"), "/xyz/");
    assert_eq!(replaced("", "/"), Value::Null);
}

#[test]
fn a_whole_path_is_replaced() {
    assert_eq!(
        rewritten("/foo", PathChange::Full(r"/a\1".to_owned())),
        json!(["^.*$", r"/a\\1"])
    );
}

#[test]
fn the_host_is_rewritten_and_the_backend_told() {
    let mut action = forward(vec![to("v1", 1)]);
    action.rewrite.hostname = Some("other.example.com".to_owned());
    let made = made(acting(Action::Forward(action)));
    assert_eq!(made["route"]["host_rewrite_literal"], "other.example.com");
    assert_eq!(made["route"]["append_x_forwarded_host"], true);
}

fn redirected(port: u16, tls: bool, redirect: Redirect) -> Value {
    let mut wanted = acting(Action::Redirect(redirect));
    wanted.matches.path = PathMatch::Prefix("/foo".to_owned());
    let listener = Listener {
        name: "l".to_owned(),
        hostname: Hostname::Any,
        certificates: tls.then(Vec::new),
        tls_minimum: None,
        virtual_hosts: Listener::hosts([VirtualHost {
            hostname: Hostname::Any,
            routes: vec![wanted],
        }]),
    };
    let graph = listening([(port, vec![listener])].into());
    let made = super::only(&graph, &EnvoyOptions::default(), ResourceType::RouteConfiguration);
    made["virtual_hosts"][0]["routes"][0]["redirect"].clone()
}

#[test]
fn a_redirect_says_what_changes() {
    let redirect = Redirect {
        scheme: Some("https".to_owned()),
        hostname: Some("example.com".to_owned()),
        path: Some(PathChange::Prefix("/bar".to_owned())),
        port: Some(8443),
        status: 308,
    };
    assert_eq!(
        redirected(80, false, redirect),
        json!({
            "scheme_redirect": "https",
            "host_redirect": "example.com",
            "port_redirect": 8443,
            "prefix_rewrite": "/bar",
            "response_code": "PERMANENT_REDIRECT",
        })
    );
    let full = Redirect {
        path: Some(PathChange::Full("/".to_owned())),
        status: 301,
        ..Redirect::default()
    };
    assert_eq!(redirected(80, false, full), json!({"path_redirect": "/"}));
}

#[test]
fn a_redirects_port_is_the_schemes_or_the_listeners() {
    let port = |port: u16, tls: bool, scheme: Option<&str>, hostname: Option<&str>, wanted: Option<u16>| {
        let redirect = Redirect {
            scheme: scheme.map(str::to_owned),
            hostname: hostname.map(str::to_owned),
            port: wanted,
            status: 302,
            path: None,
        };
        let made = redirected(port, tls, redirect);
        made.get("port_redirect").and_then(Value::as_u64)
    };
    let host = Some("example.com");
    assert_eq!(port(80, false, None, host, Some(8080)), Some(8080));
    assert_eq!(port(80, false, Some("https"), host, Some(443)), None);
    assert_eq!(port(443, true, None, host, Some(443)), None);
    assert_eq!(port(443, true, None, host, Some(80)), Some(80));
    assert_eq!(port(80, false, Some("https"), None, None), None);
    assert_eq!(port(8080, false, Some("https"), host, None), None);
    assert_eq!(port(8080, false, Some("https"), None, None), Some(443));
    assert_eq!(port(8080, false, None, host, None), Some(8080));
    assert_eq!(port(80, false, None, host, None), None);
    assert_eq!(port(443, true, None, host, None), None);
}

#[test]
fn a_redirect_has_no_session_and_no_cluster() {
    let all = super::routes(&graph(vec![acting(Action::Redirect(Redirect::default()))]));
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].get("route"), all[0].get("metadata")), (None, None));
}
