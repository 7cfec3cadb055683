//! Clients that connect and say nothing, or cannot say who they are.

use tokio::net::TcpStream;

use super::site::Site;
use super::*;

/// More than all handshakes that may be under way.
const SILENT: usize = 1000;

#[tokio::test]
async fn silent_connections_keep_no_envoy_out() {
    let site = Site::new();
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    let server = site.server(&snapshots).await;
    let certificates = server.certificates();
    let roles = || {
        certificates
            .in_use()
            .into_iter()
            .map(|used| used.role)
            .collect::<Vec<_>>()
    };
    assert_eq!(roles(), [CertificateRole::Server, CertificateRole::Authority]);
    let running = run(server);
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    let endpoint = site.endpoint(running.address, "envoy.example");
    let _client = Client::connect_by(endpoint, asks_for("one", &[])).await;
    let mut status = snapshots.status();
    while status.connected(GROUP) == 0 {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
    assert_eq!(roles().last(), Some(&CertificateRole::Client));
    let away = snapshots.turned_away().into_iter().map(|(_, count)| count).sum::<u64>();
    assert!(away > 0, "{:?}", snapshots.turned_away());
    drop(silent);
}

/// More than an address may have.
const GREEDY: usize = 300;

#[tokio::test]
async fn connections_with_one_certificate_kept_out_another_one_at_their_address() {
    let site = Site::new();
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    let running = run(site.server(&snapshots).await);
    let greedy = site.endpoint(running.address, "greedy.example");
    let mut first = Client::connect_by(greedy.clone(), asks_for("greedy", &[])).await;
    let mut status = snapshots.status();
    while status.connected(GROUP) == 0 {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
    let mut others = Vec::new();
    for _ in 1..GREEDY {
        others.extend(greedy.connect().await);
    }
    let modest = site.endpoint(running.address, "modest.example");
    let _modest = Client::connect_by(modest, asks_for("modest", &[])).await;
    while status.nodes(GROUP).iter().all(|node| &*node.id != "modest") {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
    let end = loop {
        if let Err(status) = first.message().await {
            break status;
        }
    };
    assert_eq!(end.code(), Code::Unavailable, "{end}");
    while status.nodes(GROUP).len() > 1 {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
}

#[tokio::test]
async fn a_permission_sees_who_asks_and_for_what() {
    let site = Site::new();
    let snapshots = Snapshots::new();
    let permission = Permission::new(|peer, group| {
        let names = peer.identity.as_ref().map(|identity| identity.dns_names.as_slice());
        match names {
            Some([name]) if name == "web.example" && group == GROUP => Ok(()),
            _ => Err(format!("{group} is not yours")),
        }
    });
    let running = run(site.server(&snapshots).await.with_permission(permission));
    let stranger = site.endpoint(running.address, "other.example");
    let mut stranger = Client::connect_by(stranger, asks_for("one", &[])).await;
    let refusal = stranger.message().await.unwrap_err();
    assert_eq!(
        (refusal.code(), refusal.message()),
        (Code::PermissionDenied, "default/web is not yours")
    );
    assert!(snapshots.status().groups().is_empty());
    let own = site.endpoint(running.address, "web.example");
    let _client = Client::connect_by(own, asks_for("one", &[])).await;
    let mut status = snapshots.status();
    while status.connected(GROUP) == 0 {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
}
