//! The server restarts: Envoy keeps serving, and gets nothing that it already has.

use super::*;
use limpet_xds::ServerSecurity;

#[tokio::test]
async fn a_restarted_server_sends_nothing_that_envoy_already_has() -> Result<()> {
    for api_type in BOTH {
        let site = XdsSite::new()?;
        let control_plane = ControlPlane::start().await?;
        control_plane.publish(&site.resources);
        let mut envoy = control_plane.envoy(api_type).await?;
        envoy.until_ready().await?;
        let web = envoy.listener("web").await?;
        control_plane.until_settled(1).await?;
        let before = updates(&envoy).await?;

        let address = control_plane.address;
        control_plane.stop().await?;
        envoy.admin().until_stat("control_plane.connected_state", 0).await?;
        assert_eq!(site.get(web).await?.backend(), Some("a"), "without a server");

        // The new server has no resources at first.
        let control_plane = ControlPlane::start_at(address, ServerSecurity::PlaintextOnLoopback).await?;
        let status = control_plane.snapshots.status();
        poll::until("Envoy to reconnect", async || {
            (status.connected(GROUP) == 1).then_some(())
        })
        .await?;
        assert_eq!(
            site.get(web).await?.backend(),
            Some("a"),
            "without resources in the server"
        );
        control_plane.publish(&site.resources);
        control_plane.until_settled(1).await?;
        assert_eq!(updates(&envoy).await?, before, "{api_type}");
        assert!(control_plane.snapshots.counts().0.iter().all(|counts| counts.sent == 0));

        let address = control_plane.address;
        control_plane.stop().await?;
        let control_plane = ControlPlane::start_at(address, ServerSecurity::PlaintextOnLoopback).await?;
        let mut resources = site.resources.clone();
        resources.insert(resources::endpoints("a", &[site.backends[1].address()]));
        control_plane.publish(&resources);
        site.until_from(web, "b").await?;
        control_plane.until_settled(1).await?;
    }
    Ok(())
}
