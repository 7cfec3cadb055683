//! Delegation of a part of a host, with a real Envoy.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Controller, Namespace, Pod};
use limpet_e2e::{Request, Visitor, poll};
use serde_json::json;
use tokio::task::JoinHandle;

use super::{
    GATEWAY, HOST, KIND, ORPHANED, VALID, apply, blog, cluster, configure, get, root, until_answered, until_status,
};

const COOKIE: &str = "X-Contour-Session-Affinity";

async fn service(namespace: &Namespace, name: &str) -> Result<[Pod; 2]> {
    let labels = [("app", name)];
    namespace.service(name, &labels).await?;
    Ok([
        namespace.pod(&format!("{name}-a"), &labels).await?,
        namespace.pod(&format!("{name}-b"), &labels).await?,
    ])
}

async fn stays(controller: &Controller, visitor: &mut Visitor) -> Result<String> {
    let mut backends = BTreeSet::new();
    for _ in 0..10 {
        let answer = get(controller, visitor, "/blog").await?;
        backends.insert(answer.backend().context("no backend")?.to_owned());
    }
    ensure!(backends.len() == 1, "{backends:?}");
    backends.pop_first().context("no backend")
}

/// Asks for `/blog` without a pause.
struct Restless {
    ends: Arc<AtomicBool>,
    task: JoinHandle<Vec<String>>,
}

impl Restless {
    fn start(address: SocketAddr, mut visitor: Visitor) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let task = tokio::spawn(async move {
            let mut seen = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let request = Request::get(address, "/blog").header("host", HOST);
                seen.push(match visitor.send(request).await {
                    Ok(answer) => answer.backend().map_or(answer.status.to_string(), str::to_owned),
                    Err(error) => error.to_string(),
                });
            }
            seen
        });
        Self { ends, task }
    }

    /// The answering backends in order, or what went wrong.
    async fn end(self) -> Result<Vec<String>> {
        self.ends.store(true, Ordering::Relaxed);
        Ok(self.task.await?)
    }
}

#[tokio::test]
async fn a_delegate_comes_goes_and_moves_without_a_gap() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("delegate").await?;
    let other = cluster.namespace("green").await?;
    let _web = service(&namespace, "web").await?;
    let _blue = service(&namespace, "blue").await?;
    let _green = service(&other, "green").await?;
    let web = "{match: /, services: [{name: web, port: 80}]}";
    let to = |name: &str, space: &str| {
        root(
            HOST,
            &format!("{web}, {{match: /blog, delegate: {{name: {name}, namespace: {space}}}}}"),
        )
    };
    apply(&namespace, "root", &to("blue", namespace.name())).await?;
    let controller = Controller::start(cluster.server(), &namespace, |config| {
        configure(config);
        config["namespaces"] = json!([namespace.name(), other.name()]);
    })
    .await?;
    let mut envoy = controller.envoy(GATEWAY, "one").await?;
    envoy.until_ready().await?;
    // A missing delegate makes no object invalid: its requests match the next shorter prefix.
    until_status(&namespace, "root", "valid", VALID).await?;
    until_answered(&controller, "/blog", 200, Some("web")).await?;

    for _ in 0..2 {
        apply(&namespace, "blue", &blog("blue")).await?;
        until_answered(&controller, "/blog", 200, Some("blue")).await?;
        until_status(&namespace, "blue", "valid", VALID).await?;
        namespace.delete(KIND, "blue").await?;
        until_answered(&controller, "/blog", 200, Some("web")).await?;
    }
    apply(&namespace, "blue", &blog("blue")).await?;
    let mut visitor = until_answered(&controller, "/blog/1", 200, Some("blue")).await?;
    assert_eq!(visitor.cookie_names(), [COOKIE]);
    stays(&controller, &mut visitor).await?;
    // A delegate for /blog has no other path that begins like it.
    let answer = get(&controller, &mut visitor, "/blogger").await?;
    ensure!(
        answer.backend().is_some_and(|name| name.starts_with("web")),
        "{answer:?}"
    );

    // It moves into another namespace, under constant requests.
    apply(&other, "green", &blog("green")).await?;
    until_status(&other, "green", "orphaned", ORPHANED).await?;
    let restless = Restless::start(controller.address(8080), visitor.clone());
    apply(&namespace, "root", &to("green", other.name())).await?;
    let mut visitor = until_answered(&controller, "/blog", 200, Some("green")).await?;
    until_status(&other, "green", "valid", VALID).await?;
    let seen = restless.end().await?;
    let place = |backend: &str| backend.split('-').next().unwrap_or_default().to_owned();
    let mut places: Vec<_> = seen.iter().map(|backend| place(backend)).collect();
    // A busy machine answers few of them.
    ensure!(places.len() > 5, "{places:?}");
    // Both workers change over one after the other, each in one step.
    places.dedup();
    ensure!(
        places.iter().all(|place| place == "blue" || place == "green"),
        "{places:?}"
    );
    ensure!(seen.last().is_some_and(|last| last.starts_with("green")), "{places:?}");
    let green = stays(&controller, &mut visitor).await?;
    ensure!(green.starts_with("green"), "{green}");
    until_status(&namespace, "blue", "orphaned", ORPHANED).await?;

    // The root decides between two candidates.
    apply(&namespace, "root", &to("blue", namespace.name())).await?;
    let mut late = until_answered(&controller, "/blog", 200, Some("blue")).await?;
    stays(&controller, &mut late).await?;
    until_status(&other, "green", "orphaned", ORPHANED).await?;

    namespace.delete(KIND, "root").await?;
    until_status(&namespace, "blue", "orphaned", ORPHANED).await?;
    let gone = async || {
        let answer = get(&controller, &mut late, "/blog").await;
        answer.map_or(true, |answer| answer.status == 404).then_some(())
    };
    poll::until("the host to be gone", gone).await
}

#[tokio::test]
async fn a_class_that_changes_takes_its_routes_along() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("classes").await?;
    let _web = service(&namespace, "web").await?;
    let _blue = service(&namespace, "blue").await?;
    let web = "{match: /, services: [{name: web, port: 80}]}";
    apply(
        &namespace,
        "root",
        &root(HOST, &format!("{web}, {{match: /blog, delegate: {{name: blue}}}}")),
    )
    .await?;
    apply(&namespace, "blue", &blog("blue")).await?;
    let controller = Controller::start(cluster.server(), &namespace, configure).await?;
    let mut envoy = controller.envoy(GATEWAY, "one").await?;
    envoy.until_ready().await?;
    until_answered(&controller, "/blog", 200, Some("blue")).await?;
    let class = |class: &str| json!({"metadata": {"annotations": {"contour.heptio.com/ingress.class": class}}});
    for _ in 0..2 {
        namespace.merge(KIND, "blue", &class("another")).await?;
        until_answered(&controller, "/blog", 200, Some("web")).await?;
        namespace.merge(KIND, "blue", &class("contour")).await?;
        until_answered(&controller, "/blog", 200, Some("blue")).await?;
    }
    until_status(&namespace, "root", "valid", VALID).await.map(drop)
}
