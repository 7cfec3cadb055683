//! Envoy's choice of endpoints: `cookie.yaml`, `split.yaml` and `destination.yaml` with other clusters or routes.

use serde_json::{Value, json};

use crate::{KEY, assert_one, example, file, findings, limpet, path};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
const ROUTES: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/\
    virtual_hosts/0/routes";

fn with(fields: &Value) -> Value {
    changed(example("cookie.yaml"), fields)
}

/// `module.yaml` with a strict policy and these fields of its cluster.
fn strict(fields: &Value) -> Value {
    let mut envoy = changed(example("module.yaml"), fields);
    let filters = &mut envoy.pointer_mut(MANAGER).unwrap()["http_filters"];
    let value = &mut filters[0]["typed_config"]["filter_config"]["value"];
    let strict = value
        .as_str()
        .unwrap()
        .replace("\"cookie\":", "\"strict\": true, \"cookie\":");
    *value = strict.into();
    envoy
}

fn changed(mut envoy: Value, fields: &Value) -> Value {
    let cluster = envoy["static_resources"]["clusters"][0].as_object_mut().unwrap();
    cluster.extend(fields.as_object().unwrap().clone());
    envoy
}

fn typed(extension: &str, more: &Value) -> Value {
    let kind = format!("type.googleapis.com/envoy.extensions.clusters.{extension}.v3.ClusterConfig");
    let kind = kind.replace(".dns.v3.ClusterConfig", ".dns.v3.DnsCluster");
    let mut config = json!({"@type": kind});
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"type": null, "lb_policy": "CLUSTER_PROVIDED", "cluster_type": {"name": "any", "typed_config": config}})
}

#[test]
fn clusters_in_which_envoy_cannot_steer_were_ok() {
    let lost = "each request of a session may reach another endpoint (web/default)";
    let (others, one) = ("made of others, so ", "the first that DNS answers, so ");
    for (cluster, expected) in [
        (
            typed("aggregate", &json!({"clusters": ["one"]})),
            format!("{others}{lost}"),
        ),
        (
            typed("composite", &json!({"clusters": [{"name": "one"}]})),
            format!("{others}{lost}"),
        ),
        (
            typed("dynamic_forward_proxy", &json!({"sub_clusters_config": {}})),
            format!("each host is a cluster of its own, so {lost}"),
        ),
        (
            typed("dynamic_forward_proxy", &json!({"dns_cache_config": {"name": "hosts"}})),
            "a session leads to its endpoint, whatever host a request names (web/default)".to_owned(),
        ),
        (
            json!({"type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED"}),
            "a session leads to its endpoint, whatever address a request is for (web/default)".to_owned(),
        ),
        (json!({"type": "LOGICAL_DNS"}), format!("{one}{lost}")),
        (
            typed("dns", &json!({"allAddressesInSingleEndpoint": true})),
            format!("{one}{lost}"),
        ),
    ] {
        assert_one(&with(&cluster), "warning", "clusters[0]", &expected);
        let expected = expected.replace("may reach another endpoint", "is refused");
        assert_one(&strict(&cluster), "error", "clusters[0]", &expected);
    }
    for endpoint in [
        json!({"pipe": {"path": "/run/app.sock"}}),
        json!({"envoy_internal_address": {"server_listener_name": "mesh"}}),
    ] {
        let endpoints = json!([{"lb_endpoints": [{"endpoint": {"address": endpoint}}]}]);
        let envoy = with(&json!({"load_assignment": {"cluster_name": "backends", "endpoints": endpoints}}));
        assert_one(&envoy, "warning", "clusters[0]", "no IP address and port");
    }
}

#[test]
fn other_types_of_clusters_are_named() {
    let expected = "not checked: whether a session web/default holds in a cluster of the type \
                    envoy.extensions.clusters.dynamic_modules.v3.ClusterConfig";
    assert_one(
        &with(&typed("dynamic_modules", &json!({}))),
        "note",
        "clusters[0]",
        expected,
    );
}

#[test]
fn clusters_in_which_envoy_steers_are_ok() {
    for cluster in [
        json!({}),
        json!({"type": "STRICT_DNS"}),
        json!({"type": "EDS", "load_assignment": null}),
        typed("dns", &json!({})),
        json!({"lb_policy": "MAGLEV"}),
        json!({"common_lb_config": {"locality_weighted_lb_config": {}}}),
    ] {
        assert_eq!(findings(&with(&cluster)), (0, vec![]), "{cluster}");
        assert_eq!(findings(&strict(&cluster)), (0, vec![]), "{cluster}");
    }
}

