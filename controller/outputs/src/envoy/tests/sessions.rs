use std::sync::Arc;

use serde_json::{Value, json};

use super::{acting, cluster, forward, graph, made, module, nowhere, routes, routes_with, to, with_session};
use crate::envoy::{EnvoyOptions, Splits};
use limpet_model::graph::{Action, Cluster, ClusterName, Session, SessionUse};

/// `printf v1 | sha256sum | head -c 8`, and of v2.
const V1: &str = "3bfc2695";
const V2: &str = "fb04dcb6";

const SOFT: &str = "limpet.stateful_session";
const STRICT: &str = "limpet.stateful_session_strict";

fn session_of(route: &Value) -> &Value {
    &route["metadata"]["filter_metadata"]["limpet"]["session"]
}

fn active() -> Value {
    json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}})
}

fn idle() -> Value {
    json!({
        "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
        "config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute",
            "disabled": true,
        },
    })
}

fn led_to(route: &Value) -> Option<&str> {
    let headers = route["match"]["headers"].as_array()?;
    let header = headers.iter().find(|header| header["name"] == "x-limpet-destination")?;
    header["string_match"]["exact"].as_str()
}

#[test]
fn a_rule_with_one_backend_has_one_route() {
    let made = made(with_session(forward(vec![to("v1", 1)]), "web"));
    assert_eq!(session_of(&made), "web/HTTPRoute/shop/web/rule");
    assert_eq!(made["typed_per_filter_config"], json!({SOFT: active()}));
    assert_eq!(made["route"]["cluster"], "v1");
}

#[test]
fn a_strict_policy_asks_for_the_strict_filter() {
    let made = made(with_session(forward(vec![to("v1", 1)]), "strict"));
    assert_eq!(made["typed_per_filter_config"], json!({STRICT: active()}));
}

#[test]
fn a_strict_policy_that_moves_asks_for_both_filters() {
    let one = made(with_session(forward(vec![to("v1", 1)]), "moving"));
    assert_eq!(
        one["typed_per_filter_config"],
        json!({SOFT: active(), STRICT: active()})
    );
    let split = with_session(forward(vec![to("v1", 90), to("v2", 10)]), "moving");
    let made = routes(&graph(vec![split]));
    assert_eq!(
        made[2]["typed_per_filter_config"],
        json!({SOFT: idle(), STRICT: idle()})
    );
}

#[test]
fn a_split_has_a_route_for_each_cluster_in_front() {
    for (policy, filter) in [("web", SOFT), ("strict", STRICT)] {
        let split = with_session(forward(vec![to("v1", 90), to("v2", 10)]), policy);
        let made = routes(&graph(vec![split]));
        assert_eq!(made.iter().map(led_to).collect::<Vec<_>>(), [Some(V1), Some(V2), None]);
        for route in &made {
            assert_eq!(session_of(route), &format!("@split/{policy}/HTTPRoute/shop/web/rule"));
            assert_eq!(route["name"], "HTTPRoute/shop/web/rule");
            assert_eq!(route["match"]["prefix"], "/");
        }
        assert_eq!(
            [&made[0]["route"]["cluster"], &made[1]["route"]["cluster"]],
            ["v1", "v2"]
        );
        assert_eq!(
            made[2]["route"]["weighted_clusters"],
            json!({"clusters": [{"name": "v1", "weight": 90}, {"name": "v2", "weight": 10}]})
        );
        let steering = made.iter().map(|route| route["typed_per_filter_config"].clone());
        assert_eq!(
            steering.collect::<Vec<_>>(),
            [
                json!({filter: active()}),
                json!({filter: active()}),
                json!({filter: idle()})
            ]
        );
    }
}

#[test]
fn routes_with_sessions_are_the_same_for_both_builds() {
    for policy in ["web", "strict"] {
        for destinations in [vec![to("v1", 1)], vec![to("v1", 90), to("v2", 10)]] {
            let graph = graph(vec![with_session(forward(destinations), policy)]);
            assert_eq!(routes_with(&graph, &module()), routes(&graph));
        }
    }
}

