//! Sessions of routes: `two-policies.yaml` with one change. Its routes are cart (strict), web, and one without.

use serde_json::{Value, json};

use crate::{KEY, assert_one, example, file, findings, limpet, path};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

fn changed(change: impl Fn(&mut Value)) -> Value {
    let mut envoy = example("two-policies.yaml");
    change(&mut envoy.pointer_mut(MANAGER).unwrap()["route_config"]["virtual_hosts"][0]["routes"]);
    envoy
}

fn session(route: &mut Value) -> &mut Value {
    &mut route["metadata"]["filter_metadata"]["limpet"]["session"]
}

fn with_fields(mut envoy: Value, fields: &Value) -> Value {
    let filter = &mut envoy.pointer_mut(MANAGER).unwrap()["http_filters"][1]["typed_config"]["config"];
    let value = &mut filter["configuration"]["value"];
    let mut config: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
    for (name, field) in fields.as_object().unwrap() {
        config[name] = field.clone();
    }
    *value = config.to_string().into();
    envoy
}

#[test]
fn metadata_must_name_a_policy() {
    let unknown = changed(|routes| *session(&mut routes[1]) = "shop/web".into());
    let place = "routes[1].metadata.filter_metadata.limpet.session";
    assert_one(
        &unknown,
        "error",
        place,
        "a policy of the filter's configuration (cart, web), found \"shop/web\"",
    );
    let number = changed(|routes| *session(&mut routes[1]) = 1.into());
    assert_one(&number, "error", place, "expected a string");
    let long = changed(|routes| *session(&mut routes[1]) = format!("web/{}", "x".repeat(1025)).into());
    assert_one(&long, "error", place, "at most 1024 bytes");
    let typo = changed(|routes| routes[1]["metadata"]["filter_metadata"]["limpet"]["scope"] = "web".into());
    assert_one(
        &typo,
        "warning",
        "filter_metadata.limpet.scope",
        "expected nothing but session",
    );
}

/// Other mutations of requests in front of the filter.
fn with_mutations(mutations: &Value) -> Value {
    let mut envoy = example("two-policies.yaml");
    let first = &mut envoy.pointer_mut(MANAGER).unwrap()["http_filters"][0];
    first["typed_config"]["mutations"]["request_mutations"] = mutations.clone();
    envoy
}

#[track_caller]
fn assert_ignored(envoy: &Value) {
    let (code, found) = findings(envoy);
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    for (route, found) in found.iter().enumerate() {
        let place = format!("routes[{route}].metadata.filter_metadata.limpet.session |  | is ignored: expected");
        assert!(found.starts_with("error") && found.contains(&place), "{found}");
    }
}

#[test]
fn metadata_must_reach_the_filter() {
    let write = |name: &str, value: &str, action: &str| {
        let header = json!({"key": name, "value": value});
        json!({"append": {"header": header, "append_action": action}})
    };
    let session = "%METADATA(ROUTE:limpet:session)%";
    let good = write("X-Limpet-Session", session, "OVERWRITE_IF_EXISTS_OR_ADD");
    let absent = write("x-limpet-session", session, "ADD_IF_ABSENT");
    let added = json!({"append": {"header": {"key": "x-limpet-session", "value": session}}});
    let removed = json!({"remove": "x-limpet-session"});
    for written in [
        json!([good]),
        json!([removed, absent]),
        json!([removed, added]),
        json!([removed, good, absent]),
        json!([good, write("x-other", "1", "OVERWRITE_IF_EXISTS_OR_ADD")]),
    ] {
        assert_eq!(findings(&with_mutations(&written)), (0, Vec::new()), "{written}");
    }
    for unwritten in [
        json!([]),
        json!([good, removed]),
        json!([good, {"remove_on_match": {"key_matcher": {"prefix": "x-limpet-"}}}]),
        json!([good, added]),
        json!([write("x-limpet-session", session, "OVERWRITE_IF_EXISTS")]),
        json!([write("x-session", session, "OVERWRITE_IF_EXISTS_OR_ADD")]),
    ] {
        assert_ignored(&with_mutations(&unwritten));
    }
}

#[test]
fn no_other_header_value_names_a_session() {
    let mut envoy = example("two-policies.yaml");
    let first = &mut envoy.pointer_mut(MANAGER).unwrap()["http_filters"][0];
    let mutations = first["typed_config"]["mutations"]["request_mutations"]
        .as_array_mut()
        .unwrap();
    mutations.insert(
        0,
        json!({"append": {"header": {"key": "X-Limpet-Session", "value": "web/%REQ(x-scope)%"}}}),
    );
    assert_one(
        &envoy,
        "error",
        "http_filters[0].typed_config.mutations.request_mutations[0].append",
        "expected %METADATA(ROUTE:limpet:session)% as the value of x-limpet-session",
    );
}

