//! Sessions of clusters: `destination.yaml` with one change. Its clusters blue and green have a session each.

use serde_json::{Value, json};

use crate::{KEY, assert_one, example, file, findings, limpet, path};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

fn with(mut envoy: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut envoy["static_resources"]["clusters"]);
    envoy
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    with(example("destination.yaml"), change)
}

fn session(cluster: &mut Value) -> &mut Value {
    &mut cluster["metadata"]["filter_metadata"]["limpet"]["session"]
}

fn with_policies(mut envoy: Value, policies: &Value) -> Value {
    let manager = envoy.pointer_mut(MANAGER).unwrap();
    let value = &mut manager["http_filters"][1]["typed_config"]["config"]["configuration"]["value"];
    let mut config: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
    config["policies"] = policies.clone();
    *value = config.to_string().into();
    envoy
}

#[test]
fn a_clusters_metadata_must_name_a_policy_and_a_scope() {
    let place = "clusters[0].metadata.filter_metadata.limpet.session";
    for wrong in [
        json!("shop/blue"),
        json!("web"),
        json!("web/"),
        json!("@destination"),
        json!("@split/web/blue"),
        json!(1),
        json!(format!("web/{}", "x".repeat(1025))),
    ] {
        let envoy = changed(|clusters| *session(&mut clusters[0]) = wrong.clone());
        let message =
            format!("expected <policy>/<scope> with a policy of the filter's configuration (web), found {wrong}");
        assert_one(&envoy, "error", place, &message);
    }
    let typo = changed(|clusters| clusters[0]["metadata"]["filter_metadata"]["limpet"]["scope"] = "blue".into());
    assert_one(
        &typo,
        "warning",
        "clusters[0].metadata.filter_metadata.limpet.scope",
        "expected nothing but session",
    );
}

#[test]
fn a_cluster_need_not_have_a_session() {
    let without = changed(|clusters| drop(clusters[1]["metadata"].take()));
    assert_eq!(findings(&without), (0, Vec::new()));
    let none = changed(|clusters| *session(&mut clusters[1]) = "@none".into());
    assert_eq!(findings(&none), (0, Vec::new()));
    let other = changed(|clusters| clusters[1]["metadata"]["filter_metadata"] = json!({"other": {"session": "any"}}));
    assert_eq!(findings(&other), (0, Vec::new()));
}

#[test]
fn clusters_that_differ_behind_a_hash_may_share_a_session() {
    let named = |blue: &str, green: &str| {
        let text = example("destination.yaml").to_string();
        let text = text.replace("\"blue\"", &format!("\"{blue}\""));
        let text = text.replace("\"green\"", &format!("\"{green}\""));
        with(serde_json::from_str(&text).unwrap(), |clusters| {
            *session(&mut clusters[1]) = session(&mut clusters[0]).clone();
        })
    };
    assert_eq!(findings(&named("shop#1f2e", "shop#3d4c")), (0, Vec::new()));
    let place = "clusters[1].metadata.filter_metadata.limpet.session";
    let expected = "expected a session of the cluster's own: web/blue is the session of blue as well";
    assert_one(&named("blue", "green"), "warning", place, expected);
}

#[test]
fn every_cluster_needs_a_cookie_of_its_own() {
    let place = "clusters[1].metadata.filter_metadata.limpet.session";
    let plain = with_policies(changed(|_| {}), &json!({"web": {"cookie": {"name": "limpet-session"}}}));
    assert_one(
        &plain,
        "warning",
        place,
        "the session web/green has the cookie limpet-session with path /, as web/blue has: a client keeps one such \
         cookie, so each of the two ends the other; perScope: true gives each its own",
    );
    let policies = json!({"web": {"cookie": {"name": "blue"}}, "other": {"cookie": {"name": "green"}}});
    let named = changed(|clusters| *session(&mut clusters[1]) = "other/green".into());
    assert_eq!(findings(&with_policies(named, &policies)), (0, Vec::new()));
    let shared = changed(|clusters| *session(&mut clusters[1]) = "web/blue".into());
    assert_one(
        &shared,
        "warning",
        place,
        "expected a session of the cluster's own: web/blue is the session of blue as well",
    );
}

/// The SHA-256 of both scopes begins with 30ddbfbfb3, the part that names cookies.
#[test]
fn two_scopes_with_one_name_are_found() {
    let two = changed(|clusters| {
        *session(&mut clusters[0]) = "web/s2217717".into();
        *session(&mut clusters[1]) = "web/s3334116".into();
    });
    assert_one(
        &two,
        "warning",
        "clusters[1].metadata.filter_metadata.limpet.session",
        "the session web/s3334116 has the cookie limpet-session~gdo37p5t with path /, as web/s2217717 has",
    );
}

