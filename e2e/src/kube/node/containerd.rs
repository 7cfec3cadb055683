//! The container runtime, and its images.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::super::daemon::Daemon;
use super::{PODS, command};
use crate::tools;

/// /run is the node's own.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// The CNI plugins of Debian's package and of releases.
const PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// Starts containerd with the images.
pub(super) async fn start(directory: &Path) -> Result<Daemon> {
    let networks = directory.join("networks");
    std::fs::create_dir(&networks)?;
    std::fs::write(networks.join("pods.conflist"), network().to_string())?;
    let file = directory.join("containerd.toml");
    std::fs::write(&file, config(directory, &networks))?;
    let mut containerd = Daemon::start(
        "containerd",
        command("containerd")?.arg("--config").arg(file),
        directory,
    )?;
    containerd
        .until_ready(async || ctr().ok()?.arg("version").output().ok()?.status.success().then_some(()))
        .await?;
    for archive in images()? {
        import(&archive)?;
    }
    Ok(containerd)
}

/// Pods are routed: over a bridge, a Service's answers would miss kube-proxy's rules without a kernel module.
fn network() -> serde_json::Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "ptp",
            "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]},
        }],
    })
}

fn config(directory: &Path, networks: &Path) -> String {
    let [plugins, other_plugins] = PLUGINS;
    let (directory, networks) = (directory.display(), networks.display());
    format!(
        "version = 3
disabled_plugins = ['io.containerd.nri.v1.nri']

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'limpet.dev/e2e/pause:1'

[plugins.'io.containerd.cri.v1.runtime']
# To lower a score needs a capability that many containers lack.
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{plugins}', '{other_plugins}']
conf_dir = '{networks}'

[plugins.'io.containerd.internal.v1.opt']
path = '{directory}/opt'
"
    )
}

fn ctr() -> Result<Command> {
    let mut command = command("ctr")?;
    command.args(["--address", SOCKET, "--namespace", "k8s.io"]);
    Ok(command)
}

pub(super) fn image_names() -> Result<Vec<String>> {
    let output = ctr()?.args(["images", "list", "--quiet"]).output()?;
    ensure!(
        output.status.success(),
        "cannot list images: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let said = String::from_utf8(output.stdout)?;
    // The CRI adds a name that is the digest.
    let mut names: Vec<String> = said
        .lines()
        .filter(|name| !name.starts_with("sha256:"))
        .map(str::to_owned)
        .collect();
    names.sort();
    Ok(names)
}

fn images() -> Result<Vec<PathBuf>> {
    let directory = tools::node_images()?;
    let entries = std::fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(files
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "tar"))
        .collect())
}

fn import(archive: &Path) -> Result<()> {
    let output = ctr()?.args(["images", "import"]).arg(archive).output()?;
    ensure!(
        output.status.success(),
        "cannot import {}: {}",
        archive.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
