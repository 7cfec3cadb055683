//! Clusters that tests share because of what their API server has, lacks or does; other tests share a release's
//! (`Cluster::shared`). An API server starts slower than most tests, so only one that changes definitions for good
//! starts its own.

use std::fs;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::tools;
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Every kind that Limpet reads or writes: the newest release's, Limpet's, Istio's, Envoy Gateway's and Contour's. No
/// test changes its definitions.
pub(crate) async fn of_all_kinds() -> Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    let start = async || {
        let mut definitions = Release::V1_7_0.definitions()?;
        definitions.push(tools::istio_definitions()?);
        for ours in [
            "backendlbpolicies.yaml",
            "envoydeployments.yaml",
            "contour/ingressroutes.yaml",
            "contour/tlscertificatedelegations.yaml",
        ] {
            definitions.push(tools::checkout().join("controller/deploy/crds").join(ours));
        }
        // The folder has the Gateway API of another release, too.
        for entry in fs::read_dir(tools::envoy_gateway_crds()?)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("gateway.envoyproxy.io_") {
                definitions.push(path);
            }
        }
        Cluster::start(&definitions).await
    };
    SHARED.get_or_try_init(start).await
}

/// Begins without definitions. One test installs the Gateway API, another one tries admission policies of definitions,
/// which accept that installation.
pub(crate) async fn bare() -> Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Cluster::start(&[])).await
}

/// Release 1.2.1 with definitions that accept any object. The API server needs a moment to drop a schema.
pub(crate) async fn without_schemas() -> Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    let start = async || {
        let cluster = Cluster::start(&Release::V1_2_1.definitions()?).await?;
        let admin = cluster.server().admin();
        for mut definition in admin.list("CustomResourceDefinition", "").await? {
            let name = definition["metadata"]["name"].as_str().context("no name")?.to_owned();
            for version in definition["spec"]["versions"].as_array_mut().context("no versions")? {
                version["schema"] =
                    json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            }
            let change = json!({"spec": {"versions": definition["spec"]["versions"]}});
            admin.merge("CustomResourceDefinition", &name, &change).await?;
        }
        Ok(cluster)
    };
    SHARED.get_or_try_init(start).await
}

/// Release 1.2.1, with an API server that a test may stop or pause. One test has it at a time, in its own namespace.
pub(crate) async fn to_stop() -> Result<MutexGuard<'static, Cluster>> {
    static KEPT: OnceCell<Mutex<Cluster>> = OnceCell::const_new();
    let start = async || Cluster::start(&Release::V1_2_1.definitions()?).await.map(Mutex::new);
    let mut cluster = KEPT.get_or_try_init(start).await?.lock().await;
    // A failed test may have left it stopped or paused.
    if cluster.server().process().is_err() {
        cluster.server_mut().start_again().await?;
    }
    cluster.server().process()?.go_on()?;
    Ok(cluster)
}
