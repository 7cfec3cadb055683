//! A definition of `IngressRoute` without the subresource `status`, as Contour's own was.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{
    DELEGATIONS, HOST, INGRESS_ROUTES, KIND, ORPHANED, VALID, apply, blog, configure, root, stands_still, until_status,
};

const WEB: &[(&str, &str)] = &[("app", "web")];

/// The shipped definition without its subresource.
fn bare() -> Result<Value> {
    let mut definition: Value = serde_saphyr::from_str(INGRESS_ROUTES)?;
    let version = definition["spec"]["versions"][0].as_object_mut();
    let taken = version.context("no version")?.remove("subresources");
    ensure!(taken.is_some(), "no subresources");
    Ok(definition)
}

/// The right that the chart's value `contour.patchObjects` adds.
async fn may_patch_objects(namespace: &Namespace) -> Result<()> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "patch-objects"},
        "rules": [{"apiGroups": ["contour.heptio.com"], "resources": ["ingressroutes"], "verbs": ["patch"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "patch-objects"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "patch-objects"},
        "subjects": [{"kind": "ServiceAccount", "name": "limpet-controller"}],
    });
    namespace.apply_object(&role).await?;
    namespace.apply_object(&binding).await.map(drop)
}

#[tokio::test]
async fn a_status_in_the_object_starts_no_loop() -> Result<()> {
    // A cluster of its own: with each definition that another test adds, the controller builds again.
    let cluster = Cluster::start(&Release::V1_7_0.definitions()?).await?;
    cluster.define(&bare()?.to_string()).await?;
    cluster.define(DELEGATIONS).await?;
    let namespace = cluster.namespace("bare").await?;
    namespace.service("web", WEB).await?;
    let delegating = root(HOST, "{match: /blog, delegate: {name: blog}}");
    apply(&namespace, "root", &delegating).await?;
    apply(&namespace, "blog", &blog("web")).await?;
    apply(&namespace, "alone", &blog("web")).await?;
    let mut controller = Controller::start(cluster.server(), &namespace, configure).await?;

    // Without the right, all else continues.
    poll::until("the log to name the right", async || {
        let log = controller.log().ok()?;
        (log.contains("ingressroutes") && log.contains("cannot patch")).then_some(())
    })
    .await
    .with_context(|| controller.log().unwrap_or_default())?;
    assert_eq!(namespace.get(KIND, "root").await?.get("status"), None);

    may_patch_objects(&namespace).await?;
    until_status(&namespace, "root", "valid", VALID).await?;
    until_status(&namespace, "blog", "valid", VALID).await?;
    let alone = until_status(&namespace, "alone", "orphaned", ORPHANED).await?;
    // The one write that it took is one of the object.
    assert_eq!(alone["metadata"]["generation"], 2);
    let spec: Value = serde_saphyr::from_str(&blog("web"))?;
    assert_eq!(alone["spec"], spec);
    let builds = controller.metric("limpet_build_seconds_count").await?;
    for name in ["root", "blog", "alone"] {
        stands_still(&namespace, name).await?;
    }
    assert_eq!(
        controller.metric("limpet_build_seconds_count").await?,
        builds,
        "it builds again and again"
    );

    // Another controller changes nothing.
    controller.end().await?;
    let controller = Controller::start(cluster.server(), &namespace, configure).await?;
    poll::until("it to lead", async || {
        (controller.metric("limpet_leader").await.ok()? == "1").then_some(())
    })
    .await?;
    stands_still(&namespace, "root").await?;
    namespace.delete(KIND, "root").await?;
    until_status(&namespace, "blog", "orphaned", ORPHANED).await?;
    stands_still(&namespace, "blog").await?;

    // An operator installs Limpet's definition.
    cluster.define(INGRESS_ROUTES).await?;
    let generation = namespace.get(KIND, "blog").await?["metadata"]["generation"].clone();
    apply(&namespace, "root", &delegating).await?;
    let blog = until_status(&namespace, "blog", "valid", VALID).await?;
    until_status(&namespace, "root", "valid", VALID).await?;
    assert_eq!(blog["metadata"]["generation"], generation, "the object is written");
    stands_still(&namespace, "blog").await
}
