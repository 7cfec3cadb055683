//! `limpet check --minimal`: what a configuration does not need can go, and what keeps clients out stays.

use serde_json::{Value, json};

use crate::{KEY, OTHER_KEY, Ran, checkout, example, file, limpet, path};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
const FILTER_CONFIG: &str = "type.googleapis.com/envoy.config.route.v3.FilterConfig";

fn check(document: &Value, options: &[&str]) -> Ran {
    let file = file(".json", &document.to_string());
    let args = [&["check", path(&file), "-o", "json"], options].concat();
    limpet(&args)
        .env("LIMPET_KEY", KEY)
        .env("LIMPET_KEY_1", KEY)
        .env("LIMPET_KEY_2", OTHER_KEY)
        .env("LIMPET_KEK_1", OTHER_KEY)
        .run()
}

fn notes(document: &Value, beginning: &str) -> Vec<(String, String)> {
    let json = check(document, &["--minimal"]).json();
    let findings = json["files"][0]["findings"].as_array().unwrap().clone();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let notes = findings
        .iter()
        .map(|finding| (text(finding, "path"), text(finding, "message")));
    notes.filter(|(_, message)| message.starts_with(beginning)).collect()
}

fn suggested(document: &Value) -> Vec<(String, String)> {
    notes(document, "not needed: ")
}

fn remove(document: &mut Value, path: &str) {
    let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    let (list, index) = pointer.rsplit_once('/').unwrap();
    let list = document.pointer_mut(list).unwrap().as_array_mut().unwrap();
    list.remove(index.parse().unwrap());
}

/// Later items of a list go first, so that the other places stay.
fn minimised(document: &Value) -> Value {
    let mut document = document.clone();
    let mut places: Vec<String> = suggested(&document).into_iter().map(|(place, _)| place).collect();
    places.sort();
    for place in places.iter().rev() {
        remove(&mut document, place);
    }
    document
}

fn changed(name: &str, change: impl Fn(&mut Value)) -> Value {
    let mut envoy = example(name);
    change(envoy.pointer_mut(MANAGER).unwrap());
    envoy
}