#[test]
fn states_of_endpoints_in_use_must_not_be_left_out() {
    let of = |statuses: &Value| json!({"common_lb_config": {"override_host_status": {"statuses": statuses}}});
    let place = "common_lb_config.override_host_status";
    for (statuses, lacking) in [
        (json!(["DRAINING"]), "UNKNOWN and HEALTHY"),
        (json!([]), "UNKNOWN and HEALTHY"),
        (json!(["HEALTHY", "DRAINING"]), "UNKNOWN"),
        (json!(["UNKNOWN"]), "HEALTHY"),
    ] {
        let expected = format!("statuses: expected {lacking} as well");
        assert_one(&with(&of(&statuses)), "warning", place, &expected);
        assert_one(&strict(&of(&statuses)), "error", place, &expected);
    }
    assert_eq!(
        findings(&with(&of(&json!(["UNKNOWN", "HEALTHY", "DRAINING"])))),
        (0, vec![])
    );
}

#[test]
fn sessions_move_while_envoy_is_in_panic() {
    let checked = |common: Value| with(&json!({"health_checks": [{"timeout": "1s"}], "common_lb_config": common}));
    let expected = "a session web/default there moves with each response";
    assert_one(&checked(json!({})), "note", "clusters[0]", expected);
    let detected = with(&json!({"outlier_detection": {}}));
    assert_one(&detected, "note", "clusters[0]", expected);
    let statuses = ["UNKNOWN", "HEALTHY", "DEGRADED", "UNHEALTHY"];
    for settled in [
        json!({"healthy_panic_threshold": {"value": 0}}),
        json!({"override_host_status": {"statuses": statuses}}),
    ] {
        assert_eq!(findings(&checked(settled)), (0, vec![]));
    }
}

/// `cookie.yaml` with two routes, which have these criteria.
fn subsets(canary: &Value, others: &Value) -> Value {
    let mut envoy = with(&json!({"lb_subset_config": {"subset_selectors": [{"keys": ["version"]}]}}));
    let routes = envoy.pointer_mut(ROUTES).unwrap();
    let route = |name: &str, criteria: &Value, like: &Value| {
        let mut route = like.clone();
        route["name"] = name.into();
        route["route"]["metadata_match"] = json!({"filter_metadata": {"envoy.lb": criteria}});
        route
    };
    let first = routes[0].clone();
    *routes = json!([route("canary", canary, &first), route("web", others, &first)]);
    routes[0]["match"]["headers"] = json!([{"name": "x-canary", "present_match": true}]);
    envoy
}

#[test]
fn a_session_led_out_of_its_routes_subset() {
    let expected = "metadata_match: the route canary leads the session web/default to another subset of backends";
    let (v1, v2) = (json!({"version": "v1"}), json!({"version": "v2"}));
    assert_one(&subsets(&v2, &v1), "warning", "routes[1]", expected);
    assert_one(&subsets(&v2, &json!({})), "warning", "routes[1]", expected);
    assert_eq!(findings(&subsets(&v1, &v1)), (0, vec![]));

    let mut without_subsets = subsets(&v2, &v1);
    without_subsets["static_resources"]["clusters"][0]["lb_subset_config"] = json!(null);
    assert_eq!(findings(&without_subsets), (0, vec![]));

    let mut with_scopes = subsets(&v2, &v1);
    for (i, scope) in ["canary", "web"].into_iter().enumerate() {
        let session = format!("web/{scope}");
        with_scopes.pointer_mut(ROUTES).unwrap()[i]["metadata"] =
            json!({"filter_metadata": {"limpet": {"session": session}}});
    }
    let cookies = "a client keeps one such cookie";
    assert_one(&with_scopes, "warning", "routes[1]", cookies);
}

/// `split.yaml` with one cluster twice, the second time with these fields.
fn twice(fields: &Value) -> Value {
    let mut envoy = example("split.yaml");
    let routes = envoy.pointer_mut(ROUTES).unwrap();
    let weighted = &mut routes[2]["route"]["weighted_clusters"]["clusters"];
    let mut second = weighted[0].clone();
    second
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    weighted.as_array_mut().unwrap().push(second);
    envoy
}

#[test]
fn arms_of_a_test_with_one_cluster_were_ok() {
    assert_eq!(findings(&twice(&json!({"weight": 5}))), (0, vec![]));
    let arm = json!([{"header": {"key": "x-arm", "value": "experiment"}}]);
    for (field, value) in [
        ("request_headers_to_add", arm.clone()),
        ("response_headers_to_add", arm),
        ("response_headers_to_remove", json!(["x-arm"])),
        ("host_rewrite_literal", json!("b.example")),
    ] {
        let expected = format!("{field}: ");
        let place = "weighted_clusters.clusters[2]";
        assert_one(&twice(&json!({field: value})), "warning", place, &expected);
    }
    let mut subset = twice(&json!({"metadata_match": {"filter_metadata": {"envoy.lb": {"version": "v2"}}}}));
    subset["static_resources"]["clusters"][0]["lb_subset_config"] =
        json!({"subset_selectors": [{"keys": ["version"]}]});
    assert_one(
        &subset,
        "warning",
        "weighted_clusters.clusters[2]",
        "another subset of shop-v1",
    );
}

