//! SIGKILL of processes, which the kubelet starts again in their pods.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use limpet_e2e::chaos::{Cause, Role};
use limpet_e2e::poll;

use super::{PATIENCE, Stage};
use crate::processes::{self, Process};
use crate::watch::Ready;

/// One is killed and another may be evicted; one must remain for requests.
const ENOUGH: usize = 3;

pub(super) async fn application(stage: &Stage) -> Result<()> {
    let pod = kill_one(stage, Role::Application).await?;
    until_back(stage, &pod).await
}

pub(super) async fn envoy(stage: &Stage) -> Result<()> {
    let alone = stage.envoys.lock().await;
    let pod = kill_one(stage, Role::Envoy).await?;
    until_back(stage, &pod).await?;
    drop(alone);
    Ok(())
}

pub(super) async fn controllers(stage: &Stage) -> Result<()> {
    let pods = stage.until_ready(Role::Controller, 2).await?;
    for pod in &pods {
        kill(stage, &pod.process)?;
    }
    for pod in &pods {
        until_back(stage, pod).await?;
    }
    Ok(())
}

/// Lowers its memory limit below its usage, so the kernel kills it.
pub(super) async fn envoy_out_of_memory(stage: &Stage) -> Result<()> {
    let alone = stage.envoys.lock().await;
    let (pod, cgroup) = poll::until_within(PATIENCE, "an Envoy with a cgroup for memory", async || {
        let pod = one_of(stage, Role::Envoy).await.ok()?;
        let cgroup = processes::cgroup(pod.process.id, "memory")?;
        Some((pod, cgroup))
    })
    .await?;
    stage.watch.note_end(&pod.process, Cause::OutOfMemory);
    poll::until("an Envoy to be out of memory", async || {
        sink(&cgroup);
        (!processes::runs(pod.process.id)).then_some(())
    })
    .await?;
    until_back(stage, &pod).await?;
    // Its status says so, unless the pod had to end meanwhile.
    let what = format!("the status of {} to say that it was out of memory", pod.name);
    poll::until(&what, async || {
        let told = stage.watch.was_out_of_memory(&pod.name) || stage.watch.has_to_end(&pod.name);
        told.then_some(())
    })
    .await?;
    drop(alone);
    Ok(())
}

/// Lowers the limit to just below the usage, of which the kernel reclaims less and less.
fn sink(cgroup: &Path) {
    for (usage, limit) in [
        ("memory.current", "memory.max"),
        ("memory.usage_in_bytes", "memory.limit_in_bytes"),
    ] {
        let used = fs::read_to_string(cgroup.join(usage)).ok();
        let Some(used) = used.and_then(|used| used.trim().parse::<u64>().ok()) else {
            continue;
        };
        for limited in [used.saturating_sub(1 << 20), used] {
            // cgroups v1 refuse a limit that they cannot reach.
            if fs::write(cgroup.join(limit), limited.to_string()).is_ok() {
                break;
            }
        }
    }
}

/// Tries again if the chosen process has ended for another reason.
async fn kill_one(stage: &Stage, role: Role) -> Result<Ready> {
    poll::until_within(PATIENCE, &format!("a process to kill: {}", role.name()), async || {
        let pod = one_of(stage, role).await.ok()?;
        kill(stage, &pod.process).ok()?.then_some(pod)
    })
    .await
}

fn kill(stage: &Stage, process: &Process) -> Result<bool> {
    let was_there = processes::kill(process)?;
    if was_there {
        stage.watch.note_end(process, Cause::Killed);
    }
    Ok(was_there)
}

/// The least restarted pod: the kubelet takes longer each time.
async fn one_of(stage: &Stage, role: Role) -> Result<Ready> {
    let ready = stage.until_ready(role, ENOUGH).await?;
    ready.into_iter().min_by_key(|pod| pod.restarts).context("no pod")
}

async fn until_back(stage: &Stage, pod: &Ready) -> Result<()> {
    poll::until_within(PATIENCE, &format!("{} to be ready again", pod.name), async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.watch.is_over(&pod.name, pod.restarts).then_some(())
    })
    .await
}
