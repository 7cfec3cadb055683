//! Routes of splits: `split.yaml` and `split-module.yaml` with one change. Sessions are led to the routes of shop-v1
//! and shop-v2; the last one is weighted.

use serde_json::{Value, json};

use crate::{assert_one, example, findings};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
const BOTH: [&str; 2] = ["split.yaml", "split-module.yaml"];

fn with(mut envoy: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(envoy.pointer_mut(MANAGER).unwrap());
    envoy
}

fn routed(file: &str, change: impl FnOnce(&mut Value)) -> Value {
    with(example(file), |manager| {
        change(&mut manager["route_config"]["virtual_hosts"][0]["routes"]);
    })
}

fn session(route: &mut Value) -> &mut Value {
    &mut route["metadata"]["filter_metadata"]["limpet"]["session"]
}

fn destination(route: &mut Value) -> &mut Value {
    &mut route["match"]["headers"][0]
}

#[test]
fn every_cluster_needs_its_route_in_front() {
    for file in BOTH {
        let missing = |cluster: &str, hash: &str| {
            format!(
                "expected a route to {cluster} in front, with the same match and session, and x-limpet-destination \
                 exact {hash}"
            )
        };
        let gone = routed(file, |routes| drop(routes.as_array_mut().unwrap().remove(0)));
        assert_one(&gone, "warning", "routes[1]", &missing("shop-v1", "86c88339"));
        let behind = routed(file, |routes| routes.as_array_mut().unwrap().swap(1, 2));
        assert_one(&behind, "warning", "routes[1]", &missing("shop-v2", "f5d7f085"));
        let elsewhere = with(example(file), |manager| {
            let hosts = manager["route_config"]["virtual_hosts"].as_array_mut().unwrap();
            let moved = hosts[0]["routes"].as_array_mut().unwrap().remove(0);
            hosts.push(json!({"name": "other", "domains": ["other.example"], "routes": [moved]}));
        });
        assert_one(&elsewhere, "warning", "routes[1]", &missing("shop-v1", "86c88339"));
        let otherwise = routed(file, |routes| routes[0]["match"]["prefix"] = "/shop".into());
        assert_one(&otherwise, "warning", "routes[2]", &missing("shop-v1", "86c88339"));
        let third = routed(file, |routes| {
            let clusters = &mut routes[2]["route"]["weighted_clusters"]["clusters"];
            clusters
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "shop-v3", "weight": 0}));
        });
        assert_one(&third, "warning", "routes[2]", &missing("shop-v3", "d1e61207"));
    }
}

#[test]
fn a_cluster_without_tokens_needs_no_route_in_front() {
    for file in BOTH {
        let named = |session: &str| {
            let mut envoy = routed(file, |routes| drop(routes.as_array_mut().unwrap().remove(0)));
            envoy["static_resources"]["clusters"][0]["metadata"] =
                json!({"filter_metadata": {"limpet": {"session": session}}});
            envoy
        };
        assert_eq!(findings(&named("@none")), (0, Vec::new()), "{file}");
        let missing = "expected a route to shop-v1 in front";
        assert_one(&named("web/shop"), "warning", "routes[1]", missing);
        for wrong in ["@nothing", "none", "web"] {
            let (code, found) = findings(&named(wrong));
            assert_eq!((code, found.len()), (2, 2), "{found:#?}");
            let message = format!("expected @none or <policy>/<scope>, found {wrong:?}");
            assert!(found[0].contains(&message), "{found:#?}");
        }
    }
}

#[test]
fn a_route_that_is_no_split_begins_sessions_everywhere() {
    for file in ["cookie.yaml", "module.yaml"] {
        let mut envoy = example(file);
        envoy["static_resources"]["clusters"][0]["metadata"] =
            json!({"filter_metadata": {"limpet": {"session": "@none"}}});
        assert_one(
            &envoy,
            "warning",
            "clusters[0].metadata.filter_metadata.limpet.session",
            "@none has no effect: the session web/default begins here, because static_resources.listeners[0]",
        );
    }
}

