//! The table of docs/reference/envoy-configuration.md: clusters in which Envoy can lead a session to its endpoint.

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Config, Site, tools};
use serde_json::{Value, json};

const EXTENSIONS: &str = "type.googleapis.com/envoy.extensions";

fn with(mut object: Value, fields: &Value) -> Value {
    if let (Some(object), Some(fields)) = (object.as_object_mut(), fields.as_object()) {
        object.extend(fields.clone());
    }
    object
}

fn cluster(name: &str, fields: &Value) -> Value {
    with_endpoints(name, &all(&json!({})), fields)
}

fn with_endpoints(name: &str, localities: &Value, fields: &Value) -> Value {
    let cluster = json!({
        "name": name,
        "type": "STATIC",
        "lb_policy": "ROUND_ROBIN",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": localities},
    });
    with(cluster, fields)
}

fn endpoint(port: u16, fields: &Value) -> Value {
    let address = json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    with(json!({"endpoint": {"address": address}}), fields)
}

fn all(fields: &Value) -> Value {
    let endpoints = [8081, 8082, 8083].map(|port| endpoint(port, fields));
    json!([{"lb_endpoints": endpoints}])
}

fn provided(name: &str, extension: &str, config: &Value) -> Value {
    let typed = json!({"@type": format!("{EXTENSIONS}.clusters.{extension}.v3.ClusterConfig")});
    let typed = with(typed, config);
    json!({
        "name": name,
        "connect_timeout": "5s",
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": {"name": format!("envoy.clusters.{extension}"), "typed_config": typed},
    })
}

fn policy(kind: &str, config: &Value) -> Value {
    let (extension, message) = kind.split_once('.').unwrap_or_default();
    let typed = json!({"@type": format!("{EXTENSIONS}.load_balancing_policies.{extension}.v3.{message}")});
    let typed = with(typed, config);
    let name = format!("envoy.load_balancing_policies.{extension}");
    json!({"policies": [{"typed_extension_config": {"name": name, "typed_config": typed}}]})
}

fn statuses(listed: &Value) -> Value {
    json!({"common_lb_config": {"override_host_status": {"statuses": listed}}})
}

fn is_new() -> Result<bool> {
    Ok(tools::envoy_version()? >= (1, 40))
}

/// Clusters in which each request of a session gets to its endpoint.
fn steering() -> Result<Vec<Value>> {
    let by_policy = |name, policy: Value| cluster(name, &json!({"load_balancing_policy": policy, "lb_policy": null}));
    let round_robin = policy("round_robin.RoundRobin", &json!({}));
    let reporting = policy(
        "client_side_weighted_round_robin.ClientSideWeightedRoundRobin",
        &json!({}),
    );
    let zones = json!([
        {"locality": {"zone": "a"}, "load_balancing_weight": 1, "lb_endpoints": [endpoint(8081, &json!({}))]},
        {"locality": {"zone": "b"}, "load_balancing_weight": 2, "lb_endpoints": [endpoint(8082, &json!({}))]},
    ]);
    let mut clusters = vec![
        cluster("static", &json!({})),
        cluster("least-request", &json!({"lb_policy": "LEAST_REQUEST"})),
        cluster("random", &json!({"lb_policy": "RANDOM"})),
        cluster("ring-hash", &json!({"lb_policy": "RING_HASH"})),
        cluster("maglev", &json!({"lb_policy": "MAGLEV"})),
        cluster("strict-dns", &json!({"type": "STRICT_DNS"})),
        by_policy("round-robin", round_robin.clone()),
        by_policy("reporting", reporting.clone()),
        by_policy(
            "override-host",
            policy(
                "override_host.OverrideHost",
                &json!({
                    "override_host_sources": [{"header": "x-none"}],
                    "fallback_policy": round_robin,
                }),
            ),
        ),
        by_policy(
            "subset",
            policy(
                "subset.Subset",
                &json!({
                    "subset_lb_policy": round_robin,
                    "subset_selectors": [{"keys": ["version"]}],
                    "fallback_policy": "ANY_ENDPOINT",
                }),
            ),
        ),
        with_endpoints(
            "localities",
            &zones,
            &json!({"common_lb_config": {"locality_weighted_lb_config": {}}}),
        ),
        with_endpoints("degraded", &all(&json!({"health_status": "DEGRADED"})), &json!({})),
        with_endpoints(
            "panic-with-status",
            &all(&json!({"health_status": "UNHEALTHY"})),
            &statuses(&json!(["UNKNOWN", "HEALTHY", "DEGRADED", "UNHEALTHY"])),
        ),
    ];
    if is_new()? {
        let picking = json!({"endpoint_picking_policy": reporting});
        clusters.push(by_policy(
            "weighted-localities",
            policy("wrr_locality.WrrLocality", &picking),
        ));
    }
    Ok(clusters)
}

fn not_steering() -> Result<Vec<Value>> {
    let mut clusters = vec![
        provided("aggregate", "aggregate", &json!({"clusters": ["static", "strict-dns"]})),
        with_endpoints("panic", &all(&json!({"health_status": "UNHEALTHY"})), &json!({})),
        with_endpoints("draining", &all(&json!({"health_status": "DRAINING"})), &json!({})),
        with_endpoints("timeout", &all(&json!({"health_status": "TIMEOUT"})), &json!({})),
        cluster("no-status", &statuses(&json!([]))),
        cluster("unknown-left-out", &statuses(&json!(["HEALTHY"]))),
        with_endpoints(
            "healthy-left-out",
            &all(&json!({"health_status": "HEALTHY"})),
            &statuses(&json!(["UNKNOWN"])),
        ),
    ];
    if is_new()? {
        clusters.push(provided(
            "composite",
            "composite",
            &json!({"clusters": [{"name": "static"}]}),
        ));
    }
    Ok(clusters)
}

fn name(cluster: &Value) -> Result<&str> {
    cluster["name"].as_str().context("no name")
}

#[tokio::test]
async fn a_cluster_steered_other_than_the_table_says() -> Result<()> {
    let (steering, others) = (steering()?, not_steering()?);
    let clusters: Vec<&Value> = steering.iter().chain(&others).collect();
    let routes: Vec<Value> = clusters
        .iter()
        .map(|cluster| {
            let name = &cluster["name"];
            let path = format!("/{}/", name.as_str().unwrap_or_default());
            json!({"name": name, "match": {"prefix": path}, "route": {"cluster": name}})
        })
        .collect();
    let config = Config::load("cookie.yaml")?.routes(routes.into()).alone();
    let site = Site::start(config.edit(|bootstrap| {
        bootstrap["static_resources"]["clusters"] = json!(clusters);
    }))
    .await?;
    for cluster in clusters {
        let name = name(cluster)?;
        let mut moves = Vec::new();
        for _ in 0..3 {
            let mut visitor = site.visitor();
            let path = format!("/{name}/");
            let first = visitor.get(&path).await?;
            ensure!(!first.set_cookies().is_empty(), "{name}: no session began");
            for _ in 0..5 {
                let answer = visitor.get(&path).await?;
                moves.push(answer.backend() != first.backend());
            }
        }
        let any = moves.contains(&true);
        ensure!(
            any == others.contains(cluster),
            "{name}: which requests moved: {moves:?}"
        );
    }
    Ok(())
}