fn no_longer_strict() -> Value {
    changed("two-policies.yaml", |manager| {
        let value = &mut manager["http_filters"][1]["typed_config"]["config"]["configuration"]["value"];
        *value = value.as_str().unwrap().replace(r#", "strict": true"#, "").into();
        let route = &mut manager["route_config"]["virtual_hosts"][0]["routes"][0];
        route.as_object_mut().unwrap().remove("typed_per_filter_config");
    })
}

fn all_strict() -> Value {
    changed("two-policies.yaml", |manager| {
        let value = &mut manager["http_filters"][1]["typed_config"]["config"]["configuration"]["value"];
        *value = value
            .as_str()
            .unwrap()
            .replace(r#""idleTimeout": "30m""#, r#""strict": true"#)
            .into();
        let routes = &mut manager["route_config"]["virtual_hosts"][0]["routes"];
        routes[1]["typed_per_filter_config"] = routes[0]["typed_per_filter_config"].clone();
    })
}

fn examples() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(checkout().join("envoy-configs")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| name.strip_suffix(".yaml").is_some_and(|name| name != "docker-compose"));
    let mut examples: Vec<_> = names.map(|name| (name.clone(), example(&name))).collect();
    examples.push(("no longer strict".to_owned(), no_longer_strict()));
    examples.push(("all strict".to_owned(), all_strict()));
    examples
}

#[test]
fn without_what_is_not_needed_every_example_is_good() {
    let mut places = 0;
    for (name, document) in examples() {
        let minimised = minimised(&document);
        places += suggested(&document).len();
        let problems = |document: &Value| {
            let json = check(document, &[]).json();
            (json["errors"].clone(), json["warnings"].clone())
        };
        assert_eq!(problems(&minimised), problems(&document), "{name}");
        assert_eq!(problems(&minimised).0, 0, "{name}");
        assert_eq!(suggested(&minimised), Vec::new(), "{name}");
    }
    assert!(places > 50, "{places}");
}

#[test]
fn cookie_yaml_needs_two_headers_early_and_one_late() {
    let manager = "static_resources.listeners[0].filter_chains[0].filters[0].typed_config";
    let places: Vec<String> = suggested(&example("cookie.yaml"))
        .into_iter()
        .map(|(place, _)| place)
        .collect();
    let mutations = format!("{manager}.http_filters[0].typed_config.mutations");
    let early = format!("{manager}.early_header_mutation_extensions[0].typed_config.mutations");
    let expected = [
        format!("{mutations}.response_mutations[1]"),
        format!("{mutations}.request_mutations[1]"),
        format!("{mutations}.request_mutations[0]"),
        format!("{early}[2]"),
        format!("{early}[1]"),
    ];
    assert_eq!(places, expected);
}

#[test]
fn a_filter_of_strict_policies_goes_with_its_header() {
    let document = no_longer_strict();
    let found = suggested(&document);
    assert!(found[0].0.ends_with("http_filters[3]"), "{found:?}");
    assert!(found[0].1.contains("no policy is strict"), "{found:?}");
    // The header must stay as long as the filter does.
    let mut with_filter = minimised(&document);
    let filter = document.pointer(MANAGER).unwrap()["http_filters"][3].clone();
    with_filter.pointer_mut(MANAGER).unwrap()["http_filters"]
        .as_array_mut()
        .unwrap()
        .insert(3, filter);
    let ran = check(&with_filter, &[]).code(2);
    assert!(
        ran.stdout.contains("expected the removal of x-limpet-host-strict:"),
        "{ran:?}"
    );
    assert!(
        ran.stdout.contains("that removes x-limpet-host-strict from responses"),
        "{ran:?}"
    );
}

#[test]
fn without_soft_policies_their_filter_can_go() {
    let found = suggested(&all_strict());
    assert!(found[0].0.ends_with("http_filters[2]"), "{found:?}");
    assert!(found[0].1.contains("every policy is strict, without move"), "{found:?}");
    let kept = minimised(&all_strict());
    let early = &kept.pointer(MANAGER).unwrap()["early_header_mutation_extensions"][0]["typed_config"]["mutations"];
    assert_eq!(
        *early,
        json!([{"remove": "x-limpet-host-strict"}, {"remove": "x-limpet-session"}])
    );
}

#[test]
fn a_header_that_something_reads_stays() {
    const STRICT: &str = "x-limpet-host-strict";
    const DESTINATION: &str = "x-limpet-destination";
    type Change = fn(&mut Value);
    let readers: [(&str, Change); 8] = [
        (DESTINATION, |manager| {
            let route = &mut manager["route_config"]["virtual_hosts"][0]["routes"][0];
            route["route"] = json!({"cluster_header": "X-Limpet-Destination"});
        }),
        (DESTINATION, |manager| {
            let virtual_host = &mut manager["route_config"]["virtual_hosts"][0];
            let secret = json!({
                "match": {"prefix": "/", "headers": [{"name": DESTINATION, "present_match": true}]},
                "direct_response": {"status": 200},
            });
            virtual_host["routes"].as_array_mut().unwrap().insert(0, secret);
        }),
        (DESTINATION, |manager| {
            manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["hash_policy"] =
                json!([{"header": {"header_name": DESTINATION}}]);
        }),
        (DESTINATION, |manager| {
            manager["route_config"]["requestHeadersToAdd"] =
                json!([{"header": {"key": "x-copy", "value": "%REQ(X-LIMPET-DESTINATION?X-OTHER)%"}}]);
        }),
        (STRICT, |manager| {
            // Here the filter that is not strict steers by another header.
            let mut state = manager["http_filters"][2]["typed_config"]["session_state"].clone();
            state["typed_config"]["name"] = STRICT.into();
            let per_route = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.\
                             StatefulSessionPerRoute";
            manager["route_config"]["virtual_hosts"][0]["typed_per_filter_config"] = json!({
                "limpet.stateful_session": {
                    "@type": per_route,
                    "stateful_session": {"session_state": state, "strict": true},
                },
            });
        }),
        (STRICT, |manager| {
            let mut filter = manager["http_filters"][2].clone();
            filter["typed_config"]["session_state"]["typed_config"]["name"] = "X-Limpet-Host-Strict".into();
            manager["http_filters"].as_array_mut().unwrap().insert(3, filter);
        }),
        (STRICT, |manager| {
            let mut filter = manager["http_filters"][2].clone();
            filter["typed_config"]["session_state"]["typed_config"]["name"] = STRICT.into();
            manager["upgrade_configs"] = json!([{"upgrade_type": "websocket", "filters": [filter]}]);
        }),
        (STRICT, |manager| {
            manager["http_filters"][0]["typed_config"]["mutations"]["request_mutations"][1]["append"]["header"] =
                json!({"key": "x-limpet-session", "value": "%REQ(x-limpet-host-strict)%"});
        }),
    ];
    for (i, (header, change)) in readers.into_iter().enumerate() {
        let document = changed("cookie.yaml", change);
        let found = suggested(&document);
        assert!(
            !found.iter().any(|(_, message)| message.contains(header)),
            "{i}: {found:#?}"
        );
        // The check itself still asks for its removal.
        let without = changed("cookie.yaml", |manager| {
            change(manager);
            let early = &mut manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"];
            early
                .as_array_mut()
                .unwrap()
                .retain(|mutation| mutation["remove"] != header);
        });
        let ran = check(&without, &[]).code(2);
        assert!(
            ran.stdout.contains(&format!("expected the removal of {header}:")),
            "{i}: {ran:?}"
        );
    }
}

#[test]
fn a_route_with_a_session_needs_it_told() {
    let document = changed("cookie.yaml", |manager| {
        manager["route_config"]["virtual_hosts"][0]["routes"][0]["metadata"] =
            json!({"filterMetadata": {"limpet": {"session": "web/shop"}}});
    });
    let found = suggested(&document);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        !found.iter().any(|(_, message)| message.contains("session")),
        "{found:#?}"
    );
}