/// The weights lead to shop-v1 in two settings, and the route in front to one of them.
#[test]
fn clusters_that_differ_behind_a_hash_need_one_route() {
    for file in BOTH {
        let led = |cluster: &str| {
            routed(file, |routes| {
                routes[0]["route"]["cluster"] = cluster.into();
                let clusters = routes[2]["route"]["weighted_clusters"]["clusters"].as_array_mut();
                let clusters = clusters.unwrap();
                clusters[0]["name"] = "shop-v1#1f2e".into();
                clusters.push(json!({"name": "shop-v1#3d4c", "weight": 1}));
            })
        };
        for of_the_weighted in ["shop-v1#1f2e", "shop-v1#3d4c"] {
            assert_eq!(findings(&led(of_the_weighted)), (0, Vec::new()), "{file}");
        }
        let (code, found) = findings(&led("shop-v1#5b6a"));
        assert_eq!((code, found.len()), (1, 2), "{found:#?}");
        let expected = "expected a route to shop-v1#1f2e in front, with the same match and session, and \
                        x-limpet-destination exact 86c88339";
        assert!(found[0].contains(expected), "{found:#?}");
    }
}

#[test]
fn a_route_of_another_session_does_not_belong_to_the_split() {
    let other = routed("split.yaml", |routes| {
        *session(&mut routes[0]) = "@split/web/other".into();
    });
    let (code, found) = findings(&other);
    assert_eq!((code, found.len()), (1, 3), "{found:#?}");
    assert!(found[0].contains("a client keeps one such cookie"), "{found:#?}");
    assert!(found[1].contains("expected a route to shop-v1 in front"), "{found:#?}");
    assert!(found[2].contains("a client keeps one such cookie"), "{found:#?}");
}

#[test]
fn the_rest_of_their_match_must_be_the_same() {
    let more = json!({"name": "x-version", "string_match": {"exact": "new"}});
    for file in BOTH {
        let all = routed(file, |routes| {
            for route in routes.as_array_mut().unwrap() {
                let headers = &mut route["match"]["headers"];
                if headers.is_null() {
                    *headers = json!([]);
                }
                headers.as_array_mut().unwrap().insert(0, more.clone());
            }
        });
        assert_eq!(findings(&all), (0, Vec::new()), "{file}");
        let last = routed(file, |routes| routes[2]["match"]["headers"] = json!([more]));
        let (code, found) = findings(&last);
        assert_eq!((code, found.len()), (1, 2), "{found:#?}");
        // Two matches of one rule are two splits of one session.
        let two = routed(file, |routes| {
            let own = routes.as_array().unwrap().clone();
            let others = own.into_iter().map(|mut route| {
                route["match"]["prefix"] = "/shop".into();
                route
            });
            let both: Vec<_> = others.chain(routes.as_array().unwrap().clone()).collect();
            *routes = both.into();
        });
        assert_eq!(findings(&two), (0, Vec::new()), "{file}");
    }
}

/// The split with `first` in the match of its first route, and `others` in the match of its last two.
fn matched(file: &str, first: &Value, others: &Value) -> Value {
    routed(file, |routes| {
        for (i, more) in [first, others, others].into_iter().enumerate() {
            let own = routes[i]["match"].as_object_mut().unwrap();
            let mut more = more.clone();
            let more = more.as_object_mut().unwrap();
            if let (Some(Value::Array(led)), Some(Value::Array(headers))) =
                (own.get("headers"), more.get_mut("headers"))
            {
                headers.extend(led.clone());
            }
            own.remove("prefix");
            own.extend(more.clone());
        }
    })
}

#[test]
fn their_match_may_be_written_in_another_way() {
    for (first, others) in [
        (
            json!({"safeRegex": {"regex": "/shop.*"}}),
            json!({"safe_regex": {"regex": "/shop.*"}}),
        ),
        (
            json!({"path_separated_prefix": "/shop", "case_sensitive": true, "query_parameters": []}),
            json!({"pathSeparatedPrefix": "/shop", "cookies": null}),
        ),
        (
            json!({"prefix": "/", "headers": [
                {"name": "x-a", "string_match": {"exact": "b", "ignore_case": false}, "invert_match": false},
            ]}),
            json!({"prefix": "/", "headers": [{"name": "x-a", "stringMatch": {"exact": "b"}}]}),
        ),
        (
            json!({"prefix": "/", "runtimeFraction": {"default_value": {"numerator": 5, "denominator": "HUNDRED"}}}),
            json!({"prefix": "/", "runtime_fraction": {"defaultValue": {"numerator": 5}}}),
        ),
    ] {
        for file in BOTH {
            assert_eq!(findings(&matched(file, &first, &others)), (0, Vec::new()), "{first}");
            assert_eq!(findings(&matched(file, &others, &first)), (0, Vec::new()), "{first}");
        }
    }
}

