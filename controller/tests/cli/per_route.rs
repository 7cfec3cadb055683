//! Sessions in Envoy's per-route configuration of the dynamic module: `module.yaml` with the policies `web` (the
//! default) and `cart`, and one more change.

use serde_json::{Value, json};

use crate::{KEY, assert_one, example, file, findings, limpet, path};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

fn filter() -> Value {
    json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": {"cookie": {"name": "limpet-session"}}, "cart": {"cookie": {"name": "cart"}}},
        "default": {"policy": "web", "scope": "default"},
    })
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut envoy = example("module.yaml");
    let manager = envoy.pointer_mut(MANAGER).unwrap();
    manager["http_filters"][0]["typed_config"]["filter_config"]["value"] = filter().to_string().into();
    change(manager);
    envoy
}

fn routed(change: impl FnOnce(&mut Value)) -> Value {
    changed(|manager| change(&mut manager["route_config"]))
}

fn route(routes: &mut Value) -> &mut Value {
    &mut routes["virtual_hosts"][0]["routes"][0]
}

fn of(session: &Value) -> Value {
    json!({"limpet": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute",
        "dynamic_module_config": {"name": "limpet"},
        "per_route_config_name": "limpet",
        "filter_config": session,
    }})
}

fn named(session: &str) -> Value {
    of(&json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": session}))
}

fn configured(filters: &Value) -> Value {
    routed(|routes| route(routes)["typed_per_filter_config"] = filters.clone())
}

#[test]
fn a_session_may_stand_on_every_level() {
    let clusters =
        || json!({"clusters": [{"name": "backends", "weight": 1, "typed_per_filter_config": named("cart/one")}]});
    for good in [
        routed(|routes| routes["typed_per_filter_config"] = named("cart/one")),
        routed(|routes| routes["virtual_hosts"][0]["typed_per_filter_config"] = named("cart/one")),
        configured(&named("cart/one")),
        configured(&named("cart")),
        configured(&of(
            &json!({"@type": "x/google.protobuf.BytesValue", "value": "Y2FydC9vbmU="}),
        )),
        configured(&json!({"limpet": {
            "@type": "x/envoy.config.route.v3.FilterConfig",
            "config": named("cart/one")["limpet"],
        }})),
        routed(|routes| route(routes)["route"] = json!({"weighted_clusters": clusters()})),
    ] {
        assert_eq!(findings(&good), (0, Vec::new()), "{good}");
    }
}

#[test]
fn a_session_must_name_a_policy_on_every_level() {
    let clusters =
        || json!({"clusters": [{"name": "backends", "weight": 1, "typed_per_filter_config": named("shop/one")}]});
    let place = |level: &str| format!("{level}.typed_per_filter_config.limpet.filter_config.value");
    for (level, envoy) in [
        (
            "route_config",
            routed(|routes| routes["typed_per_filter_config"] = named("shop/one")),
        ),
        (
            "virtual_hosts[0]",
            routed(|routes| routes["virtual_hosts"][0]["typed_per_filter_config"] = named("shop/one")),
        ),
        ("routes[0]", configured(&named("shop/one"))),
        (
            "routes[0].route.weighted_clusters.clusters[0]",
            routed(|routes| route(routes)["route"] = json!({"weighted_clusters": clusters()})),
        ),
    ] {
        let message = "a policy of the filter's configuration (cart, web), found \"shop/one\"";
        assert_one(&envoy, "error", &place(level), message);
    }
}

/// The filter reads only the level that wins, but the module refuses any level that is no session.
#[test]
fn the_innermost_level_wins() {
    let both = |outer: &str| {
        routed(|routes| {
            routes["typed_per_filter_config"] = named(outer);
            route(routes)["typed_per_filter_config"] = named("cart/one");
        })
    };
    assert_eq!(findings(&both("shop/one")), (0, Vec::new()));
    assert_one(
        &both("a b"),
        "error",
        "route_config.typed_per_filter_config.limpet.filter_config.value",
        "Envoy refuses",
    );
}

#[test]
fn what_the_module_refuses_is_an_error() {
    let place = "routes[0].typed_per_filter_config.limpet.filter_config.value";
    for text in ["", "/one", "a b/one", "{\"session\": \"cart/one\"}"] {
        assert_one(
            &configured(&named(text)),
            "error",
            place,
            "expected <policy>/<scope>, with @split/, @specifier/ or @destination/ in front of it or without, or \
             @destination, found",
        );
    }
    let long = format!("cart/{}", "x".repeat(1025));
    assert_one(&configured(&named(&long)), "error", place, "at most 1024 bytes");
    let structure = of(&json!({"@type": "x/google.protobuf.Struct", "value": {"session": "cart/one"}}));
    assert_one(
        &configured(&structure),
        "error",
        place,
        "expected a google.protobuf.StringValue",
    );
    let missing = of(&Value::Null);
    assert_one(
        &configured(&missing),
        "error",
        "typed_per_filter_config.limpet",
        "with <policy>/<scope> in filter_config",
    );
    let mut other = named("cart/one");
    other["limpet"]["@type"] = "x/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute".into();
    assert_one(
        &configured(&other),
        "error",
        "typed_per_filter_config.limpet",
        "DynamicModuleFilterPerRoute",
    );
}

/// Also if the filter's configuration is elsewhere.
#[test]
fn its_shape_is_checked_without_the_filters_configuration() {
    let envoy = changed(|manager| {
        manager["http_filters"][0] = json!({"name": "limpet", "config_discovery": {
            "config_source": {"ads": {}},
            "type_urls": ["x/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"],
            "default_config": {},
        }});
        route(&mut manager["route_config"])["typed_per_filter_config"] = named("a b");
    });
    let (code, found) = findings(&envoy);
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    assert!(found[0].starts_with("note"), "{found:#?}");
    assert!(
        found[1].contains("filter_config.value") && found[1].contains("Envoy refuses"),
        "{found:#?}"
    );
}

#[test]
fn the_module_must_be_the_filters_own() {
    let changed = |field: &str, value: Value| {
        let mut filters = named("cart/one");
        filters["limpet"][field] = value;
        configured(&filters)
    };
    let place = "typed_per_filter_config.limpet.dynamic_module_config";
    let other = changed("dynamic_module_config", json!({"name": "other"}));
    assert_one(
        &other,
        "error",
        place,
        "expected the module of the filter itself, as in static_resources",
    );
    let absent = changed("dynamic_module_config", Value::Null);
    assert_one(
        &absent,
        "error",
        "typed_per_filter_config.limpet",
        "expected the module of the filter itself",
    );
    let renamed = changed("per_route_config_name", "cart".into());
    assert_one(
        &renamed,
        "warning",
        "limpet.per_route_config_name",
        "expected limpet, or nothing",
    );
    assert_eq!(
        findings(&changed("per_route_config_name", Value::Null)),
        (0, Vec::new())
    );
}

#[test]
fn a_session_is_for_the_filter_of_its_name() {
    let mut filters = named("shop/one");
    filters["other"] = filters["limpet"].take();
    assert_eq!(findings(&configured(&filters)), (0, Vec::new()));
}

#[test]
fn a_session_wins_over_metadata() {
    let metadata = |session: &str| json!({"filter_metadata": {"limpet": {"session": session}}});
    let both = |session: &str| {
        routed(|routes| {
            route(routes)["typed_per_filter_config"] = named("cart/one");
            route(routes)["metadata"] = metadata(session);
        })
    };
    assert_eq!(findings(&both("cart/one")), (0, Vec::new()));
    let place = "routes[0].metadata.filter_metadata.limpet.session";
    assert_one(
        &both("web/one"),
        "warning",
        place,
        "is ignored: the session in static_resources",
    );
}

#[test]
fn a_wasm_filter_has_no_session_there() {
    let mut envoy = example("cookie.yaml");
    route(&mut envoy.pointer_mut(MANAGER).unwrap()["route_config"])["typed_per_filter_config"] = named("web/one");
    assert_one(
        &envoy,
        "error",
        "typed_per_filter_config.limpet",
        "is ignored: the wasm filter",
    );
}

/// Two clusters of a split, each with a session.
#[test]
fn sessions_of_weighted_clusters_are_told_apart() {
    let split = |sessions: [&str; 2]| {
        let names = ["backends", "canary"];
        let clusters: Vec<_> = names
            .iter()
            .zip(sessions)
            .map(|(name, session)| json!({"name": name, "weight": 1, "typed_per_filter_config": named(session)}))
            .collect();
        routed(|routes| route(routes)["route"] = json!({"weighted_clusters": {"clusters": clusters}}))
    };
    assert_eq!(findings(&split(["web/one", "cart/two"])), (0, Vec::new()));
    assert_one(
        &split(["web/one", "web/two"]),
        "warning",
        "routes[0]",
        "the session web/two has the cookie limpet-session with path /, as web/one has",
    );
}

#[test]
fn a_table_by_virtual_host_needs_a_newer_envoy_than_the_module() {
    let envoy = changed(|manager| {
        let mut filter = filter();
        filter["routes"] = json!([{"route": "web", "virtualHost": "web", "policy": "web"}]);
        manager["http_filters"][0]["typed_config"]["filter_config"]["value"] = filter.to_string().into();
    });
    let message = "routes[0].virtualHost | not checked (--envoy-version does): expected Envoy 1.40 or newer";
    assert_one(&envoy, "note", "filter_config.value", message);
    let file = file(".json", &envoy.to_string());
    let check = |version: &str| {
        limpet(&["check", path(&file), "--envoy-version", version])
            .env("LIMPET_KEY", KEY)
            .run()
    };
    check("1.40").code(0);
    check("1.40.1").code(0);
    check("1.39.3")
        .code(2)
        .says("routes[0].virtualHost: expected Envoy 1.40");
    check("1.37").code(2).says("expected Envoy 1.38 or newer");
    check("new").code(3).complains("expected a version as 1.38 or 1.38.3");
}

#[test]
fn tokens_are_tried_with_the_scopes_there() {
    let envoy = routed(|routes| {
        routes["typed_per_filter_config"] = named("cart");
        route(routes)["typed_per_filter_config"] = named("cart/one");
    });
    let file = file(".json", &envoy.to_string());
    for scope in ["one", "web"] {
        let issue = [
            "--policy",
            "cart",
            "--scope",
            scope,
            "--host",
            "10.0.0.1:80",
            "--cluster",
            "backends",
        ];
        let token = limpet(&[&["token", "issue", "--config", path(&file)], &issue[..]].concat())
            .env("LIMPET_KEY", KEY)
            .run()
            .code(0)
            .stdout;
        let inspect = ["token", "inspect", token.trim(), "--config", path(&file)];
        limpet(&inspect)
            .env("LIMPET_KEY", KEY)
            .run()
            .code(0)
            .says(&format!("policy cart, scope {scope}, cookie cart"));
    }
}
