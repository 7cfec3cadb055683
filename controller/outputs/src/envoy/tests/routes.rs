use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::{acting, forward, graph, made, module, nowhere, only, route, to};
use crate::envoy::EnvoyOptions;
use limpet_model::graph::{Action, ClusterName, Cors, HeaderChanges, Match, Mirror, PathMatch, Retry, ValueMatch};
use limpet_resources::ResourceType;

fn matching(matches: Match) -> Value {
    let mut wanted = route(vec![to("v1", 1)]);
    wanted.matches = matches;
    made(wanted)["match"].clone()
}

#[test]
fn paths_are_matched_whole_or_by_their_elements() {
    let path = |path| {
        matching(Match {
            path,
            ..Match::default()
        })
    };
    assert_eq!(path(PathMatch::Exact("/a".to_owned())), json!({"path": "/a"}));
    assert_eq!(
        path(PathMatch::Prefix("/a".to_owned())),
        json!({"path_separated_prefix": "/a"})
    );
    assert_eq!(path(PathMatch::Prefix(String::new())), json!({"prefix": "/"}));
    assert_eq!(
        path(PathMatch::Regex("/a|/b".to_owned())),
        json!({"safe_regex": {"regex": "/a|/b"}})
    );
}

#[test]
fn everything_that_is_asked_for_has_to_match() {
    let matches = Match {
        path: PathMatch::default(),
        method: Some("POST".to_owned()),
        headers: BTreeMap::from([
            ("x-b".to_owned(), ValueMatch::Regex("[0-9]+".to_owned())),
            ("x-a".to_owned(), ValueMatch::Exact("1".to_owned())),
        ]),
        query: BTreeMap::from([("q".to_owned(), ValueMatch::Exact("2".to_owned()))]),
        grpc: true,
    };
    assert_eq!(
        matching(matches),
        json!({
            "prefix": "/",
            "headers": [
                {"name": ":method", "string_match": {"exact": "POST"}},
                {"name": "x-a", "string_match": {"exact": "1"}},
                {"name": "x-b", "string_match": {"safe_regex": {"regex": "[0-9]+"}}},
            ],
            "query_parameters": [{"name": "q", "string_match": {"exact": "2"}}],
            "grpc": {},
        })
    );
}

#[test]
fn a_request_lasts_as_long_as_it_takes_unless_a_timeout_is_set() {
    let timeouts = |request: Option<u64>, backend: Option<u64>| {
        let mut action = forward(vec![to("v1", 1)]);
        action.request_timeout = request.map(Duration::from_millis);
        action.backend_timeout = backend.map(Duration::from_millis);
        let made = made(acting(Action::Forward(action)));
        (
            made["route"]["timeout"].clone(),
            made["route"]["retry_policy"]["per_try_timeout"].clone(),
        )
    };
    assert_eq!(timeouts(None, None), (json!("0s"), Value::Null));
    assert_eq!(timeouts(Some(0), Some(0)), (json!("0s"), Value::Null));
    assert_eq!(timeouts(Some(1500), Some(500)), (json!("1.500s"), json!("0.500s")));
}

#[test]
fn a_request_is_tried_again_as_the_rule_asks() {
    let policy = |retry: Retry| {
        let mut action = forward(vec![to("v1", 1)]);
        action.retry = Some(retry);
        let mut policy = made(acting(Action::Forward(action)))["route"]["retry_policy"].take();
        policy
            .as_object_mut()
            .unwrap()
            .retain(|field, _| !field.starts_with("host_") && field != "retry_host_predicate");
        policy
    };
    let never = Retry {
        attempts: 0,
        server_errors: false,
        codes: Vec::new(),
        backoff: None,
    };
    assert_eq!(
        policy(never),
        json!({"retry_on": "connect-failure,refused-stream,reset", "num_retries": 0})
    );
    let full = Retry {
        attempts: 3,
        server_errors: false,
        codes: vec![500, 503],
        backoff: Some(Duration::from_millis(250)),
    };
    assert_eq!(
        policy(full),
        json!({
            "retry_on": "connect-failure,refused-stream,reset,retriable-status-codes",
            "num_retries": 3,
            "retriable_status_codes": [500, 503],
            "retry_back_off": {"base_interval": "0.250s"},
        })
    );
}

#[test]
fn a_mirror_gets_its_share_of_copies() {
    let mut action = forward(vec![to("v1", 1)]);
    action.mirrors = vec![Mirror {
        cluster: ClusterName("v2".into()),
        per_million: 250_000,
    }];
    let made = made(acting(Action::Forward(action)));
    assert_eq!(
        made["route"]["request_mirror_policies"],
        json!([{
            "cluster": "v2",
            "runtime_fraction": {"default_value": {"numerator": 250_000, "denominator": "MILLION"}},
            "disable_shadow_host_suffix_append": true,
        }])
    );
}

