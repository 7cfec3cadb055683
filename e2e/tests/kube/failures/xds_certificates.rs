//! The certificates of xDS are replaced while an Envoy runs.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Proxy, Release};
use limpet_e2e::tools;
use serde_json::json;
use tempfile::TempDir;

use super::wire::Wire;
use super::{crowd, nothing_happened, objects, redirect, until_programmed, until_redirected, until_sessions};
use crate::certificates::Authority;

const HOST: &str = "controller.limpet";

/// A Secret of this authority as a kubelet mounts it: the files are links into a folder that is replaced as a whole.
fn mount(folder: &Path, version: &str, authority: &Authority) -> Result<()> {
    let made = authority.sign(HOST)?;
    let files = [
        ("ca.crt", &authority.certificate),
        ("tls.crt", &made.certificate),
        ("tls.key", &made.key),
    ];
    let content = folder.join(format!("..{version}"));
    fs::create_dir_all(&content)?;
    for (name, text) in files {
        fs::write(content.join(name), text)?;
    }
    symlink(format!("..{version}"), folder.join("..data_tmp"))?;
    fs::rename(folder.join("..data_tmp"), folder.join("..data"))?;
    for (name, _) in files {
        if !folder.join(name).exists() {
            symlink(Path::new("..data").join(name), folder.join(name))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_envoy_reconnects_with_a_new_certificate() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("renewed").await?;
    let _pods = objects(&namespace).await?;
    let folder = TempDir::with_prefix("limpet-e2e-")?;
    let [server, client, etc] = ["server", "client", "etc"].map(|name| folder.path().join(name));
    let (old, new) = (Authority::new("old")?, Authority::new("new")?);
    mount(&server, "1", &old)?;
    mount(&client, "1", &old)?;
    let controller = Controller::start(cluster.server(), &namespace, |config| {
        let files = |name: &str| server.join(name).display().to_string();
        let tls = json!({"certificate": files("tls.crt"), "key": files("tls.key"), "clientCa": files("ca.crt")});
        config["xds"] = json!({"address": config["xds"]["address"], "tls": tls});
    })
    .await?;
    let way = SocketAddr::new(namespace.next_address()?, 18000);
    let mut wire = Wire::lay(way, controller.xds()).await?;

    let (gateway, way) = (format!("{}/web", namespace.name()), way.to_string());
    let files = |name: &str| client.join(name).display().to_string();
    let (ca, certificate, key) = (files("ca.crt"), files("tls.crt"), files("tls.key"));
    let etc_name = etc.display().to_string();
    let mut arguments = vec![
        "controller",
        "bootstrap",
        "--gateway",
        &gateway,
        "--xds",
        &way,
        "--node-id",
        "one",
    ];
    arguments.extend(["--admin-port", "0", "--server-name", HOST]);
    arguments.extend([
        "--ca",
        &ca,
        "--certificate",
        &certificate,
        "--key",
        &key,
        "--folder",
        &etc_name,
    ]);
    let output = tools::run_limpet(&arguments, &[])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kek = controller.key_encryption_key();
    let bootstrap = fs::read_to_string(etc.join("envoy.yaml"))?;
    let mut envoy = Proxy::start(&bootstrap, &[(&kek.variable, &kek.key)]).await?;
    envoy.until_ready().await?;
    until_sessions(&controller).await?;
    until_programmed(&namespace, "web", "True/Programmed").await?;
    let crowd = crowd(&controller).await?;

    // Neither side accepts the other's old certificate any more.
    mount(&server, "2", &new)?;
    mount(&client, "2", &new)?;
    wire.cut().await;
    until_programmed(&namespace, "web", "False/Pending").await?;
    wire.mend().await?;
    namespace.apply(&redirect("renewed")).await?;
    until_redirected(&controller, "/renewed", true).await?;
    until_programmed(&namespace, "web", "True/Programmed").await?;
    nothing_happened(crowd).await
}