#[test]
fn metadata_must_reach_the_filter_first_and_on_its_route() {
    let mut late = with_mutations(&json!([]));
    let filters = late.pointer_mut(MANAGER).unwrap()["http_filters"]
        .as_array_mut()
        .unwrap();
    let mut writer = example("two-policies.yaml").pointer(MANAGER).unwrap()["http_filters"][0].clone();
    writer["name"] = "late".into();
    writer["typed_config"]["mutations"]["response_mutations"].take();
    filters.insert(2, writer);
    assert_ignored(&late);

    let off = changed(|routes| {
        routes[1]["typed_per_filter_config"] = json!({
            "limpet.internal_headers": {
                "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
                "disabled": true,
            },
        });
    });
    let (_, found) = findings(&off);
    let [ignored, shown] = &found[..] else {
        panic!("{found:#?}")
    };
    assert!(
        ignored.contains("routes[1].metadata.filter_metadata.limpet.session") && ignored.contains("enabled on this")
    );
    assert!(shown.contains("clients would see the address"), "{found:#?}");
}

#[test]
fn without_metadata_no_mutation_is_needed() {
    let mut envoy = example("cookie.yaml");
    let first = &mut envoy.pointer_mut(MANAGER).unwrap()["http_filters"][0];
    first["typed_config"]["mutations"]["request_mutations"].take();
    assert_eq!(findings(&envoy), (0, Vec::new()));
}

#[test]
fn a_strict_policy_needs_the_strict_filter_on_its_route() {
    let without = changed(|routes| routes[0]["typed_per_filter_config"] = Value::Null);
    let (code, found) = findings(&without);
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    assert!(
        found[0].contains("expected limpet.stateful_session_strict enabled: the session cart/cart is strict"),
        "{found:#?}"
    );
    assert!(
        found[1].contains("expected limpet.stateful_session disabled"),
        "{found:#?}"
    );
    let other = changed(|routes| routes[1]["typed_per_filter_config"] = routes[0]["typed_per_filter_config"].clone());
    let (code, found) = findings(&other);
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    assert!(
        found[0].contains("expected limpet.stateful_session enabled: the session web/web is not strict"),
        "{found:#?}"
    );
}

#[test]
fn a_route_may_turn_the_filter_off() {
    let off = changed(|routes| {
        routes[1]["typed_per_filter_config"] = json!({
            "limpet": {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true},
        });
    });
    assert_one(&off, "warning", "routes[1]", "limpet is disabled here");
}

#[test]
fn clusters_of_one_session_must_have_different_hashes() {
    // The SHA-256 of both names begins with dd0134bc.
    let (one, other) = ("backend-60466", "backend-81552");
    let weighted = changed(|routes| {
        let clusters = json!({"clusters": [{"name": one, "weight": 1}, {"name": other, "weight": 1}]});
        routes[1]["route"] = json!({"weighted_clusters": clusters});
    });
    let (code, found) = findings(&weighted);
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    assert!(
        found[0].contains("holds only while Envoy chooses the cluster of its backend"),
        "{found:#?}"
    );
    assert!(
        found[1].contains("the clusters backend-60466 and backend-81552 of the session web/web"),
        "{found:#?}"
    );
    let two_routes = changed(|routes| {
        let mut second = routes[1].clone();
        second["name"] = "second".into();
        second["route"]["cluster"] = other.into();
        routes[1]["route"]["cluster"] = one.into();
        routes.as_array_mut().unwrap().push(second);
    });
    assert_one(&two_routes, "error", "routes[3]", "have one destination hash");
    let two_sessions = changed(|routes| {
        routes[0]["route"]["cluster"] = other.into();
        routes[1]["route"]["cluster"] = one.into();
    });
    assert_eq!(findings(&two_sessions), (0, Vec::new()));
}

#[test]
fn clusters_that_differ_behind_a_hash_share_sessions() {
    let two_routes = |one: &str, other: &str| {
        changed(|routes| {
            let mut second = routes[1].clone();
            second["name"] = "second".into();
            second["route"]["cluster"] = other.into();
            routes[1]["route"]["cluster"] = one.into();
            routes.as_array_mut().unwrap().push(second);
        })
    };
    let same = two_routes("backends#1f2e", "backends#3d4c");
    assert_eq!(findings(&same), (0, Vec::new()));
    let other = two_routes("backend-60466#1f2e", "backend-81552#1f2e");
    let expected = "the clusters backend-60466#1f2e and backend-81552#1f2e of the session web/web";
    assert_one(&other, "error", "routes[3]", expected);
}

