//! The commands that a kubelet runs in the Envoy of `controller/deploy/envoy/envoy.yaml`.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Config, Envoy, Site, poll, tools};
use serde_json::Value;

/// A shell command of the Envoy container, for this Envoy instead. It waits for nobody.
fn command(place: &str, envoy: &Envoy) -> Result<Command> {
    let manifests = std::fs::read_to_string(tools::checkout().join("controller/deploy/envoy/envoy.yaml"))?;
    let text = manifests
        .split("\n---\n")
        .filter_map(|manifest| serde_saphyr::from_str::<Value>(manifest).ok())
        .find_map(|manifest| {
            let container = manifest.pointer("/spec/template/spec/containers/0")?;
            container.pointer(place)?.get(2)?.as_str().map(str::to_owned)
        })
        .with_context(|| format!("no command at {place}"))?;
    let port = "/127.0.0.1/19000";
    ensure!(text.contains(port), "{text}");
    let text = text
        .replace(port, &format!("/127.0.0.1/{}", envoy.admin().port()))
        .replace("sleep 30", "true");
    let mut command = Command::new("bash");
    command.args(["-c", &text]);
    Ok(command)
}

#[tokio::test]
async fn the_readiness_probe_tells_a_live_envoy_from_a_dead_one() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut probe = command("/readinessProbe/exec/command", &site.envoy)?;
    let ready = probe.output()?;
    ensure!(ready.status.success(), "{ready:?}");
    drop(site);
    let gone = probe.output()?;
    ensure!(!gone.status.success(), "{gone:?}");
    Ok(())
}

#[tokio::test]
async fn the_pre_stop_command_sends_clients_away() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let before = site.envoy.get("/").send().await?;
    assert_eq!(before.header("connection"), None);
    let drained = command("/lifecycle/preStop/exec/command", &site.envoy)?.output()?;
    ensure!(drained.status.success(), "{drained:?}");
    // Of the answers, Envoy chooses more and more for it as its drain time goes by.
    poll::patiently("an answer that closes its connection", async {
        loop {
            if site.envoy.get("/").send().await?.header("connection") == Some("close") {
                return Ok(());
            }
        }
    })
    .await
}
