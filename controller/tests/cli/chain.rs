//! The chain around the filter: `cookie.yaml` with one part changed.

use serde_json::{Value, json};

use crate::{assert_one, example, findings};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

fn changed(change: impl Fn(&mut Value)) -> Value {
    let mut envoy = example("cookie.yaml");
    change(envoy.pointer_mut(MANAGER).unwrap());
    envoy
}

fn filters(manager: &mut Value) -> &mut Vec<Value> {
    manager["http_filters"].as_array_mut().unwrap()
}

/// `cookie.yaml` with a strict policy, and its route made ready for it.
fn strict() -> Value {
    changed(|manager| {
        let configuration = &mut manager["http_filters"][1]["typed_config"]["config"]["configuration"];
        let text = configuration["value"].as_str().unwrap();
        let strict = text.replace(
            r#"{"cookie": {"name": "limpet-session"}}"#,
            r#"{"cookie": {"name": "limpet-session"}, "strict": true}"#,
        );
        assert_ne!(text, strict);
        configuration["value"] = strict.into();
        let filter = example("two-policies.yaml").pointer(MANAGER).unwrap()["http_filters"][3].clone();
        filters(manager).insert(3, filter);
        let config = "type.googleapis.com/envoy.config.route.v3.FilterConfig";
        manager["route_config"]["virtual_hosts"][0]["typed_per_filter_config"] = json!({
            "limpet.stateful_session": {"@type": config, "disabled": true},
            "limpet.stateful_session_strict": {"@type": config, "config": {}},
        });
    })
}

#[test]
fn the_chain_of_the_examples_is_complete() {
    assert_eq!(findings(&changed(|_| {})), (0, Vec::new()));
    assert_eq!(findings(&strict()), (0, Vec::new()));
}

#[test]
fn the_stateful_session_filter_must_be_there_and_behind() {
    let without = changed(|manager| drop(filters(manager).remove(2)));
    assert_one(
        &without,
        "error",
        "typed_config",
        "expected a stateful_session filter with header state x-limpet-host behind limpet",
    );
    let in_front = changed(|manager| filters(manager).swap(1, 2));
    assert_one(&in_front, "error", "http_filters[1]", "expected behind limpet");
    let renamed = changed(|manager| manager["http_filters"][2]["name"] = "any".into());
    assert_eq!(findings(&renamed), (0, Vec::new()));
    let other = changed(|manager| {
        manager["http_filters"][2]["typed_config"]["session_state"]["typed_config"]["name"] = "x-other".into();
    });
    assert_one(&other, "error", "typed_config", "header state x-limpet-host behind");
}

/// On its way to the backend that the application names, a session is not strict: it may not exist.
#[test]
fn a_strict_policy_that_moves_needs_both_filters() {
    let mut moving = strict();
    let manager = moving.pointer_mut(MANAGER).unwrap();
    let configuration = &mut manager["http_filters"][1]["typed_config"]["config"]["configuration"];
    let text = configuration["value"].as_str().unwrap();
    let text = text.replace(r#""strict": true"#, r#""strict": true, "move": {"header": "x-move"}"#);
    configuration["value"] = text.into();
    assert_one(
        &moving,
        "error",
        "routes[0]",
        "expected limpet.stateful_session enabled: the session web/default is not strict while it moves",
    );
    let manager = moving.pointer_mut(MANAGER).unwrap();
    let host = &mut manager["route_config"]["virtual_hosts"][0];
    host["typed_per_filter_config"]
        .as_object_mut()
        .unwrap()
        .remove("limpet.stateful_session");
    assert_eq!(findings(&moving), (0, Vec::new()));
    drop(filters(moving.pointer_mut(MANAGER).unwrap()).remove(2));
    assert_one(
        &moving,
        "error",
        "typed_config",
        "header state x-limpet-host behind limpet: sessions of policies that are not strict or have move need it",
    );
}

#[test]
fn a_strict_policy_needs_the_strict_filter() {
    let manager = |mut envoy: Value, change: &dyn Fn(&mut Value)| {
        change(envoy.pointer_mut(MANAGER).unwrap());
        envoy
    };
    let without = manager(strict(), &|manager| drop(filters(manager).remove(3)));
    assert_one(
        &without,
        "error",
        "typed_config",
        "header state x-limpet-host-strict behind limpet",
    );
    let soft = manager(strict(), &|manager| {
        manager["http_filters"][3]["typed_config"]["strict"] = false.into();
    });
    assert_one(&soft, "error", "http_filters[3]", "expected strict: true");
    // Without a strict policy it may be absent.
    assert_eq!(filters(example("cookie.yaml").pointer_mut(MANAGER).unwrap()).len(), 4);
    let hard = changed(|manager| manager["http_filters"][2]["typed_config"]["strict"] = true.into());
    assert_one(&hard, "error", "http_filters[2]", "expected no strict: true");
}

#[test]
fn clients_cannot_send_internal_headers() {
    let without = |mut envoy: Value| {
        envoy.pointer_mut(MANAGER).unwrap()["early_header_mutation_extensions"] = json!([]);
        envoy
    };
    for (envoy, read) in [
        (changed(|_| {}), "x-limpet-host, x-limpet-session"),
        (strict(), "x-limpet-host, x-limpet-host-strict, x-limpet-session"),
        (
            example("split.yaml"),
            "x-limpet-host, x-limpet-destination, x-limpet-session",
        ),
    ] {
        let message = format!("the removal of {read}: a client's own");
        assert_one(&without(envoy), "error", "typed_config", &message);
    }
    let some = changed(|manager| {
        manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"] = json!([
            {"remove": "X-Limpet-Host"},
            {"remove_on_match": {"key_matcher": {"prefix": "x-limpet-host-"}}},
        ]);
    });
    assert_one(&some, "error", "typed_config", "the removal of x-limpet-session:");
    let prefix = changed(|manager| {
        manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"] =
            json!([{"remove_on_match": {"key_matcher": {"prefix": "x-limpet-"}}}]);
    });
    assert_eq!(findings(&prefix), (0, Vec::new()));
}

