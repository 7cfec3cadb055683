//! The kubelet.

use anyhow::{Context, Result};
use serde_json::json;

use super::super::ApiServer;
use super::super::daemon::Daemon;
use super::containerd::SOCKET;
use super::{ADDRESS, DNS_ADDRESS, KUBELET, NAME, command};

pub(super) fn start(server: &ApiServer) -> Result<Daemon> {
    let directory = server.directory();
    let cgroup = std::env::var("LIMPET_CGROUP")
        .context("there is no LIMPET_CGROUP: e2e/tools/in-node.sh makes what a node needs, and runs a command in it")?;
    let hosts = directory.join("resolv.conf");
    // Names outside the cluster are not resolved.
    std::fs::write(&hosts, "")?;
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        // Only its own network can reach it.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": hosts,
        "volumePluginDir": directory.join("volume-plugins"),
        "cgroupDriver": "cgroupfs",
        // The kubelet ends what is in its cgroup and no pod of its own, and others may have pods here.
        "cgroupRoot": cgroup,
        "failCgroupV1": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "oomScoreAdj": 0,
        // Otherwise it would change the whole machine.
        "protectKernelDefaults": true,
        // The disk is not the node's own: a full one must not evict pods, or remove images, which cannot be fetched
        // again.
        "localStorageCapacityIsolation": false,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
    });
    let file = directory.join("kubelet.json");
    std::fs::write(&file, config.to_string())?;
    let mut command = command("kubelet")?;
    command
        .arg("--config")
        .arg(file)
        .arg("--kubeconfig")
        .arg(server.component_kubeconfig(KUBELET)?)
        .args(["--hostname-override", NAME, "--node-ip", ADDRESS]);
    Daemon::start("kubelet", &mut command, directory)
}
