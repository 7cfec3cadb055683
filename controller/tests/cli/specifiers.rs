//! Cluster specifiers: `split-specifier.yaml` with one change.

use serde_json::{Value, json};

use crate::{KEY, assert_one, example, file, findings, limpet, path};

const ROUTE: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config\
                     /route_config/virtual_hosts/0/routes/0";
const CONFIG: &str = "specifier_config";

fn routed(change: impl FnOnce(&mut Value)) -> Value {
    let mut envoy = example("split-specifier.yaml");
    change(envoy.pointer_mut(ROUTE).unwrap());
    envoy
}

fn plugin(route: &mut Value) -> &mut Value {
    &mut route["route"]["inline_cluster_specifier_plugin"]["extension"]["typed_config"]
}

fn to(destinations: &Value) -> Value {
    routed(|route| plugin(route)[CONFIG]["value"] = json!({"destinations": destinations}).to_string().into())
}

#[test]
fn a_route_without_a_specifier_leads_nobody() {
    for change in [
        |route: &mut Value| route["route"] = json!({"cluster": "shop-v1"}),
        |route: &mut Value| plugin(route)["@type"] = "x/other.Specifier".into(),
    ] {
        let message = "@specifier/web/shop: nothing leads a session to its cluster: expected the type";
        assert_one(&routed(change), "error", "routes[0]", message);
    }
}

#[test]
fn what_the_module_refuses_of_a_specifier_is_an_error() {
    let none = routed(|route| drop(plugin(route).as_object_mut().unwrap().remove(CONFIG)));
    assert_one(
        &none,
        "error",
        "typed_config",
        "expected the destinations in specifier_config",
    );
    let cases = [
        (json!([]), "destinations", "expected at least one cluster"),
        (
            json!([{"cluster": "shop-v1", "weight": 0}]),
            "destinations",
            "expected weights whose sum is 1 to 4294967295, found 0",
        ),
        (
            json!([{"cluster": "shop-v1", "weight": -1}]),
            "destinations[0].weight",
            "invalid value: integer `-1`, expected a whole number",
        ),
        (
            json!([{"cluster": "", "weight": 1}]),
            "destinations[0].cluster",
            "expected the name of a cluster",
        ),
        (
            json!([{"cluster": "shop-v1", "weight": 1}, {"cluster": "shop-v1", "weight": 1}]),
            "destinations[1].cluster",
            "expected a cluster that tokens can tell from shop-v1, found shop-v1",
        ),
        (
            json!([{"cluster": "shop-v1", "weight": 1, "wait": 1}]),
            "destinations[0].wait",
            "unknown field",
        ),
    ];
    for (destinations, field, message) in cases {
        let told = format!("{field} | {message}");
        assert_one(
            &to(&destinations),
            "error",
            "typed_config.specifier_config.value",
            &told,
        );
    }
}

#[test]
fn a_cluster_that_envoy_does_not_have_gets_a_warning() {
    let destinations = json!([{"cluster": "shop-v1", "weight": 1}, {"cluster": "shop-v3", "weight": 1}]);
    let unknown = to(&destinations);
    assert_one(
        &unknown,
        "warning",
        "routes[0]",
        "expected a cluster named \"shop-v3\", found none",
    );
    let mut discovered = unknown;
    discovered["dynamic_resources"]["cds_config"] = json!({"ads": {}});
    assert_one(
        &discovered,
        "note",
        "route_config",
        "clusters that Envoy gets from elsewhere: shop-v3",
    );
}

/// The controller sends a missing backend's share to a cluster that does not exist.
#[test]
fn the_cluster_that_is_nowhere_is_not_expected() {
    let destinations = json!([{"cluster": "shop-v1", "weight": 1}, {"cluster": "limpet.nowhere", "weight": 1}]);
    assert_eq!(findings(&to(&destinations)), (0, Vec::new()));
}

#[test]
fn a_specifier_needs_a_newer_envoy_than_the_module() {
    let file = file(".json", &example("split-specifier.yaml").to_string());
    for (version, code) in [("v1.38", 2), ("1.39.3", 2), ("1.40", 0), ("1.41", 0)] {
        let ran = limpet(&["check", path(&file), "--envoy-version", version])
            .env("LIMPET_KEY", KEY)
            .run();
        let ran = ran.code(code);
        let is_told = ran.stdout.contains("an older one refuses the route configuration");
        assert_eq!(is_told, code == 2, "{ran:?}");
    }
}

#[test]
fn the_metadata_of_a_specifiers_clusters_are_read() {
    let named = |session: &str| {
        let mut envoy = example("split-specifier.yaml");
        envoy["static_resources"]["clusters"][1]["metadata"] =
            json!({"filter_metadata": {"limpet": {"session": session}}});
        envoy
    };
    assert_eq!(findings(&named("@none")), (0, Vec::new()));
    assert_one(
        &named("none"),
        "error",
        "clusters[1].metadata.filter_metadata.limpet.session",
        "expected @none or <policy>/<scope>",
    );
}