fn by_specifier() -> EnvoyOptions {
    EnvoyOptions {
        splits: Splits::Specifier,
        ..module()
    }
}

#[test]
fn a_split_may_be_one_route_with_a_specifier() {
    for policy in ["web", "strict", "moving"] {
        let split = with_session(
            forward(vec![to("v1", 90), nowhere(3), to("v2#ab", 0), nowhere(4)]),
            policy,
        );
        let made = routes_with(&graph(vec![split]), &by_specifier());
        let [made] = made.as_slice() else { panic!("{made:?}") };
        assert_eq!(
            session_of(made),
            &format!("@specifier/{policy}/HTTPRoute/shop/web/rule")
        );
        assert_eq!(made["typed_per_filter_config"], Value::Null);
        let plugin = &made["route"]["inline_cluster_specifier_plugin"]["extension"]["typed_config"];
        assert_eq!(plugin["dynamic_module_config"], json!({"name": "limpet"}));
        let config: Value = serde_json::from_str(plugin["specifier_config"]["value"].as_str().unwrap()).unwrap();
        assert_eq!(
            config,
            json!({"destinations": [
                {"cluster": "v1", "weight": 90},
                {"cluster": "v2#ab", "weight": 0},
                {"cluster": "limpet.nowhere", "weight": 7},
            ]})
        );
    }
}

#[test]
fn what_a_specifier_cannot_express_has_routes() {
    let mut changed = to("v2", 1);
    changed.request_headers.remove.push("x-secret".to_owned());
    for destinations in [
        vec![to("v1", 1), changed],
        vec![to("v1#a", 1), to("v1#b", 1)],
        vec![to("v1", 1), to("v1", 2)],
        vec![to("v1", 0), nowhere(1)],
    ] {
        let graph = graph(vec![with_session(forward(destinations), "web")]);
        assert_eq!(routes_with(&graph, &by_specifier()), routes(&graph));
    }
    let wasm = EnvoyOptions {
        splits: Splits::Specifier,
        ..EnvoyOptions::default()
    };
    let graph = graph(vec![with_session(forward(vec![to("v1", 1), to("v2", 1)]), "web")]);
    assert_eq!(routes_with(&graph, &wasm), routes(&graph));
}

#[test]
fn routes_without_sessions_are_served_without_the_filter() {
    let respond = Action::Respond {
        status: 500,
        reason: String::new(),
    };
    let without = [
        forward(vec![to("v1", 1)]),
        forward(vec![to("v1", 1), to("v2", 1)]),
        forward(vec![]),
    ];
    let without = without.into_iter().map(Action::Forward).chain([respond]);
    let graph = graph(without.map(acting).collect());
    let disabled = json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true});
    let wasm = json!({"limpet.wasm": disabled, "limpet.internal_headers": disabled});
    let module_alone = json!({"limpet.module": disabled});
    for (options, filters) in [(EnvoyOptions::default(), wasm), (module(), module_alone)] {
        let made = routes_with(&graph, &options);
        assert_eq!(made.len(), 4);
        for route in made {
            assert_eq!(route["typed_per_filter_config"], filters, "{route}");
        }
    }
}

#[test]
fn sessions_go_on_at_weight_zero() {
    let split = with_session(forward(vec![to("v1", 1), to("v2", 0)]), "web");
    assert_eq!(
        routes(&graph(vec![split])).iter().map(led_to).collect::<Vec<_>>(),
        [Some(V1), Some(V2), None]
    );
    let only = with_session(forward(vec![to("v1", 0)]), "web");
    let made = routes(&graph(vec![only]));
    assert_eq!(made.iter().map(led_to).collect::<Vec<_>>(), [Some(V1), None]);
    assert_eq!(made[1]["direct_response"]["status"], 500);
    assert_eq!(session_of(&made[1]), "@split/web/HTTPRoute/shop/web/rule");
    assert_eq!(made[1]["typed_per_filter_config"], json!({SOFT: idle()}));
}

