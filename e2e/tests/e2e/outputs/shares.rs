use anyhow::{Result, ensure};
use limpet_model::graph::Action;

use super::GraphSite;
use super::graphs::{forward, graph, nowhere, route, to, with_session};

/// A correct split misses the bounds once in ten million runs.
#[tokio::test]
async fn a_bad_reference_answers_500_to_its_share_of_requests() -> Result<()> {
    let routes = vec![
        with_session("/session", "web", vec![to("v1", 1), nowhere(1)]),
        route("", Action::Forward(forward(vec![to("v1", 1), nowhere(1)]))),
    ];
    let site = GraphSite::start(&graph(routes)).await?;
    for path in ["/", "/session"] {
        let shares = site.shares(200, path).await?;
        ensure!(shares.keys().eq(["500", "v1"]), "{shares:?}");
        ensure!((62..=138).contains(&shares["500"]), "{shares:?}");
    }
    Ok(())
}

#[tokio::test]
async fn no_backend_answers_500_and_no_route_answers_404() -> Result<()> {
    let routes = vec![
        route("/nowhere", Action::Forward(forward(vec![nowhere(1)]))),
        route("/zero", Action::Forward(forward(vec![to("v1", 0)]))),
        route("/gone", Action::Forward(forward(vec![to("gone", 1)]))),
        route("/shop", Action::Forward(forward(vec![to("v1", 1)]))),
    ];
    let site = GraphSite::start(&graph(routes)).await?;
    for (path, status) in [
        ("/nowhere", 500),
        ("/zero", 500),
        ("/gone", 500),
        ("/shop", 200),
        ("/shopping", 404),
        ("/", 404),
    ] {
        assert_eq!(site.get("http-80", path)?.send().await?.status, status, "{path}");
    }
    Ok(())
}