/// Where the files do not show a header's readers, or may change.
#[test]
fn what_is_not_shown_is_not_known() {
    type Change = fn(&mut Value);
    let hidden: [(&str, Change); 9] = [
        (
            "http_filters[0].typed_config (envoy.extensions.filters.http.lua.v3.Lua) may read",
            |manager| {
                let lua = json!({
                    "name": "lua",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
                        "default_source_code": {"filename": "/etc/envoy/any.lua"},
                    },
                });
                manager["http_filters"].as_array_mut().unwrap().insert(0, lua);
            },
        ),
        ("http_filters[3] may read any header", |manager| {
            let discovered = json!({
                "name": "other",
                "config_discovery": {"config_source": {"ads": {}}, "type_urls": ["any/any.Thing"]},
            });
            manager["http_filters"].as_array_mut().unwrap().insert(3, discovered);
        }),
        ("http_filters[3] may read any header", |manager| {
            manager["http_filters"]
                .as_array_mut()
                .unwrap()
                .insert(3, json!({"name": "by.name.alone"}));
        }),
        (
            "http_filters[3].typed_config (xds.type.v3.TypedStruct) may read",
            |manager| {
                let wrapped = json!({
                    "name": "wrapped",
                    "typed_config": {
                        "@type": "type.googleapis.com/xds.type.v3.TypedStruct",
                        "type_url": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
                        "value": {},
                    },
                });
                manager["http_filters"].as_array_mut().unwrap().insert(3, wrapped);
            },
        ),
        ("wasm.v3.Wasm) may read", |manager| {
            let mut other = manager["http_filters"][1].clone();
            other["name"] = "other".into();
            manager["http_filters"].as_array_mut().unwrap().insert(1, other);
        }),
        ("the filter's configuration is discovered", |manager| {
            manager["http_filters"][1] = json!({
                "name": "limpet",
                "config_discovery": {
                    "config_source": {"ads": {}},
                    "type_urls": ["type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"],
                },
            });
        }),
        ("routes are discovered", |manager| {
            manager.as_object_mut().unwrap().remove("route_config");
            manager["rds"] = json!({"route_config_name": "web", "config_source": {"ads": {}}});
        }),
        ("routes are discovered", |manager| {
            manager["route_config"]["vhds"] = json!({"config_source": {"ads": {}}});
        }),
        ("lua.v3.LuaClusterSpecifierConfig) may read", |manager| {
            let kind = "type.googleapis.com/envoy.extensions.router.cluster_specifiers.lua.v3.\
                        LuaClusterSpecifierConfig";
            manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"] = json!({
                "inline_cluster_specifier_plugin": {
                    "extension": {"name": "lua", "typed_config": {"@type": kind, "source_code": {"filename": "any"}}},
                },
            });
        }),
    ];
    for (i, (why, change)) in hidden.into_iter().enumerate() {
        let document = changed("cookie.yaml", change);
        assert_eq!(suggested(&document), Vec::new(), "{i}");
        let found = notes(&document, "not known what this chain does not need: ");
        assert!(
            !found.is_empty() && found.iter().all(|(_, message)| message.contains(why)),
            "{i}: {found:#?}"
        );
        let without = changed("cookie.yaml", |manager| {
            change(manager);
            manager["early_header_mutation_extensions"] = json!([]);
        });
        let ran = check(&without, &[]).code(2);
        let all = "the removal of x-limpet-host, x-limpet-host-strict, x-limpet-destination, x-limpet-session:";
        assert!(ran.stdout.contains(all), "{i}: {ran:?}");
    }
}