/// Names that are data, and meaningful values that are false or empty.
#[test]
fn their_match_must_mean_the_same() {
    let header = |value: Value| {
        let mut matcher = json!({"name": "x-a"});
        matcher
            .as_object_mut()
            .unwrap()
            .extend(value.as_object().unwrap().clone());
        json!({"prefix": "/", "headers": [matcher]})
    };
    let policy = |name: &str| {
        let config = json!({"@type": "type.googleapis.com/xds.type.v3.TypedStruct", "value": {name: 1}});
        json!({"path_match_policy": {"name": "own", "typed_config": config}})
    };
    for (first, others) in [
        (json!({"prefix": "/", "case_sensitive": false}), json!({"prefix": "/"})),
        (header(json!({"present_match": false})), header(json!({}))),
        (header(json!({"exact_match": ""})), header(json!({}))),
        (
            header(json!({"string_match": {"exact": "some_value"}})),
            header(json!({"string_match": {"exact": "someValue"}})),
        ),
        (policy("some_key"), policy("someKey")),
    ] {
        let (code, found) = findings(&matched("split.yaml", &first, &others));
        assert_eq!((code, found.len()), (1, 1), "{first} {found:#?}");
        assert!(
            found[0].contains("expected a route to shop-v1 in front, with the same match"),
            "{found:#?}"
        );
    }
}

#[test]
fn a_route_must_have_the_hash_of_its_cluster() {
    for file in BOTH {
        let swapped = routed(file, |routes| {
            destination(&mut routes[0])["string_match"]["exact"] = "f5d7f085".into();
        });
        let (code, found) = findings(&swapped);
        assert_eq!((code, found.len()), (2, 2), "{found:#?}");
        let expected = "routes[0].match.headers[0].string_match.exact |  | expected 86c88339, the short hash of the \
                        cluster shop-v1";
        assert!(found[0].contains(expected), "{found:#?}");
        assert!(found[1].contains("expected a route to shop-v1 in front"), "{found:#?}");
        for (matcher, place) in [
            (
                json!({"string_match": {"prefix": "86c88339"}}),
                "routes[0].match.headers[0]",
            ),
            (
                json!({"string_match": {"exact": "86c88339"}, "invert_match": true}),
                "routes[0].match.headers[0]",
            ),
            (json!({"present_match": true}), "routes[0].match.headers[0]"),
        ] {
            let mut matcher = matcher;
            matcher["name"] = "X-Limpet-Destination".into();
            let otherwise = routed(file, |routes| *destination(&mut routes[0]) = matcher);
            let (code, found) = findings(&otherwise);
            assert_eq!((code, found.len()), (2, 2), "{found:#?}");
            assert!(
                found[0].contains(&format!("{place} |  | expected string_match.exact with 86c88339")),
                "{found:#?}"
            );
        }
        let weighted = routed(file, |routes| {
            routes[0]["route"] = json!({"weighted_clusters": {"clusters": [{"name": "shop-v1", "weight": 1}]}});
        });
        let (code, found) = findings(&weighted);
        assert_eq!((code, found.len()), (2, 2), "{found:#?}");
        assert!(
            found[0].contains("routes[0] |  | expected a route to one cluster"),
            "{found:#?}"
        );
        let older = routed(file, |routes| {
            *destination(&mut routes[0]) = json!({"name": "x-limpet-destination", "exact_match": "86c88339"});
        });
        assert_eq!(findings(&older), (0, Vec::new()), "{file}");
    }
}

/// A cluster that has left the split may keep its sessions.
#[test]
fn a_split_may_be_down_to_one_route() {
    for file in BOTH {
        let left = routed(file, |routes| {
            drop(
                routes[2]["route"]["weighted_clusters"]["clusters"]
                    .as_array_mut()
                    .unwrap()
                    .remove(0),
            );
        });
        assert_eq!(findings(&left), (0, Vec::new()), "{file}");
    }
}

