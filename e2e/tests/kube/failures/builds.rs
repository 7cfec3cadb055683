use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Proxy, Release, filter};
use limpet_e2e::{Build, Request, poll};
use tokio::task::JoinHandle;

use super::ControlledSite;

/// New clients in turn. Each must get a session.
struct Newcomers {
    task: JoinHandle<Result<()>>,
    count: Arc<AtomicUsize>,
    leaving: Arc<AtomicBool>,
}

impl Newcomers {
    fn arrive(address: SocketAddr) -> Self {
        let (count, leaving) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (counted, over) = (Arc::clone(&count), Arc::clone(&leaving));
        let task = tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let answer = Request::get(address, "/").send().await?;
                ensure!(answer.status == 200, "a new client got {}", answer.status);
                answer
                    .set_cookie("limpet-session")
                    .context("a new client got no session")?;
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        });
        Self { task, count, leaving }
    }

    async fn leave(self) -> Result<()> {
        self.leaving.store(true, Ordering::Relaxed);
        self.task.await??;
        let count = self.count.load(Ordering::Relaxed);
        ensure!(count > 50, "only {count} new clients came");
        Ok(())
    }
}

async fn until_alone(envoy: &Proxy, build: Build) -> Result<()> {
    let other = match build {
        Build::Wasm => Build::Module,
        Build::Module => Build::Wasm,
    };
    let issued = async |build: Build| -> Result<u64> {
        let stats = envoy.admin().stats(&build.counter(".*issued$")).await?;
        Ok(stats.values().sum())
    };
    let mut last = (issued(build).await?, issued(other).await?);
    poll::until(&format!("the {build:?} filter alone"), async || {
        // As long as Envoy delays its counts.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = (issued(build).await.ok()?, issued(other).await.ok()?);
        let before = std::mem::replace(&mut last, now);
        (now.0 > before.0 && now.1 == before.1).then_some(())
    })
    .await
}

#[tokio::test]
async fn sessions_outlast_a_change_of_the_filters_build() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let mut site = ControlledSite::start(cluster, "builds").await?;
    site.until_programmed("True/Programmed").await?;
    let crowd = site.crowd().await?;
    let newcomers = Newcomers::arrive(site.controller.address(8080));
    for build in [Build::Module, Build::Wasm, Build::Module] {
        let filter = filter(build)?;
        site.controller.end().await?;
        site.controller.reconfigure(|config| config["envoy"]["filter"] = filter);
        site.controller.launch()?;
        site.controller.until_ready().await?;
        let alone = until_alone(&site.envoy, build).await;
        if newcomers.task.is_finished() {
            return newcomers.leave().await;
        }
        alone?;
        site.until_programmed("True/Programmed").await?;
        crowd.rounds(3).await?;
    }
    newcomers.leave().await?;
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_exposed()?;
    journeys.none_failed()?;
    journeys.none_moved()
}
