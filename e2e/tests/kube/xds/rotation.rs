//! Mutual TLS, with certificates that change while Envoys are connected.

use std::path::Path;

use limpet_xds::{ServerSecurity, TlsFiles};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::certificates::Certificate;

const SERVER: &str = "limpet.example";

/// The authority signs the server's certificate and its clients'.
pub(super) fn files(directory: &TempDir, authority: &Authority) -> Result<TlsFiles> {
    let file = |name| directory.path().join(name);
    let files = TlsFiles {
        certificate: file("tls.crt"),
        key: file("tls.key"),
        client_ca: file("ca.crt"),
    };
    write(&files, &authority.sign(SERVER)?, authority)?;
    Ok(files)
}

fn write(files: &TlsFiles, server: &Certificate, authority: &Authority) -> Result<()> {
    // Each file is replaced as a whole, as in a mounted Secret.
    for (file, text) in [
        (&files.certificate, &server.certificate),
        (&files.key, &server.key),
        (&files.client_ca, &authority.certificate),
    ] {
        put(file, text)?;
    }
    Ok(())
}

fn put(file: &Path, text: &str) -> Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    Ok(std::fs::rename(new, file)?)
}

pub(super) async fn envoy(
    control_plane: &ControlPlane,
    id: &str,
    own: Option<&Certificate>,
    trusts: &Authority,
) -> Result<Proxy> {
    let inline = |text: &str| json!({"inline_string": text});
    let mut common = json!({"validation_context": {
        "trusted_ca": inline(&trusts.certificate),
        "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": SERVER}}],
    }});
    if let Some(own) = own {
        let certificate = json!({"certificate_chain": inline(&own.certificate), "private_key": inline(&own.key)});
        common["tls_certificates"] = json!([certificate]);
    }
    let socket = json!({"name": "tls", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": common,
        "sni": SERVER,
    }});
    let mut bootstrap: Value = bootstrap(control_plane.address, "DELTA_GRPC", &socket);
    bootstrap["node"]["id"] = id.into();
    Proxy::start(&bootstrap.to_string(), &[]).await
}

#[tokio::test]
async fn certificates_change_while_envoys_are_connected() -> Result<()> {
    let site = XdsSite::new()?;
    let (old, new) = (Authority::new("old")?, Authority::new("new")?);
    let directory = TempDir::new()?;
    let files = files(&directory, &old)?;
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let control_plane = ControlPlane::start_at(anywhere, ServerSecurity::MutualTls(files.clone())).await?;
    control_plane.publish(&site.resources);
    let status = control_plane.snapshots.status();

    let first = envoy(&control_plane, "first", Some(&old.sign("first")?), &old).await?;
    control_plane.until_settled(1).await?;
    // No Envoy connects without a certificate, or with another authority's.
    for own in [None, Some(&new.sign("stranger")?)] {
        let stranger = envoy(&control_plane, "stranger", own, &old).await?;
        let refused = async || (stranger.admin().stat("cluster.xds.upstream_cx_total").await.ok()? > 2).then_some(());
        poll::until("Envoy to have tried several times", refused).await?;
        assert_eq!(status.connected(GROUP), 1);
    }

    write(&files, &new.sign(SERVER)?, &new)?;
    // For a while, both authorities are trusted.
    put(&files.client_ca, &[old.certificate.as_str(), &new.certificate].concat())?;
    let second = envoy(&control_plane, "second", Some(&new.sign("second")?), &new).await?;
    control_plane.until_settled(2).await?;

    // A file that is not a key: the server keeps using the last good certificates.
    put(&files.key, "no key")?;
    let third = envoy(&control_plane, "third", Some(&new.sign("third")?), &new).await?;
    control_plane.until_settled(3).await?;

    // The first Envoy got all updates over one connection.
    assert_eq!(first.admin().stat("cluster.xds.upstream_cx_total").await?, 1);
    assert!(
        control_plane
            .snapshots
            .publish_one(GROUP, resources::endpoints("a", &[site.backends[1].address()]))
    );
    for envoy in [&first, &second, &third] {
        site.until_from(envoy.listener("web").await?, "b").await?;
    }
    Ok(())
}
