//! The metrics of Contour's names, against the statuses.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Controller, Namespace};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{HOST, KIND, apply, blog, cluster, configure, root};

async fn series(controller: &Controller) -> Result<BTreeMap<String, String>> {
    let page = controller.page("/metrics").await?;
    let text = String::from_utf8_lossy(&page.body).into_owned();
    let ours = text.lines().filter(|line| line.starts_with("contour_ingressroute_"));
    let read = |line: &str| {
        let (name, value) = line.rsplit_once(' ').context("no value")?;
        Ok((name.to_owned(), value.to_owned()))
    };
    ours.map(read).collect()
}

/// The expected series by the statuses. `vhosts`: the label of each object.
async fn expected(namespace: &Namespace, vhosts: &[(&str, &str)]) -> Result<BTreeMap<String, String>> {
    let space = namespace.name();
    let mut all = BTreeMap::<_, u32>::new();
    let mut add = |name: &str, labels: String| {
        *all.entry(format!("contour_ingressroute_{name}{{{labels}}}"))
            .or_default() += 1;
    };
    for object in namespace.list(KIND, "").await? {
        let name = object["metadata"]["name"].as_str().context("no name")?;
        let vhost = vhosts.iter().find(|(of, _)| *of == name).map_or("", |(_, vhost)| vhost);
        let of_space = format!("namespace=\"{space}\"");
        let of_host = format!("namespace=\"{space}\",vhost=\"{vhost}\"");
        add("total", of_space.clone());
        if object["spec"].get("virtualhost").is_some() {
            add("root_total", of_space.clone());
        }
        match object["status"]["currentStatus"].as_str() {
            Some("orphaned") => add("orphaned_total", of_space),
            Some("valid") => add("valid_total", of_host),
            Some("invalid") => add("invalid_total", of_host),
            other => anyhow::bail!("{name} is {other:?}"),
        }
    }
    Ok(all.into_iter().map(|(name, count)| (name, count.to_string())).collect())
}

/// Waits until the metrics match the statuses, of which there are this many.
async fn until_equal(
    controller: &Controller,
    namespace: &Namespace,
    vhosts: &[(&str, &str)],
    count: usize,
) -> Result<()> {
    let mut last = None;
    let equal = async || {
        let wanted = expected(namespace, vhosts).await.ok()?;
        let mut found = series(controller).await.ok()?;
        let time = found.remove("contour_ingressroute_dagrebuild_timestamp");
        let total = format!("contour_ingressroute_total{{namespace=\"{}\"}}", namespace.name());
        let is_all = wanted.get(&total) == Some(&count.to_string());
        let seconds: f64 = time.as_deref().unwrap_or_default().parse().unwrap_or_default();
        let is_equal = found == wanted && is_all && seconds > 1_700_000_000.0;
        last = Some((found, wanted, time));
        is_equal.then_some(())
    };
    poll::until("the metrics to be what the statuses say", equal)
        .await
        .with_context(|| format!("{last:#?}"))
}

#[tokio::test]
async fn metrics_count_what_statuses_say() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("counted").await?;
    namespace.service("web", &[("app", "web")]).await?;
    let web = "{match: /, services: [{name: web, port: 80}]}";
    let replica = |config: &mut Value| {
        configure(config);
        config["keyring"] = json!({});
    };
    let mut leader = Controller::start(cluster.server(), &namespace, replica).await?;
    let next = Controller::start(cluster.server(), &namespace, replica).await?;
    apply(
        &namespace,
        "root",
        &root(HOST, &format!("{web}, {{match: /blog, delegate: {{name: blog}}}}")),
    )
    .await?;
    apply(&namespace, "blog", &blog("web")).await?;
    apply(&namespace, "alone", &blog("web")).await?;
    apply(&namespace, "wild", &root("'*.example'", web)).await?;
    apply(
        &namespace,
        "missing",
        &root("missing.example", "{match: /, services: [{name: none, port: 80}]}"),
    )
    .await?;
    let vhosts = [
        ("root", HOST),
        ("blog", HOST),
        ("wild", "*.example"),
        ("missing", "missing.example"),
    ];
    until_equal(&leader, &namespace, &vhosts, 5).await?;
    assert_eq!(series(&next).await?, BTreeMap::new(), "the leader alone counts");

    namespace.delete(KIND, "missing").await?;
    namespace.delete(KIND, "root").await?;
    until_equal(&leader, &namespace, &[("wild", "*.example")], 3).await?;
    leader.end().await?;
    until_equal(&next, &namespace, &[("wild", "*.example")], 3).await
}
