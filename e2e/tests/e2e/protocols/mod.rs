mod bodies;
mod connections;
pub(crate) mod events;
mod expect_continue;
pub(crate) mod grpc;
mod memory;
mod methods;
mod parallel;
mod resets;
mod trailers;
mod versions;
pub(crate) mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
pub(crate) use limpet_e2e::protocols::Session;
use limpet_e2e::protocols::{Chat, Echo};
use limpet_e2e::{Carrier, Config, Protocol, Site, filter_with, poll};

/// The configuration for streams that people copy, and a second listener for sessions in a header.
fn config() -> Result<Config> {
    let by_header = filter_with(&Carrier::Header.policy());
    Ok(Config::load("streams.yaml")?.another_listener("header", &by_header))
}

/// Its backends speak all protocols that are tested here.
pub(crate) async fn site() -> Result<Site> {
    start(config()?).await
}

async fn start(config: Config) -> Result<Site> {
    let protocols: [Arc<dyn Protocol>; 2] = [Arc::new(Echo), Arc::new(Chat)];
    Site::start_speaking(config, &protocols).await
}

pub(crate) fn address(site: &Site, carrier: Carrier) -> Result<SocketAddr> {
    match carrier {
        Carrier::Cookie => Ok(site.envoy.address()),
        Carrier::Header => site.envoy.listener("header"),
    }
}

async fn until_idle(site: &Site) -> Result<()> {
    poll::until("all streams to end", async || {
        let gauges = site
            .envoy
            .stats("^(http.web.downstream|cluster.backends.upstream)_rq_active$")
            .await
            .ok()?;
        let quiet = gauges.len() == 2 && gauges.values().all(|streams| *streams == 0);
        let idle = site.backends.iter().all(|backend| backend.under_way() == 0);
        (quiet && idle).then_some(())
    })
    .await
}