#[test]
fn clients_cannot_see_internal_headers() {
    for (mut without, written) in [
        (changed(|_| {}), "x-limpet-host"),
        (strict(), "x-limpet-host, x-limpet-host-strict"),
    ] {
        filters(without.pointer_mut(MANAGER).unwrap()).remove(0);
        let message = format!("removes {written} from responses");
        assert_one(&without, "error", "typed_config", &message);
    }
    let between = changed(|manager| filters(manager).swap(0, 1));
    let (code, found) = findings(&between);
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    assert!(
        found[1].contains("http_filters[1]") && found[1].contains("expected in front of limpet"),
        "{found:#?}"
    );
}

#[test]
fn backends_cannot_see_internal_headers() {
    let seen = changed(|manager| manager["route_config"]["request_headers_to_remove"] = json!(["x-limpet-host"]));
    assert_one(
        &seen,
        "error",
        "route_config",
        "expected x-limpet-host-strict, x-limpet-destination, x-limpet-session: backends would see them",
    );
    // A filter behind the steering ones may remove them, or one behind limpet for what only limpet reads.
    let filtered = |at: usize, prefix: &str, rest: Value| {
        changed(|manager| {
            manager["route_config"]["request_headers_to_remove"] = rest.clone();
            let mut removal = manager["http_filters"][0].clone();
            removal["name"] = "limpet.upstream".into();
            removal["typed_config"]["mutations"] =
                json!({"request_mutations": [{"remove_on_match": {"key_matcher": {"prefix": prefix}}}]});
            filters(manager).insert(at, removal);
        })
    };
    assert_eq!(findings(&filtered(3, "x-limpet-", json!([]))), (0, Vec::new()));
    let rest = json!(["x-limpet-host", "x-limpet-host-strict", "x-limpet-destination"]);
    assert_eq!(
        findings(&filtered(2, "x-limpet-session", rest.clone())),
        (0, Vec::new())
    );
    let early = filtered(1, "x-limpet-session", rest);
    assert_one(&early, "error", "route_config", "expected x-limpet-session: backends");
}

#[test]
fn the_router_is_last() {
    let moved = changed(|manager| filters(manager).swap(2, 3));
    let (code, found) = findings(&moved);
    assert_eq!(code, 2);
    assert!(
        found
            .iter()
            .any(|found| found.contains("expected the router as the last filter")),
        "{found:#?}"
    );
}

#[test]
fn the_strict_filter_is_disabled_unless_needed() {
    let mut always = strict();
    always.pointer_mut(MANAGER).unwrap()["http_filters"][3]["disabled"] = false.into();
    let (code, found) = findings(&always);
    assert_eq!(code, 1);
    assert!(found.iter().all(|found| found.starts_with("warning")), "{found:#?}");
    assert!(
        found[0].contains("http_filters[3]") && found[0].contains("expected disabled: true"),
        "{found:#?}"
    );
}

