//! An Envoy that discovers only a filter (ECDS), and gets the rest from elsewhere.

use limpet_resources::ResourceType;
use limpet_xds::ServerSecurity;
use serde_json::{Value, json};

use super::control_plane::{api_config, socket_address, xds_cluster};
use super::*;

/// Without the discovered filter, requests pass unchanged.
fn bootstrap(server: SocketAddr, api_type: &str, backend: SocketAddr) -> Value {
    let filter = "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation";
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.\
            HttpConnectionManager",
        "stat_prefix": "web",
        "route_config": {"virtual_hosts": [{
            "name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "a"}}],
        }]},
        "http_filters": [
            {"name": "greeting", "config_discovery": {
                "config_source": {"api_config_source": api_config(api_type), "resource_api_version": "V3"},
                "type_urls": [filter],
                "default_config": {"@type": filter},
                "apply_default_config_without_warming": true,
            }},
            {"name": "router", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            }},
        ],
    });
    let anywhere = socket_address(SocketAddr::from(([127, 0, 0, 1], 0)));
    json!({
        "node": {"id": "envoy", "cluster": GROUP},
        "admin": {"address": anywhere},
        "static_resources": {
            "listeners": [{
                "name": "web",
                "address": anywhere,
                "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
            }],
            "clusters": [xds_cluster(server, &Value::Null), {
                "name": "a",
                "load_assignment": {
                    "cluster_name": "a",
                    "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket_address(backend)}}]}],
                },
            }],
        },
    })
}

#[tokio::test]
async fn a_single_filter_is_served_and_envoy_runs_without_it() -> Result<()> {
    for api_type in BOTH {
        let backend = Backend::start("a")?;
        // Nothing listens on this port yet.
        let control_plane = ControlPlane::start().await?;
        let address = control_plane.address;
        control_plane.stop().await?;
        let mut envoy = Proxy::start(&bootstrap(address, api_type, backend.address()).to_string(), &[]).await?;
        envoy.until_ready().await?;
        let web = envoy.listener("web").await?;
        let answer = Request::get(web, "/").send().await?;
        assert_eq!(
            (answer.backend(), answer.header("x-filter")),
            (Some("a"), None),
            "without a server"
        );

        let control_plane = ControlPlane::start_at(address, ServerSecurity::PlaintextOnLoopback).await?;
        let status = control_plane.snapshots.status();
        let greeting = resources::filter("greeting", "one");
        let version = greeting.version();
        // The group has more resources than this Envoy asks for.
        let others = [
            resources::filter("another", "two"),
            resources::cluster("a", CONNECT_TIMEOUT),
        ];
        control_plane.publish(&others.into_iter().chain([greeting]).collect());
        poll::until("the filter", async || {
            let answer = Request::get(web, "/").send().await.ok()?;
            (answer.header("x-filter") == Some("one")).then_some(())
        })
        .await?;
        control_plane.until_settled(1).await?;
        let progress = status.progress(GROUP, ResourceType::ExtensionConfig, "greeting", version);
        assert_eq!(progress.acknowledged, 1);
        let progress = status.progress(GROUP, ResourceType::ExtensionConfig, "another", version);
        assert_eq!((progress.unsubscribed, progress.nodes()), (1, 1));
    }
    Ok(())
}
