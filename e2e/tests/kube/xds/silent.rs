//! Clients without a certificate that connect and send nothing, beside stock Envoys.

use limpet_xds::ServerSecurity;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use super::rotation::{envoy, files};
use super::*;

/// More than all handshakes that may be under way.
const SILENT: usize = 1000;

async fn keep_silent(server: SocketAddr) -> Result<()> {
    loop {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 2], 0)))?;
        let mut stream = socket.connect(server).await?;
        // Nothing comes: the server ends it.
        let _ = stream.read(&mut [0; 1]).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn silent_connections_delay_no_envoy() -> Result<()> {
    let site = XdsSite::new()?;
    let authority = Authority::new("authority")?;
    let directory = TempDir::new()?;
    let files = files(&directory, &authority)?;
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let control_plane = ControlPlane::start_at(anywhere, ServerSecurity::MutualTls(files)).await?;
    control_plane.publish(&site.resources);
    let _first = envoy(&control_plane, "first", Some(&authority.sign("first")?), &authority).await?;
    control_plane.until_settled(1).await?;

    let mut silent = JoinSet::new();
    for _ in 0..SILENT {
        silent.spawn(keep_silent(control_plane.address));
    }
    let turned_away = || {
        control_plane
            .snapshots
            .turned_away()
            .iter()
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    let many = async || (turned_away() > SILENT as u64).then_some(());
    poll::until("the server to turn away the silent", many).await?;

    // A new Envoy gets in, and the old one gets changes.
    let _second = envoy(&control_plane, "second", Some(&authority.sign("second")?), &authority).await?;
    control_plane.until_settled(2).await?;
    let other = resources::routes("routes", "a", true);
    assert!(control_plane.snapshots.publish_one(GROUP, other));
    control_plane.until_settled(2).await?;
    assert!(silent.try_join_next().is_none(), "an attacker gave up");
    Ok(())
}
