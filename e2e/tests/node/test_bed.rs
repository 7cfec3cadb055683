use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Node;
use limpet_e2e::{poll, tools};
use serde_json::json;

#[tokio::test]
async fn a_pod_runs() -> Result<()> {
    let node = Node::shared().await?;
    let admin = node.admin();
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pause"},
        "spec": {"containers": [{"name": "pause", "image": "limpet.dev/e2e/pause:1"}]},
    });
    admin.apply_object(&pod).await?;
    admin
        .until("the pod", "v1/Pod", "pause", |pod| pod["status"]["phase"] == "Running")
        .await?;
    Ok(())
}

/// What an abandoned pod leaves: a cgroup with a process in it, and a mount.
const POD: &str = "
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
    group=$hierarchy$LIMPET_CGROUP
    [ -d $group ] || continue
    mkdir $group/pod
    # Some controllers want settings first.
    echo $$ >$group/pod/cgroup.procs 2>/dev/null || true
done
mount -t tmpfs $LIMPET_CGROUP /mnt
echo $LIMPET_CGROUP
exec sleep 1000";

#[tokio::test]
async fn nothing_is_left_of_a_node_that_is_told_to_end() -> Result<()> {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut node = Command::new(tools::checkout().join("e2e/tools/in-node.sh"))
            .args(["sh", "-ec", POD])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut name = String::new();
        BufReader::new(node.stdout.take().context("no output")?).read_line(&mut name)?;
        let name = name.trim().trim_start_matches('/');
        let there = left(name)?;
        let process = |place: &String| !name.is_empty() && place.starts_with("/proc/");
        ensure!(there.iter().any(process), "no process in '{name}': {there:?}");
        let sent = Command::new("kill").args([signal, &node.id().to_string()]).status()?;
        ensure!(sent.success(), "cannot send a signal");
        poll::until("the node to end", async || node.try_wait().ok().flatten()).await?;
        assert_eq!(left(name)?, Vec::<String>::new(), "after {signal}");
    }
    Ok(())
}

/// What has this name: cgroups, their processes, and the folder of temporary files.
fn left(name: &str) -> Result<Vec<String>> {
    let groups = std::fs::read_dir("/sys/fs/cgroup")?.map(|entry| Ok(entry?.path()));
    let mut places = groups.collect::<Result<Vec<_>>>()?;
    places.extend([Path::new("/sys/fs/cgroup").to_owned(), std::env::temp_dir()]);
    let mut left = Vec::new();
    for place in places {
        let place = place.join(name);
        if place.exists() {
            left.push(place.display().to_string());
        }
    }
    for process in std::fs::read_dir("/proc")? {
        let process = process?.path();
        let read = |file: &str| std::fs::read_to_string(process.join(file)).unwrap_or_default();
        // An ended process has no arguments, but stays until its parent reaps it.
        if read("cgroup").contains(name) && !read("cmdline").is_empty() {
            left.push(process.display().to_string());
        }
    }
    Ok(left)
}