#[test]
fn sessions_of_clusters_are_checked_like_those_of_routes() {
    let mut envoy = example("destination.yaml");
    envoy["static_resources"]["clusters"][1]["type"] = "LOGICAL_DNS".into();
    assert_one(
        &envoy,
        "warning",
        "clusters[1]",
        "whose address is the first that DNS answers",
    );
}

/// `cookie.yaml` with this in place of `route_config`.
fn with_routes(fields: impl FnOnce(Value) -> Value) -> Value {
    let mut envoy = example("cookie.yaml");
    let manager = envoy.pointer_mut(MANAGER).unwrap().as_object_mut().unwrap();
    let routes = manager.remove("route_config").unwrap();
    manager.extend(fields(routes).as_object().unwrap().clone());
    envoy
}

/// The filter's configuration lacks the session of its only route.
fn wrong(mut routes: Value) -> Value {
    routes["virtual_hosts"][0]["routes"][0]["metadata"] = json!({"filter_metadata": {"limpet": {"session": "none/x"}}});
    routes
}

#[test]
fn routes_in_the_file_were_called_routes_from_elsewhere() {
    let expected = "expected <policy>/<scope> with a policy of the filter's configuration (web), found \"none/x\"";
    let scoped = |scopes: &Value| json!({"scoped_routes": {"scoped_route_configurations_list": scopes}});
    let inline = with_routes(|routes| {
        let scope = |name: &str, routes: Value| json!({"name": name, "route_configuration": routes});
        scoped(&json!({"scoped_route_configurations": [scope("a", routes.clone()), scope("b", wrong(routes))]}))
    });
    let place = "scoped_route_configurations[1].route_configuration.virtual_hosts[0].routes[0].metadata.\
                 filter_metadata.limpet.session";
    assert_one(&inline, "error", place, expected);

    let by_name = with_routes(|_| {
        scoped(&json!({"scoped_route_configurations": [{"name": "a", "route_configuration_name": "of-a"}]}))
    });
    assert_one(
        &by_name,
        "note",
        "typed_config",
        "not checked: the routes of-a, which Envoy gets from elsewhere",
    );
    let discovered = with_routes(|_| json!({"scoped_routes": {"scoped_rds": {}}}));
    assert_one(&discovered, "note", "typed_config", "not checked: the scopes of routes");

    let in_a_tree = with_routes(|mut routes| {
        let route = wrong(routes.clone())["virtual_hosts"][0]["routes"][0].clone();
        let mut action = json!({"@type": "type.googleapis.com/envoy.config.route.v3.Route"});
        action
            .as_object_mut()
            .unwrap()
            .extend(route.as_object().unwrap().clone());
        let host = &mut routes["virtual_hosts"][0];
        host["routes"] = json!(null);
        host["matcher"] = json!({"on_no_match": {"action": {"name": "route", "typed_config": action}}});
        json!({"route_config": routes})
    });
    let place = "on_no_match.action.typed_config.metadata.filter_metadata.limpet.session";
    assert_one(&in_a_tree, "error", place, expected);
}

#[test]
fn what_is_not_in_the_file_is_told() {
    let vhds = with_routes(|mut routes| {
        routes["vhds"] = json!({"config_source": {"ads": {}}});
        json!({"route_config": routes})
    });
    assert_one(&vhds, "note", "route_config.vhds", "not checked: the virtual hosts");

    let mut chosen = example("cookie.yaml");
    chosen.pointer_mut(ROUTES).unwrap()[0]["route"] = json!({"cluster_header": "x-cluster"});
    let expected = "not checked: whether sessions hold in the clusters that cluster_header chooses";
    assert_one(&chosen, "note", "routes[0].route", expected);

    let mut elsewhere = example("cookie.yaml");
    elsewhere["dynamic_resources"] = json!({"cds_config": {"ads": {}}});
    elsewhere["static_resources"]["clusters"] = json!([]);
    let expected = "not checked: whether sessions hold in clusters that Envoy gets from elsewhere: backends";
    assert_one(&elsewhere, "note", "route_config", expected);

    let none = with_routes(|_| json!({}));
    assert_one(
        &none,
        "error",
        "typed_config",
        "expected route_config, rds or scoped_routes",
    );
}

#[test]
fn listeners_and_clusters_in_files_of_their_own_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let listener =
        with_routes(|routes| json!({"route_config": wrong(routes)}))["static_resources"]["listeners"][0].clone();
    let resource = |kind: &str, resource: &Value| {
        let mut resource = resource.clone();
        resource["@type"] = format!("type.googleapis.com/envoy.config.{kind}").into();
        json!({"resources": [resource]})
    };
    let write = |name: &str, value: &Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        json!({"path_config_source": {"path": path}})
    };
    let bootstrap = json!({"dynamic_resources": {
        "lds_config": write("listeners.json", &resource("listener.v3.Listener", &listener)),
    }});
    let file = file(".json", &bootstrap.to_string());
    let ran = limpet(&["check", path(&file)]).env("LIMPET_KEY", KEY).run();
    assert!(ran.stdout.contains("found \"none/x\""), "{}", ran.stdout);
    assert_eq!(ran.code, 2);
}
