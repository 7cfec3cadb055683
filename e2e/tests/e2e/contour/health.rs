//! Health checks, and sessions of unhealthy backends.

use super::*;

fn objects() -> Vec<Value> {
    let check = json!({
        "path": "/healthz",
        "host": "health.example.com",
        "intervalSeconds": 1,
        "timeoutSeconds": 1,
        "unhealthyThresholdCount": 1,
        "healthyThresholdCount": 1,
    });
    let checked = |strategy: &str| json!([{"name": "web", "port": 80, "strategy": strategy, "healthCheck": check}]);
    let own = json!([
        {"match": "/", "services": checked("Cookie")},
        {"match": "/none", "services": checked("RoundRobin")},
        {"match": "/strict", "delegate": {"name": "strict"}},
    ]);
    let mut strict = vertex("strict", &json!([{"match": "/strict", "services": checked("Cookie")}]));
    strict["metadata"]["annotations"] = json!({"session.limpet.dev/strict": "true"});
    vec![root(&own), strict]
}

/// Waits until every worker knows whether this backend is healthy.
async fn until_known(site: &Site, name: &str, healthy: bool) -> Result<()> {
    let what = format!("every worker: {name} is healthy: {healthy}");
    poll::until(&what, async || {
        for path in ["/none", "/", "/strict"] {
            let met = site.met(path, 20).await.ok()?;
            (met.iter().any(|met| met == name) == healthy).then_some(())?;
        }
        Some(())
    })
    .await
}

#[tokio::test]
async fn a_soft_session_moves_and_a_strict_one_waits() -> Result<()> {
    let site = Site::start(Services::start(&[("web", 3)])?, &objects()).await?;
    let (mut soft, lost) = site.begin("/").await?;
    let (mut strict, of_strict) = loop {
        let (visitor, backend) = site.begin("/strict").await?;
        if backend == lost {
            break (visitor, backend);
        }
    };
    stays(&site, &mut soft, "/", &lost).await?;
    stays(&site, &mut strict, "/strict", &of_strict).await?;

    site.services.backend(&lost)?.set_healthy(false);
    until_known(&site, &lost, false).await?;
    let moved = site.visit(&mut soft, "/").await?;
    assert_eq!((moved.status, moved.set_cookies().len()), (200, 1));
    let next = backend(&moved)?;
    assert_ne!(next, lost);
    stays(&site, &mut soft, "/", &next).await?;
    for _ in 0..5 {
        let refused = site.visit(&mut strict, "/strict").await?;
        assert_eq!(
            (refused.status, refused.backend(), refused.set_cookies().len()),
            (503, None, 0)
        );
    }

    site.services.backend(&lost)?.set_healthy(true);
    until_known(&site, &lost, true).await?;
    stays(&site, &mut strict, "/strict", &of_strict).await?;
    stays(&site, &mut soft, "/", &next).await
}

/// The panic threshold is 0.
#[tokio::test]
async fn where_nobody_is_healthy_nobody_is_asked() -> Result<()> {
    let site = Site::start(Services::start(&[("web", 2)])?, &objects()).await?;
    for backend in site.services.of("web")? {
        backend.set_healthy(false);
    }
    poll::until("no backend to be asked", async || {
        for _ in 0..10 {
            let answer = site.ask("/none").await.ok()?;
            (answer.status == 503 && answer.backend().is_none()).then_some(())?;
        }
        Some(())
    })
    .await
}

/// Contour's documents have five seconds as the default interval.
#[test]
fn checks_have_the_numbers_of_the_documents() -> Result<()> {
    let routes = json!([{"match": "/", "services": [
        {"name": "web", "port": 80, "healthCheck": {"path": "/healthz", "intervalSeconds": 0}},
        {"name": "other", "port": 80},
    ]}]);
    let mut object = root(&routes);
    object["spec"]["healthCheck"] = json!({"path": "/all", "timeoutSeconds": 7});
    let services = ["web", "other"].map(|name| service_object(name, &json!({"ports": [{"port": 80}]})));
    let rendered = Rendered::valid(&[vec![object], services.to_vec()].concat(), &json!({}))?;
    let clusters = rendered.bootstrap["static_resources"]["clusters"].as_array();
    let check = |service: &str| {
        let prefix = format!("service/{NAMESPACE}/{service}/80");
        let cluster = clusters
            .into_iter()
            .flatten()
            .find(|cluster| cluster["name"].as_str().is_some_and(|name| name.starts_with(&prefix)));
        let cluster = cluster.with_context(|| format!("{service} has no cluster"))?;
        let panic = cluster["common_lb_config"]["healthy_panic_threshold"].clone();
        anyhow::Ok((cluster["health_checks"][0].clone(), panic))
    };
    for (service, path, timeout) in [("web", "/healthz", "2s"), ("other", "/all", "7s")] {
        let (check, panic) = check(service)?;
        assert_eq!(check["http_health_check"]["path"], path, "{check}");
        assert_eq!(
            check["http_health_check"]["host"], "contour-envoy-healthcheck",
            "{check}"
        );
        assert_eq!(check["interval"], "5s", "{check}");
        assert_eq!(check["timeout"], timeout, "{check}");
        assert_eq!(check["unhealthy_threshold"], 3, "{check}");
        assert_eq!(check["healthy_threshold"], 2, "{check}");
        assert_eq!(panic["value"].as_f64().unwrap_or_default().to_bits(), 0, "{panic}");
        assert!(panic.is_object(), "the panic threshold is Envoy's own");
    }
    Ok(())
}
