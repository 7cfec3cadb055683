//! An Envoy that lacks the key-encryption key, and so the filter.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Release, filter};
use limpet_e2e::{Build, KeyEncryptionKey, Request, Visitor, poll};
use serde_json::Value;

use super::{WEB, message, objects, until_programmed, until_sessions};
use crate::site::condition;

/// A route whose Service has no policy.
const PLAIN: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: plain}
spec:
  parentRefs: [{name: web}]
  rules: [{matches: [{path: {value: /plain}}], backendRefs: [{name: plain, port: 80}]}]
";

/// Waits until this Envoy serves routes without sessions and refuses the others.
async fn until_closed(controller: &Controller, visitor: &mut Visitor) -> Result<()> {
    poll::until("the route without sessions", async || {
        let answer = Request::get(controller.address(8080), "/plain").send().await.ok()?;
        answer.backend().map(drop)
    })
    .await?;
    for _ in 0..4 {
        let answer = visitor.get("/").await?;
        ensure!(
            (answer.status, answer.backend()) == (503, None),
            "{} from {:?}",
            answer.status,
            answer.backend()
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_envoy_that_cannot_use_the_filter_shows_nobody_tokens() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("keyless").await?;
    let _pods = objects(&namespace).await?;
    namespace.service("plain", WEB).await?;
    namespace.apply(PLAIN).await?;
    let mut controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let key = controller.key_encryption_key().clone();
    let other = KeyEncryptionKey::generate(1)?;
    for build in [Build::Wasm, Build::Module] {
        let filter = filter(build)?;
        controller.end().await?;
        controller.reconfigure(|config| config["envoy"]["filter"] = filter);
        controller.launch()?;
        controller.until_ready().await?;
        let mut envoy = controller.envoy("web", "good").await?;
        envoy.until_ready().await?;
        until_sessions(&controller).await?;
        let mut visitor = Visitor::of(controller.address(8080));
        let backend = visitor.get("/").await?.backend().context("no backend")?.to_owned();
        drop(envoy);

        for (node, environment) in [("keyless", vec![]), ("mistaken", vec![(&*key.variable, &*other.key)])] {
            let mut envoy = controller.envoy_with("web", node, &environment).await?;
            envoy.until_ready().await?;
            until_closed(&controller, &mut visitor).await?;
            let told = format!("Envoy {node} refused ExtensionConfig {}", build.discovered_name());
            let is_told = |object: &Value| {
                let conditions = &object["status"]["conditions"];
                condition(conditions, "Programmed") == "False/Invalid"
                    && message(conditions, "Programmed").starts_with(&told)
            };
            let gateway = namespace.until(&told, "Gateway", "web", is_told).await?;
            let words = message(&gateway["status"]["conditions"], "Programmed");
            ensure!(words.contains(&key.variable), "{words}");
            ensure!(words.contains("log of this Envoy"), "{words}");
            let log = controller.log()?;
            let line = log
                .lines()
                .find(|line| line.contains(&told) && line.contains(&key.variable));
            ensure!(line.is_some(), "{log}");
        }

        let mut envoy = controller.envoy("web", "good").await?;
        envoy.until_ready().await?;
        until_programmed(&namespace, "web", "True/Programmed").await?;
        assert_eq!(visitor.get("/").await?.backend(), Some(&*backend));
    }
    Ok(())
}