#[test]
fn an_access_log_of_sessions_needs_the_filter() {
    let logged = |access_log: bool| {
        changed(|manager| {
            let log = example("access-log.yaml").pointer(MANAGER).unwrap()["access_log"].clone();
            manager["access_log"] = log;
            let value = &mut manager["http_filters"][1]["typed_config"]["config"]["configuration"]["value"];
            let mut config: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
            config["accessLog"] = access_log.into();
            *value = config.to_string().into();
        })
    };
    assert_eq!(findings(&logged(true)), (0, Vec::new()));
    assert_one(&logged(false), "warning", "access_log", "has accessLog: true");
}

const FILTER_CONFIG: &str = "type.googleapis.com/envoy.config.route.v3.FilterConfig";

#[test]
fn a_disabled_part_of_the_chain_is_told() {
    let disabled = json!({"@type": FILTER_CONFIG, "disabled": true});
    let at_route = |filter: &str| {
        let per_filter = json!({filter: disabled});
        changed(|manager| {
            manager["route_config"]["virtual_hosts"][0]["routes"][0]["typed_per_filter_config"] = per_filter.clone();
        })
    };
    let at_host = |filter: &str| {
        let per_filter = json!({filter: disabled});
        changed(|manager| {
            manager["route_config"]["virtual_hosts"][0]["typed_per_filter_config"] = per_filter.clone();
        })
    };
    let in_list = |index: usize| changed(|manager| manager["http_filters"][index]["disabled"] = true.into());
    for (index, filter, severity, said) in [
        (
            0,
            "limpet.internal_headers",
            "error",
            "expected the filter limpet.internal_headers enabled: clients",
        ),
        (
            1,
            "limpet",
            "warning",
            "the filter limpet is disabled here, so there is no session web/default",
        ),
        (
            2,
            "limpet.stateful_session",
            "error",
            "expected limpet.stateful_session enabled: the session web/default",
        ),
    ] {
        for envoy in [in_list(index), at_route(filter), at_host(filter)] {
            assert_one(&envoy, severity, "virtual_hosts[0].routes[0]", said);
        }
    }
    // A route may enable what the list disables.
    let mut enabled = in_list(0);
    let host = &mut enabled.pointer_mut(MANAGER).unwrap()["route_config"]["virtual_hosts"][0];
    host["typed_per_filter_config"] = json!({"limpet.internal_headers": {"@type": FILTER_CONFIG, "config": {}}});
    assert_eq!(findings(&enabled), (0, Vec::new()));
}

#[test]
fn a_disabled_filter_hides_nothing_from_backends() {
    let seen = changed(|manager| {
        manager["route_config"]["request_headers_to_remove"] = json!([]);
        let mut removal = manager["http_filters"][0].clone();
        removal["name"] = "limpet.upstream".into();
        removal["disabled"] = true.into();
        removal["typed_config"]["mutations"] =
            json!({"request_mutations": [{"remove_on_match": {"key_matcher": {"prefix": "x-limpet-"}}}]});
        filters(manager).insert(3, removal);
    });
    assert_one(&seen, "error", "route_config", "backends would see them");
}

#[test]
fn a_disabled_part_is_told_without_routes() {
    let envoy = changed(|manager| {
        manager["http_filters"][0]["disabled"] = true.into();
        manager["route_config"] = Value::Null;
        manager["rds"] = json!({"route_config_name": "elsewhere", "config_source": {"ads": {}}});
    });
    let (code, found) = findings(&envoy);
    assert_eq!(code, 1);
    let told = |found: &String| found.starts_with("warning") && found.contains("each route must enable it");
    assert!(found.iter().any(told), "{found:#?}");
}

#[test]
fn a_part_of_the_chain_behind_a_matcher_is_told() {
    for index in 0..4 {
        let wrapped = changed(|manager| {
            let filter = &mut manager["http_filters"][index];
            let inner = filter["typed_config"].take();
            filter["typed_config"] = json!({
                "@type": "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher",
                "extension_config": {"name": "inner", "typed_config": inner},
                "xds_matcher": {"matcher_list": {"matchers": []}},
            });
        });
        assert_one(
            &wrapped,
            "error",
            &format!("http_filters[{index}]"),
            "expected no matcher around it",
        );
    }
}

#[test]
fn a_redirect_that_would_move_sessions_is_told() {
    let redirected = |generates: Value| {
        changed(|manager| {
            manager["generate_request_id"] = generates.clone();
            let route = &mut manager["route_config"]["virtual_hosts"][0]["routes"][0];
            route["route"]["internal_redirect_policy"] = json!({});
        })
    };
    assert_eq!(findings(&redirected(Value::Null)), (0, Vec::new()));
    assert_eq!(findings(&redirected(true.into())), (0, Vec::new()));
    let without = redirected(false.into());
    assert_one(
        &without,
        "error",
        "internal_redirect_policy",
        "a redirect moves the session web/default",
    );
}