#[test]
fn the_filters_that_steer_are_those_of_the_clusters() {
    let soft = "limpet.stateful_session";
    let off = |envoy: Value| {
        let mut envoy = envoy;
        let route = &mut envoy.pointer_mut(MANAGER).unwrap()["route_config"]["virtual_hosts"][0]["routes"][0];
        route["typed_per_filter_config"] = json!({
            soft: {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true},
        });
        envoy
    };
    assert_one(
        &off(changed(|_| {})),
        "error",
        "routes[0]",
        "expected limpet.stateful_session enabled: the session web/blue is not strict",
    );
    let nobody = changed(|clusters| {
        for cluster in clusters.as_array_mut().unwrap() {
            cluster["metadata"].take();
        }
    });
    assert_eq!(findings(&off(nobody)), (0, Vec::new()));

    let policies = json!({"web": {"cookie": {"name": "blue"}}, "hard": {"cookie": {"name": "green"}, "strict": true}});
    let mut both = with_policies(
        changed(|clusters| *session(&mut clusters[1]) = "hard/green".into()),
        &policies,
    );
    let strict = example("two-policies.yaml").pointer(MANAGER).unwrap()["http_filters"][3].clone();
    let manager = both.pointer_mut(MANAGER).unwrap();
    manager["http_filters"].as_array_mut().unwrap().insert(3, strict);
    assert_one(
        &both,
        "error",
        "routes[0]",
        "expected limpet.stateful_session_strict enabled: the session hard/green is strict",
    );
    let route = &mut both.pointer_mut(MANAGER).unwrap()["route_config"]["virtual_hosts"][0]["routes"][0];
    route["typed_per_filter_config"] = json!({
        "limpet.stateful_session_strict": {
            "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
            "config": {},
        },
    });
    assert_eq!(findings(&both), (0, Vec::new()));
}

#[test]
fn clusters_may_come_from_elsewhere() {
    let mut envoy = example("destination.yaml");
    let clusters = envoy["static_resources"]["clusters"].take();
    let (code, found) = findings(&envoy);
    assert_eq!((code, found.len()), (0, 2), "{found:#?}");
    assert!(
        found[0].starts_with("note") && found[0].contains("not checked: the session of the cluster blue"),
        "{found:#?}"
    );
    let resources: Vec<_> = clusters
        .as_array()
        .unwrap()
        .iter()
        .map(|cluster| {
            let mut cluster = cluster.clone();
            cluster["@type"] = "type.googleapis.com/envoy.config.cluster.v3.Cluster".into();
            *session(&mut cluster) = "shop/any".into();
            cluster
        })
        .collect();
    let (envoy, clusters) = (
        file(".json", &envoy.to_string()),
        file(".json", &json!({"resources": resources}).to_string()),
    );
    limpet(&["check", path(&envoy), path(&clusters)])
        .env("LIMPET_KEY", KEY)
        .run()
        .code(2)
        .says("resources[1].metadata.filter_metadata.limpet.session");
}

/// The route's policy in each of its clusters, which need no metadata.
fn of_route(session: &str, policies: &Value) -> Value {
    let mut envoy = with_policies(changed(|_| {}), policies);
    for cluster in [0, 1] {
        envoy["static_resources"]["clusters"][cluster]["metadata"].take();
    }
    let manager = envoy.pointer_mut(MANAGER).unwrap();
    manager["route_config"]["virtual_hosts"][0]["routes"][0]["metadata"]["filter_metadata"]["limpet"] =
        json!({"session": session});
    envoy
}

#[test]
fn a_routes_policy_may_be_for_each_of_its_clusters() {
    let place = "virtual_hosts[0].routes[0]";
    let per_scope = json!({"web": {"cookie": {"name": "s", "perScope": true}}});
    let good = of_route("@destination/web/shop", &per_scope);
    assert_eq!(findings(&good), (0, Vec::new()));
    let none = |cluster: &mut Value| *cluster = json!({"filter_metadata": {"limpet": {"session": "@none"}}});
    let at_one = with(good.clone(), |clusters| none(&mut clusters[1]["metadata"]));
    assert_eq!(findings(&at_one), (0, Vec::new()));
    assert_one(
        &of_route("@destination/web/shop", &json!({"web": {"cookie": {"name": "s"}}})),
        "warning",
        place,
        "the session web/shop/green has the cookie s with path /, as web/shop/blue has: a client keeps one such \
         cookie, so each of the two ends the other; perScope: true gives each its own",
    );
    assert_one(
        &of_route("@destination/other/shop", &per_scope),
        "error",
        "virtual_hosts[0].routes[0].metadata.filter_metadata.limpet.session",
        "expected <policy>/<scope> with a policy of the filter's configuration (web), found \"@destination/other/shop\"",
    );
    // By the filter's own table of routes.
    let mut listed = of_route("", &per_scope);
    let manager = listed.pointer_mut(MANAGER).unwrap();
    manager["route_config"]["virtual_hosts"][0]["routes"][0]["metadata"].take();
    let value = &mut manager["http_filters"][1]["typed_config"]["config"]["configuration"]["value"];
    let mut config: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
    config["routes"] = json!([{"route": "shop", "policy": "web", "scope": "shop", "perCluster": true}]);
    *value = config.to_string().into();
    assert_eq!(findings(&listed), (0, Vec::new()));
}

#[test]
fn many_cookies_of_a_virtual_host_are_told() {
    for (routes, is_told) in [(20, false), (21, true)] {
        let mut envoy = of_route("web/0", &json!({"web": {"cookie": {"name": "s", "perScope": true}}}));
        let manager = envoy.pointer_mut(MANAGER).unwrap();
        let host = &mut manager["route_config"]["virtual_hosts"][0];
        let all = (0..routes).map(|number| {
            json!({
                "name": format!("r{number}"), "match": {"prefix": format!("/{number}")},
                "metadata": {"filter_metadata": {"limpet": {"session": format!("web/{number}")}}},
                "route": {"cluster": "blue"},
            })
        });
        host["routes"] = all.collect();
        if is_told {
            let expected = "the sessions of this virtual host have 21 cookies, and browsers drop the oldest of a host";
            assert_one(&envoy, "warning", "virtual_hosts[0]", expected);
        } else {
            assert_eq!(findings(&envoy), (0, Vec::new()));
        }
    }
}
