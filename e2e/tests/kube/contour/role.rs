use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use limpet_e2e::kube::{Controller, Namespace, refused};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{HOST, KIND, ORPHANED, VALID, apply, blog, cluster, configure, object, root, until_status};

const ROLE: &str = "limpet-contour";
const GROUP: &str = "/apis/contour.heptio.com/v1beta1";

async fn granted(namespace: &Namespace) -> Result<BTreeSet<String>> {
    let role = namespace.get("ClusterRole", &namespace.cluster_role(ROLE)).await?;
    let words = |value: &Value| -> Vec<String> {
        let all = value.as_array().into_iter().flatten();
        all.filter_map(|word| Some(word.as_str()?.to_owned())).collect()
    };
    let mut granted = BTreeSet::new();
    for rule in role["rules"].as_array().context("no rules")? {
        for resource in words(&rule["resources"]) {
            granted.extend(words(&rule["verbs"]).iter().map(|verb| format!("{verb} {resource}")));
        }
    }
    Ok(granted)
}

/// Verb, resource and namespace of a request for objects of Contour's group.
fn asked<'a>(verb: &str, uri: &'a str) -> Option<(String, &'a str)> {
    let path = uri.strip_prefix(GROUP)?.split('?').next()?;
    let mut parts = path.strip_prefix("/namespaces/")?.split('/');
    let (namespace, resource) = (parts.next()?, parts.next()?);
    let subresource = parts.nth(1).map(|name| format!("/{name}")).unwrap_or_default();
    Some((format!("{verb} {resource}{subresource}"), namespace))
}

/// As the chart binds it with `config.namespaces`.
async fn bind_here_alone(namespace: &Namespace) -> Result<()> {
    let everywhere = namespace.cluster_role(ROLE);
    namespace.delete("ClusterRoleBinding", &everywhere).await?;
    namespace.bind(ROLE).await
}

/// The controller's token leads no requests elsewhere.
#[tokio::test]
async fn the_role_has_what_it_takes_and_no_more() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("role").await?;
    apply(&namespace, "web", &blog("web")).await?;
    let mut controller = Controller::prepare(cluster.server(), &namespace, configure).await?;
    bind_here_alone(&namespace).await?;
    controller.launch()?;
    controller.until_ready().await?;
    until_status(&namespace, "web", "orphaned", ORPHANED).await?;

    let user = format!("system:serviceaccount:{}:limpet-controller", namespace.name());
    let requests = cluster.server().requests_of(&user)?;
    let requests = requests.iter().filter_map(|request| asked(&request.verb, &request.uri));
    let (mut needed, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (what, place) in requests {
        needed.insert(what);
        places.insert(place);
    }
    assert_eq!(granted(&namespace).await?, needed);
    assert_eq!(places, [namespace.name()].into());

    let account = cluster
        .server()
        .service_account(namespace.name(), "limpet-controller")
        .await?;
    let thief = namespace.as_user(account);
    let list = thief.in_namespace("default").list(KIND, "").await;
    let merge = thief.merge(KIND, "web", &json!({"spec": {"routes": []}})).await;
    let delete = thief.delete(KIND, "web").await;
    let path = format!("{GROUP}/namespaces/{}/ingressroutes", namespace.name());
    let other = object("other", &blog("web"))?;
    let create = thief.call(Method::POST, &path, "application/json", Some(&other)).await;
    for (what, answer) in [
        ("list elsewhere", list.map(drop)),
        ("patch", merge.map(drop)),
        ("delete", delete),
        ("create", create.map(drop)),
    ] {
        let refusal = refused(answer).context(what)?;
        ensure!(refusal.code == 403, "{what}: {refusal}");
    }
    Ok(())
}

/// The log names what is missing, and what is granted later counts.
#[tokio::test]
async fn without_the_role_the_log_names_it() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("no-role").await?;
    namespace.service("web", &[("app", "web")]).await?;
    apply(
        &namespace,
        "root",
        &root(HOST, "{match: /, services: [{name: web, port: 80}]}"),
    )
    .await?;
    let mut controller = Controller::prepare(cluster.server(), &namespace, configure).await?;
    namespace
        .delete("ClusterRoleBinding", &namespace.cluster_role(ROLE))
        .await?;
    controller.launch()?;
    poll::until("the log to name the right", async || {
        let log = controller.log().ok()?;
        ["ingressroutes", "tlscertificatedelegations"]
            .iter()
            .all(|resource| log.contains(&format!("cannot list resource \\\"{resource}\\\"")))
            .then_some(())
    })
    .await
    .with_context(|| controller.log().unwrap_or_default())?;
    let ready = controller.page("/readyz").await?;
    ensure!(ready.status == 503, "{ready:?}");
    namespace.bind(ROLE).await?;
    controller.until_ready().await?;
    until_status(&namespace, "root", "valid", VALID).await.map(drop)
}