#[test]
fn two_sessions_with_one_cookie_get_a_warning() {
    let envoy = changed(|routes| {
        let mut second = routes[1].clone();
        second["name"] = "second".into();
        *session(&mut second) = "web/second".into();
        routes.as_array_mut().unwrap().push(second);
    });
    assert_one(
        &envoy,
        "warning",
        "routes[3]",
        "the session web/second has the cookie limpet-session with path /, as web/web has",
    );
}

#[test]
fn the_table_must_name_existing_routes() {
    let table = json!([{"route": "plain", "policy": "web", "scope": "web"}, {"route": "gone", "policy": "web"}]);
    let envoy = with_fields(changed(|_| {}), &json!({"routes": table}));
    assert_one(
        &envoy,
        "warning",
        "route_config",
        "routes[1].route | expected a route named \"gone\", found none",
    );
}

#[test]
fn routes_may_be_in_a_file_of_their_own() {
    let mut listener = example("two-policies.yaml");
    let manager = listener.pointer_mut(MANAGER).unwrap();
    let mut routes = manager["route_config"].take();
    manager.as_object_mut().unwrap().remove("route_config");
    manager["rds"] = json!({"route_config_name": "web", "config_source": {"ads": {}}});
    let (code, found) = findings(&listener);
    assert_eq!((code, found.len()), (0, 1), "{found:#?}");
    assert!(
        found[0].starts_with("note") && found[0].contains("not checked: the routes"),
        "{found:#?}"
    );

    *session(&mut routes["virtual_hosts"][0]["routes"][1]) = "shop/web".into();
    routes["@type"] = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration".into();
    let listener = file(".json", &listener.to_string());
    let routes = file(".json", &json!({"resources": [routes]}).to_string());
    limpet(&["check", path(&listener), path(&routes)])
        .env("LIMPET_KEY", KEY)
        .run()
        .code(2)
        .says("resources[0].virtual_hosts[0].routes[1].metadata.filter_metadata.limpet.session");
}

#[test]
fn a_virtual_host_must_be_in_the_domain_of_its_cookie() {
    let policies = json!({
        "web": {"cookie": {"name": "web-session", "domain": "example.com"}},
        "cart": {"cookie": {"name": "cart-session"}, "strict": true},
    });
    for (domains, is_foreign) in [
        (json!(["*"]), false),
        (json!(["shop.example.com", "example.org"]), false),
        (json!(["example.org", "*.example.net"]), true),
    ] {
        let mut envoy = with_fields(example("two-policies.yaml"), &json!({"policies": policies}));
        envoy.pointer_mut(MANAGER).unwrap()["route_config"]["virtual_hosts"][0]["domains"] = domains;
        if is_foreign {
            assert_one(
                &envoy,
                "warning",
                "virtual_hosts[0].routes[1]",
                "has the domain example.com, and the virtual host is for example.org, *.example.net: browsers drop",
            );
        } else {
            assert_eq!(findings(&envoy), (0, Vec::new()));
        }
    }
}

/// With the wasm filter, Envoy matches a request again whose parameter was taken out.
#[test]
fn a_route_must_not_match_on_the_parameter_of_its_session() {
    let policies = |web: Value| json!({"policies": {"web": web, "cart": {"cookie": {"name": "c"}, "strict": true}}});
    let matching = |name: &str, web: Value| {
        let envoy = changed(|routes| {
            routes[1]["match"]["query_parameters"] = json!([{"name": "a"}, {"name": name, "present_match": true}]);
        });
        with_fields(envoy, &policies(web))
    };
    let own = |forward: bool| json!({"query": {"name": "s", "redirects": true, "forward": forward}});
    let also = |forward: bool| json!({"cookie": {"name": "w"}, "also": [{"query": {"name": "s", "forward": forward}}]});
    for policy in [own, also] {
        assert_one(
            &matching("s", policy(false)),
            "warning",
            "routes[1].match.query_parameters[1]",
            "the parameter s, which the filter takes out",
        );
        for envoy in [matching("t", policy(false)), matching("s", policy(true))] {
            assert_eq!(findings(&envoy), (0, Vec::new()));
        }
    }
}