#[test]
fn sessions_are_led_to_clusters_not_to_bad_references() {
    let split = with_session(forward(vec![to("v1", 1), nowhere(1)]), "web");
    let made = routes(&graph(vec![split]));
    assert_eq!(made.iter().map(led_to).collect::<Vec<_>>(), [Some(V1), None]);
}

#[test]
fn one_cluster_twice_is_led_to_once() {
    let split = with_session(forward(vec![to("v1", 1), to("v1", 2)]), "web");
    let made = routes(&graph(vec![split]));
    assert_eq!(made.iter().map(led_to).collect::<Vec<_>>(), [Some(V1), None]);
}

/// Tokens name both by one hash. Where they are led, tokens must be renewed.
#[test]
fn of_one_cluster_in_two_settings_the_one_with_tokens_is_led_to() {
    for [first, second] in [["v1#mute", "v1#said"], ["v1#said", "v1#mute"]] {
        let split = with_session(forward(vec![to(first, 1), to(second, 2), to("v2", 3)]), "web");
        let mut graph = graph(vec![split]);
        for (name, never_begins) in [("v1#mute", true), ("v1#said", false)] {
            let cluster = Cluster {
                never_begins,
                ..cluster("v1")
            };
            graph.clusters.insert(ClusterName(name.into()), Arc::new(cluster));
        }
        let made = routes(&graph);
        assert_eq!(made.iter().map(led_to).collect::<Vec<_>>(), [Some(V1), Some(V2), None]);
        assert_eq!(made[0]["route"]["cluster"], "v1#said", "{first}");
    }
}

#[test]
fn what_one_clusters_requests_get_its_sessions_requests_get() {
    let mut v1 = to("v1", 1);
    v1.request_headers.set = vec![("x-service".to_owned(), "v1".to_owned())];
    v1.response_headers.remove = vec!["server".to_owned()];
    let split = with_session(forward(vec![v1, to("v2", 1)]), "web");
    let made = routes(&graph(vec![split]));
    let added = json!([{"header": {"key": "x-service", "value": "v1"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}]);
    let entry = &made[2]["route"]["weighted_clusters"]["clusters"][0];
    for place in [&made[0], entry] {
        assert_eq!(place["request_headers_to_add"], added);
        assert_eq!(place["response_headers_to_remove"], json!(["server"]));
    }
    for place in [&made[1], &made[2]] {
        assert_eq!(place.get("request_headers_to_add"), None);
    }
}

#[test]
fn sessions_of_destinations_are_named_by_the_clusters() {
    let with = |policy: &str, of: &str| {
        let mut spec = cluster(of);
        spec.session = Some(SessionUse {
            policy: policy.into(),
            scope: format!("XBackend/shop/{of}").into(),
        });
        (ClusterName(of.into()), spec)
    };
    let mut action = forward(vec![to("v1", 7), to("v2", 3)]);
    action.session = Session::Destinations;
    let mut split = graph(vec![acting(Action::Forward(action.clone()))]);
    split.clusters.extend([with("web", "v1"), with("strict", "v2")]);
    let made = routes(&split);
    assert_eq!(made.len(), 1);
    assert_eq!(session_of(&made[0]), "@destination");
    assert_eq!(
        made[0]["route"]["weighted_clusters"]["clusters"],
        json!([
            {"name": "v1", "weight": 7, "typed_per_filter_config": {SOFT: active()}},
            {"name": "v2", "weight": 3, "typed_per_filter_config": {STRICT: active()}},
        ])
    );
    action.destinations.pop();
    let mut one = graph(vec![acting(Action::Forward(action))]);
    one.clusters.extend([with("web", "v1")]);
    let made = routes(&one);
    assert_eq!(session_of(&made[0]), "@destination");
    assert_eq!(made[0]["route"]["cluster"], "v1");
    assert_eq!(made[0]["typed_per_filter_config"], json!({SOFT: active()}));
}