#[test]
fn a_chain_with_errors_comes_first() {
    let document = changed("cookie.yaml", |manager| {
        manager["route_config"]["request_headers_to_remove"] = json!([]);
    });
    assert_eq!(suggested(&document), Vec::new());
    let found = notes(&document, "not known");
    assert!(found[0].1.ends_with("its errors and warnings come first"), "{found:?}");
}

#[test]
fn backends_never_see_what_is_no_longer_removed_early() {
    let minimised = minimised(&example("cookie.yaml"));
    for header in [
        "x-limpet-host",
        "x-limpet-host-strict",
        "x-limpet-destination",
        "x-limpet-session",
    ] {
        let mut document = minimised.clone();
        let removed = &mut document.pointer_mut(MANAGER).unwrap()["route_config"]["request_headers_to_remove"];
        removed.as_array_mut().unwrap().retain(|name| name != header);
        let ran = check(&document, &[]).code(2);
        assert!(
            ran.stdout
                .contains(&format!("expected {header}: backends would see them")),
            "{ran:?}"
        );
    }
}

/// A route's configuration turns a disabled filter on.
#[test]
fn a_strict_filter_that_a_route_enables_comes_first() {
    let mut document = no_longer_strict();
    let routes = &mut document.pointer_mut(MANAGER).unwrap()["route_config"]["virtual_hosts"][0]["routes"];
    routes[0]["typed_per_filter_config"] =
        json!({"limpet.stateful_session_strict": {"@type": FILTER_CONFIG, "config": {}}});
    assert_eq!(suggested(&document), Vec::new());
}

#[test]
fn quiet_names_no_parts() {
    let ran = limpet(&["check", "--minimal", "--quiet", "envoy-configs/cookie.yaml"])
        .env("LIMPET_KEY", KEY)
        .run()
        .code(0);
    assert_eq!(ran.stdout, "");
}