#[test]
fn weighted_clusters_without_split_get_a_warning() {
    for file in BOTH {
        let plain = routed(file, |routes| {
            *session(&mut routes[2]) = "web/shop".into();
            routes[2]["typed_per_filter_config"].take();
        });
        assert_one(
            &plain,
            "warning",
            "routes[2]",
            "weighted_clusters: the session web/shop holds only while Envoy chooses the cluster of its backend: \
             expected @split/web/shop in the metadata",
        );
    }
}

#[test]
fn clients_cannot_send_the_header() {
    for (file, read, named) in [
        (
            "split.yaml",
            "x-limpet-host, x-limpet-destination, x-limpet-session",
            "x-limpet-host, x-limpet-host-strict, x-limpet-destination, x-limpet-session",
        ),
        ("split-module.yaml", "x-limpet-destination", "x-limpet-destination"),
    ] {
        let without = with(example(file), |manager| {
            drop(manager["early_header_mutation_extensions"].take());
        });
        let message = format!("early_header_mutation_extensions: expected the removal of {read}: ");
        assert_one(&without, "error", "filters[0].typed_config", &message);
        let seen = with(example(file), |manager| {
            drop(manager["route_config"]["request_headers_to_remove"].take());
        });
        assert_one(
            &seen,
            "error",
            "route_config",
            &format!("request_headers_to_remove: expected {named}: backends would see them"),
        );
    }
    // The module has no other internal header.
    let routes = example("module.yaml");
    assert_eq!(findings(&routes), (0, Vec::new()));
}

const FILTER_CONFIG: &str = "type.googleapis.com/envoy.config.route.v3.FilterConfig";
const PER_ROUTE: &str = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute";

/// In the chain, without an effect.
fn idle() -> Value {
    json!({"@type": PER_ROUTE, "disabled": true})
}

/// Out of the chain.
fn absent() -> Value {
    json!({"@type": FILTER_CONFIG, "disabled": true})
}

/// In the chain, with this configuration.
fn within(config: &Value) -> Value {
    json!({"@type": FILTER_CONFIG, "config": config})
}

#[test]
fn the_steering_filter_is_idle_on_the_last_route() {
    let last = |configs: Value| routed("split.yaml", |routes| routes[2]["typed_per_filter_config"] = configs);
    assert_eq!(
        findings(&last(json!({"limpet.stateful_session": within(&idle())}))),
        (0, Vec::new())
    );
    let message = "typed_per_filter_config: expected limpet.stateful_session disabled by a StatefulSessionPerRoute \
                   with disabled: true";
    for configs in [Value::Null, json!({"limpet.stateful_session": within(&json!({}))})] {
        assert_one(
            &last(configs),
            "warning",
            "routes[2]",
            &format!("{message}: a session web/shop whose cluster"),
        );
    }
    for config in [
        absent(),
        json!({"@type": FILTER_CONFIG, "disabled": true, "config": idle()}),
    ] {
        let configs = json!({"limpet.stateful_session": config});
        assert_one(
            &last(configs),
            "error",
            "routes[2]",
            &format!("{message}, and not otherwise: Envoy makes the chain"),
        );
    }
    let module = routed("split-module.yaml", |routes| {
        routes[2]["typed_per_filter_config"] = json!({"limpet.stateful_session": absent()});
    });
    assert_eq!(findings(&module), (0, Vec::new()));
}

/// The levels around a route configure what it does not: whether a filter is in the chain, and what it does.
#[test]
fn outer_levels_configure_the_steering_filter() {
    let (soft, on) = ("limpet.stateful_session", json!({}));
    let levels = |host: Value, last: Value| {
        with(example("split.yaml"), |manager| {
            let host_config = &mut manager["route_config"]["virtual_hosts"][0];
            host_config["typed_per_filter_config"] = json!({soft: host});
            host_config["routes"][2]["typed_per_filter_config"] = json!({soft: last});
        })
    };
    assert_eq!(findings(&levels(within(&on), idle())), (0, Vec::new()));
    // Envoy ignores the content of a disabled one.
    let disabled = json!({"@type": FILTER_CONFIG, "disabled": true, "config": idle()});
    let again = with(levels(disabled, idle()), |manager| {
        let routes = &mut manager["route_config"]["virtual_hosts"][0]["routes"];
        for route in [0, 1] {
            routes[route]["typed_per_filter_config"] = json!({soft: within(&on)});
        }
    });
    assert_eq!(findings(&again), (0, Vec::new()));
    // It is in the chain again, with the outer level's configuration.
    let (code, found) = findings(&levels(idle(), within(&on)));
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    for (route, found) in found.iter().enumerate() {
        let expected = format!("routes[{route}] |  | typed_per_filter_config: expected {soft} enabled");
        assert!(found.contains(&expected), "{found}");
    }
}

