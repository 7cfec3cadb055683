//! An Envoy configured over ADS by the controller's own server.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Backend, Config, Envoy, Request, poll};
use limpet_model::Graph;
use limpet_outputs::envoy::{BootstrapOptions, bootstrap, served};
use limpet_outputs::json;
use limpet_xds::{Server, ServerOptions, ServerSecurity, Snapshots};

use super::graphs::{gateway, listener, listening, to, with_session};
use super::{LIMITS, assignments, inputs};

/// A listener on any free port, with one rule and these weights.
fn rules(v1: u32, v2: u32) -> Graph {
    let rule = with_session("", "web", vec![to("v1", v1), to("v2", v2)]);
    listening([(0, vec![listener("http", "", vec![rule])])].into())
}

#[tokio::test]
async fn a_change_of_weights_over_xds_moves_no_session() -> Result<()> {
    let snapshots = Snapshots::new();
    let options = ServerOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        security: ServerSecurity::PlaintextOnLoopback,
    };
    let server = Server::bind(options, snapshots.clone()).await?;
    let controller = server.address();
    tokio::spawn(server.serve(std::future::pending()));
    let (v1, v2) = (
        [Backend::start("v1/a")?, Backend::start("v1/b")?],
        [Backend::start("v2/a")?],
    );
    let endpoints: [(&str, &[Backend]); 2] = [("v1", &v1), ("v2", &v2)];
    let publish = |graph: &Graph| -> Result<()> {
        let mut all = served(graph, &gateway(), &super::options()?, &inputs());
        all.extend(assignments(&endpoints));
        snapshots.publish(&gateway().to_string(), all);
        Ok(())
    };
    publish(&rules(1, 0))?;
    let bootstrap = bootstrap(&BootstrapOptions {
        gateway: gateway(),
        node_id: Some("envoy-1".to_owned()),
        controller_host: controller.ip().to_string(),
        controller_port: controller.port(),
        tls: None,
        admin_port: 0,
        ready: (Ipv4Addr::LOCALHOST, 0).into(),
        metrics: None,
        limits: LIMITS,
    });
    let envoy = Envoy::serve(Config::made(json::typed(&bootstrap)?)).await?;
    let get = || envoy.listener("http-0").map(|address| Request::get(address, "/"));
    let first = get()?.send().await?;
    let token = first.set_cookie("web").context("the answer sets no cookie")?.value;
    ensure!(first.backend().is_some_and(|backend| backend.starts_with("v1/")));
    publish(&rules(0, 1))?;
    poll::until("new clients to go to v2", async || {
        let answer = get().ok()?.send().await.ok()?;
        (answer.backend() == Some("v2/a")).then_some(())
    })
    .await?;
    for _ in 0..20 {
        let answer = get()?.cookie(format!("web={token}")).send().await?;
        assert_eq!(answer.backend(), first.backend());
    }
    Ok(())
}
