//! The filter (ECDS), the routes (RDS) and the listener (LDS) are replaced while Envoy serves.

use anyhow::{Result, ensure};
use limpet_e2e::{Carrier, Config, Crowd, Envoy, Site, filter_with_both};
use serde_json::json;

fn numbered(config: Config, number: u32) -> Config {
    let headers = json!([{"header": {"key": "x-routes", "value": number.to_string()}}]);
    config
        .filter(&filter_with_both(&json!({"idleTimeout": format!("{number}h")})))
        .route(&json!({"response_headers_to_add": headers}))
        .connection_manager(&json!({"server_name": format!("envoy-{number}")}))
        .quick_drain()
}

async fn until_reloaded(envoy: &Envoy, number: u32) -> Result<()> {
    let (routes, server) = (number.to_string(), format!("envoy-{number}"));
    envoy
        .until_every_worker(&format!("has the new routes and listener {number}"), |answer| {
            answer.header("x-routes") == Some(&*routes) && answer.header("server") == Some(&*server)
        })
        .await?;
    let filter = "extension_config_discovery.http_filter.limpet.config_reload";
    envoy.until_stat(filter, u64::from(number)).await
}

async fn until_drained(envoy: &Envoy) -> Result<()> {
    for draining in ["total_filter_chains_draining", "total_listeners_draining"] {
        envoy.until_stat(&format!("listener_manager.{draining}"), 0).await?;
    }
    Ok(())
}

#[tokio::test]
async fn reloads_fail_no_request_and_move_no_session() -> Result<()> {
    let config = Config::load("ecds.yaml")?.both_carriers(&json!({}));
    let config = numbered(config, 1).discover_routes().discover_listeners();
    let Site {
        backends: _kept,
        mut envoy,
    } = Site::start(config).await?;
    let crowd = Crowd::gather(24, &Carrier::ALL, &[envoy.address()]).await?;
    for number in 2..=4 {
        envoy.update(|config| numbered(config, number))?;
        until_reloaded(&envoy, number).await?;
        // A change outside its filter chains makes another listener, which takes over the sockets.
        let buffers = json!({"per_connection_buffer_limit_bytes": 100_000 + number});
        envoy.update(|config| config.change_listener(&buffers))?;
        envoy
            .until_stat("listener_manager.listener_modified", u64::from(number - 1) * 2)
            .await?;
    }
    until_drained(&envoy).await?;
    crowd.rounds(3).await?;
    let in_place = envoy.stat("listener_manager.listener_in_place_updated").await?;
    ensure!(in_place == 3, "{in_place} updates of the filter chains alone");
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()
}