fn strict(last: Value, led: &Value) -> Value {
    with(example("split.yaml"), |manager| {
        let filters = manager["http_filters"].as_array_mut().unwrap();
        let strict_filter = example("two-policies.yaml").pointer(MANAGER).unwrap()["http_filters"][3].clone();
        filters.insert(3, strict_filter);
        let value = &mut filters[1]["typed_config"]["config"]["configuration"]["value"];
        let mut config: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
        config["policies"]["web"]["strict"] = true.into();
        *value = config.to_string().into();
        let routes = &mut manager["route_config"]["virtual_hosts"][0]["routes"];
        routes[0]["typed_per_filter_config"] = led.clone();
        routes[1]["typed_per_filter_config"] = led.clone();
        routes[2]["typed_per_filter_config"] = last;
    })
}

#[test]
fn the_strict_filter_is_idle_on_the_last_route() {
    let (soft, hard) = ("limpet.stateful_session", "limpet.stateful_session_strict");
    let led = json!({soft: absent(), hard: within(&json!({}))});
    let good = json!({soft: absent(), hard: within(&idle())});
    assert_eq!(findings(&strict(good.clone(), &led)), (0, Vec::new()));
    assert_eq!(
        findings(&strict(json!({soft: absent(), hard: idle()}), &led)),
        (0, Vec::new())
    );
    let message = "typed_per_filter_config: expected limpet.stateful_session_strict disabled by a \
                   StatefulSessionPerRoute with disabled: true";
    let active = strict(json!({soft: absent(), hard: within(&json!({}))}), &led);
    assert_one(
        &active,
        "error",
        "routes[2]",
        &format!("{message}: a session web/shop whose cluster no longer has a route would fail"),
    );
    for out in [json!({soft: absent()}), json!({soft: absent(), hard: absent()})] {
        assert_one(
            &strict(out, &led),
            "error",
            "routes[2]",
            &format!("{message}, and not otherwise"),
        );
    }
    let (code, found) = findings(&strict(good, &json!({soft: absent(), hard: within(&idle())})));
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    for (route, found) in found.iter().enumerate() {
        let expected = format!(
            "routes[{route}] |  | typed_per_filter_config: expected {hard} enabled: the session web/shop is strict"
        );
        assert!(found.contains(&expected), "{found}");
    }
}

/// A session is not strict on its way to the backend that the application names.
#[test]
fn a_strict_policy_that_moves_needs_both_filters_on_all_routes() {
    let (soft, hard) = ("limpet.stateful_session", "limpet.stateful_session_strict");
    let moving = |last: Value, led: &Value| {
        with(strict(last, led), |manager| {
            let value = &mut manager["http_filters"][1]["typed_config"]["config"]["configuration"]["value"];
            let mut config: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
            config["policies"]["web"]["move"] = json!({"header": "x-move"});
            *value = config.to_string().into();
        })
    };
    let led = json!({hard: within(&json!({}))});
    let last = json!({soft: idle(), hard: within(&idle())});
    assert_eq!(findings(&moving(last.clone(), &led)), (0, Vec::new()));
    assert_one(
        &moving(json!({soft: absent(), hard: within(&idle())}), &led),
        "error",
        "routes[2]",
        "expected limpet.stateful_session disabled by a StatefulSessionPerRoute with disabled: true, and not otherwise",
    );
    let (code, found) = findings(&moving(last, &json!({soft: absent(), hard: within(&json!({}))})));
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    for found in found {
        let expected = format!("expected {soft} enabled: the session web/shop is not strict while it moves");
        assert!(found.contains(&expected), "{found}");
    }
}