#[test]
fn a_route_says_which_origins_may_ask() {
    let mut asked = route(vec![to("v1", 1)]);
    asked.cors = Some(Cors {
        allow_origins: vec![
            ValueMatch::Exact("https://a.example".to_owned()),
            ValueMatch::Regex("https://[^/:]+".to_owned()),
        ],
        allow_methods: vec!["GET".to_owned(), "PUT".to_owned()],
        allow_headers: vec!["x-one".to_owned()],
        expose_headers: vec!["x-two".to_owned()],
        allow_credentials: true,
        max_age: 60,
    });
    let policy = made(asked)["typed_per_filter_config"]["envoy.filters.http.cors"].take();
    assert_eq!(
        policy,
        json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy",
            "allow_origin_string_match": [
                {"exact": "https://a.example"},
                {"safe_regex": {"regex": "https://[^/:]+"}},
            ],
            "allow_methods": "GET, PUT",
            "allow_headers": "x-one",
            "expose_headers": "x-two",
            "max_age": "60",
            "allow_credentials": true,
            "forward_not_matching_preflights": false,
        })
    );
}

#[test]
fn a_reference_that_leads_nowhere_answers_500_for_its_share() {
    let split = made(route(vec![to("v1", 3), nowhere(1)]));
    assert_eq!(
        split["route"]["weighted_clusters"]["clusters"],
        json!([{"name": "v1", "weight": 3}, {"name": "limpet.nowhere", "weight": 1}])
    );
    assert_eq!(
        split["route"]["cluster_not_found_response_code"],
        "INTERNAL_SERVER_ERROR"
    );
    for destinations in [
        vec![nowhere(1)],
        vec![to("v1", 0)],
        vec![to("v1", 0), nowhere(1)],
        vec![],
    ] {
        assert_eq!(made(route(destinations))["direct_response"]["status"], 500);
    }
}

#[test]
fn an_answer_says_why() {
    let made = made(acting(Action::Respond {
        status: 500,
        reason: "spec.rules[0]: no backend".to_owned(),
    }));
    let body = json!({"inline_string": "This route cannot be served. Its status in the cluster says why.\n"});
    assert_eq!(made["direct_response"], json!({"status": 500, "body": body}));
    assert_eq!(
        made["metadata"]["filter_metadata"],
        json!({"limpet.controller": {"reason": "spec.rules[0]: no backend"}})
    );
}

fn changes(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str]) -> HeaderChanges {
    let fields = |fields: &[(&str, &str)]| {
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        fields.collect()
    };
    HeaderChanges {
        set: fields(set),
        add: fields(add),
        remove: remove.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn set(name: &str, value: &str) -> Value {
    json!({"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"})
}

#[test]
fn headers_are_set_added_and_removed() {
    let mut wanted = route(vec![to("v1", 1)]);
    wanted.request_headers = changes(&[("x-set", "100%")], &[("x-add", "2"), ("x-gone", "3")], &["x-gone"]);
    wanted.response_headers = changes(&[], &[], &["server"]);
    let made = made(wanted);
    // What is removed in the end need not be added; `%%` is one percent sign.
    assert_eq!(
        made["request_headers_to_add"],
        json!([set("x-set", "100%%"), {"header": {"key": "x-add", "value": "2"}}])
    );
    assert_eq!(made["request_headers_to_remove"], json!(["x-gone"]));
    assert_eq!(made["response_headers_to_remove"], json!(["server"]));
}

#[test]
fn a_backends_own_changes_come_after_its_rules() {
    let mut destination = to("v1", 1);
    destination.request_headers = changes(&[("x-a", "backend")], &[], &["x-b"]);
    let mut wanted = route(vec![destination]);
    wanted.request_headers = changes(&[("x-a", "rule"), ("x-b", "rule")], &[], &["x-c"]);
    let made = made(wanted);
    assert_eq!(
        made["request_headers_to_add"],
        json!([set("x-a", "rule"), set("x-a", "backend")])
    );
    assert_eq!(made["request_headers_to_remove"], json!(["x-b", "x-c"]));
}

/// Envoy refuses them, and with them all other routes.
#[test]
fn what_envoy_would_refuse_is_left_out() {
    let mut wanted = route(vec![to("v1", 1)]);
    wanted.request_headers = changes(
        &[("host", "a"), (":path", "b"), ("x-a", "c\r\nd: e")],
        &[],
        &["host", ":path"],
    );
    let made = made(wanted);
    assert_eq!(made.get("request_headers_to_add"), None);
    assert_eq!(made.get("request_headers_to_remove"), None);
}

#[test]
fn internal_headers_stay_internal() {
    let plain = || graph(vec![route(vec![to("v1", 1)])]);
    let removed = |options: &EnvoyOptions| {
        only(&plain(), options, ResourceType::RouteConfiguration)["request_headers_to_remove"].clone()
    };
    assert_eq!(
        removed(&EnvoyOptions::default()),
        json!([
            "x-limpet-host",
            "x-limpet-host-strict",
            "x-limpet-destination",
            "x-limpet-session"
        ])
    );
    assert_eq!(removed(&module()), removed(&EnvoyOptions::default()));
}

#[test]
fn a_route_goes_to_another_host_where_one_refuses() {
    let made = made(route(vec![to("v1", 1)]));
    assert_eq!(
        made["route"]["retry_policy"],
        json!({
            "retry_on": "connect-failure,refused-stream,reset-before-request",
            "num_retries": 2,
            "retry_host_predicate": [{
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {
                    "@type":
                        "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
                },
            }],
            "host_selection_retry_max_attempts": "32",
        })
    );
}
