use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Answer, Request};
use limpet_model::graph::{Action, Session};

use super::GraphSite;
use super::graphs::{forward, graph, policy, route, to, with_own_session, with_session};

/// This backend answers all requests with these cookies, without a new token.
async fn stays(site: &GraphSite, path: &str, cookies: &str, backend: &str) -> Result<()> {
    for _ in 0..20 {
        let answer = site.get("http-80", path)?.cookie(cookies).send().await?;
        assert_eq!(answer.backend(), Some(backend), "{cookies}");
        assert_eq!(answer.set_cookies().len(), 0);
        let seen = answer.seen()?;
        assert_eq!(seen.internal_headers(), [""; 0]);
        let internal = answer.headers.keys().find(|name| name.as_str().starts_with("x-limpet"));
        assert_eq!(internal, None);
    }
    Ok(())
}

async fn begin(site: &GraphSite, path: &str) -> Result<(String, String)> {
    let answer = site.get("http-80", path)?.send().await?;
    let cookie = answer
        .set_cookies()
        .into_iter()
        .next()
        .context("the answer sets no cookie")?;
    let backend = answer.backend().context("Envoy answered without a backend")?;
    Ok((format!("{}={}", cookie.name, cookie.value), backend.to_owned()))
}

#[tokio::test]
async fn sessions_of_all_policies_stay() -> Result<()> {
    let routes = vec![
        with_session("/strict", "strict", vec![to("v1", 1)]),
        route("/none", Action::Forward(forward(vec![to("v1", 1)]))),
        with_session("", "web", vec![to("v1", 1)]),
    ];
    let site = GraphSite::start(&graph(routes)).await?;
    for path in ["/", "/strict"] {
        for _ in 0..4 {
            let (cookie, backend) = begin(&site, path).await?;
            stays(&site, path, &cookie, &backend).await?;
        }
    }
    let without = site.get("http-80", "/none")?.send().await?;
    assert_eq!((without.status, without.set_cookies().len()), (200, 0));
    Ok(())
}

/// Also with a strict policy, and if no backend of the rule has a weight.
#[tokio::test]
async fn sessions_stay_at_weight_zero() -> Result<()> {
    let rules = |v1, v2| {
        graph(vec![
            with_session("/strict", "strict", vec![to("v1", v1), to("v2", v2)]),
            with_session("/one", "web", vec![to("v1", v1)]),
            with_session("", "web", vec![to("v1", v1), to("v2", v2)]),
        ])
    };
    let site = GraphSite::start(&rules(100, 0)).await?;
    let mut sessions = Vec::new();
    for path in ["/", "/strict", "/one"] {
        let (cookie, backend) = begin(&site, path).await?;
        ensure!(backend.starts_with("v1/"), "{backend}");
        stays(&site, path, &cookie, &backend).await?;
        sessions.push((path, cookie, backend));
    }
    let site = site.change(&rules(0, 100)).await?;
    for (path, cookie, backend) in &sessions {
        stays(&site, path, cookie, backend).await?;
    }
    for path in ["/", "/strict"] {
        assert_eq!(site.shares(10, path).await?, [("v2".to_owned(), 10)].into());
    }
    assert_eq!(site.shares(10, "/one").await?, [("500".to_owned(), 10)].into());
    Ok(())
}

/// The split chooses a service for every request; a client has a session in each, one of them strict.
#[tokio::test]
async fn each_destination_keeps_its_own_session() -> Result<()> {
    let mut action = forward(vec![to("v1", 1), to("v2", 1)]);
    action.session = Session::Destinations;
    let mut graph = graph(vec![route("", Action::Forward(action))]);
    graph.policies.insert("blue".into(), policy("blue", false).into());
    graph.policies.insert("green".into(), policy("green", true).into());
    with_own_session(&mut graph, "v1", "blue");
    with_own_session(&mut graph, "v2", "green");
    let site = GraphSite::start(&graph).await?;
    let mut visitor = limpet_e2e::Visitor::of(site.envoy.listener("http-80")?);
    let mut backends = BTreeSet::new();
    for _ in 0..40 {
        let request: Request = site.get("http-80", "/")?;
        let answer: Answer = visitor.send(request).await?;
        backends.insert(answer.backend().context("Envoy answered without a backend")?.to_owned());
    }
    assert_eq!(visitor.cookie_names(), ["blue", "green"]);
    let services: Vec<_> = backends.iter().map(|backend| &backend[..2]).collect();
    assert_eq!(services, ["v1", "v2"], "{backends:?}");
    Ok(())
}

#[tokio::test]
async fn clients_do_not_steer() -> Result<()> {
    let site = GraphSite::start(&graph(vec![with_session("", "web", vec![to("v1", 1), to("v2", 0)])])).await?;
    // `printf v2 | sha256sum | head -c 8`
    for _ in 0..10 {
        let request = site.get("http-80", "/")?.header("x-limpet-destination", "fb04dcb6");
        let answer = request.send().await?;
        ensure!(answer.backend().is_some_and(|backend| backend.starts_with("v1/")));
    }
    Ok(())
}
