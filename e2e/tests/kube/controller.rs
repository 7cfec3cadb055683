//! From objects in the API server to clients' sessions.

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_e2e::{Visitor, poll};
use serde_json::Value;

use crate::site::{POLICY, condition, site_objects};

const WEB: &[(&str, &str)] = &[("app", "web")];

#[tokio::test]
async fn a_policy_becomes_a_signed_cookie() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("thin").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let _pods = [namespace.pod("a", WEB).await?, namespace.pod("b", WEB).await?];
    namespace.apply(&site_objects(&namespace)).await?;
    namespace.apply(POLICY).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;

    let programmed = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == "True/Programmed";
    namespace.until("acknowledgement", "Gateway", "web", programmed).await?;
    let mut visitor = Visitor::of(controller.address(8080));
    let answered = async || {
        let answer = visitor.get("/").await.ok()?;
        answer.backend().map(str::to_owned)
    };
    let backend = poll::until("a backend", answered).await?;
    assert_eq!(visitor.cookie_names(), ["shop"]);
    for _ in 0..20 {
        assert_eq!(visitor.get("/").await?.backend(), Some(backend.as_str()));
    }
    let token = visitor.cookie("shop").context("no cookie")?;
    assert!(!token.contains('.'), "{token}");
    let builds: u64 = controller.metric("limpet_build_seconds_count").await?.parse()?;
    assert!(builds >= 1, "{builds}");
    Ok(())
}
