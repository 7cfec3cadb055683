//! Weights, and references that lead nowhere.

use anyhow::{Result, ensure};
use limpet_model::graph::Action;

use super::Shop;
use super::graphs::{forward, graph, nowhere, route, to, with_session};

/// The bounds are missed once in ten million runs.
#[tokio::test]
async fn a_reference_that_leads_nowhere_answers_its_share() -> Result<()> {
    let routes = vec![
        with_session("/session", "web", vec![to("v1", 1), nowhere(1)]),
        route("", Action::Forward(forward(vec![to("v1", 1), nowhere(1)]))),
    ];
    let shop = Shop::start(&graph(routes)).await?;
    for path in ["/", "/session"] {
        let shares = shop.shares(200, path).await?;
        ensure!(shares.keys().eq(["500", "v1"]), "{shares:?}");
        ensure!((62..=138).contains(&shares["500"]), "{shares:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_has_no_backend_answers_500_and_what_has_no_route_404() -> Result<()> {
    let routes = vec![
        route("/nowhere", Action::Forward(forward(vec![nowhere(1)]))),
        route("/zero", Action::Forward(forward(vec![to("v1", 0)]))),
        route("/gone", Action::Forward(forward(vec![to("gone", 1)]))),
        route("/shop", Action::Forward(forward(vec![to("v1", 1)]))),
    ];
    let shop = Shop::start(&graph(routes)).await?;
    for (path, status) in [
        ("/nowhere", 500),
        ("/zero", 500),
        ("/gone", 500),
        ("/shop", 200),
        ("/shopping", 404),
        ("/", 404),
    ] {
        assert_eq!(shop.get("http-80", path)?.send().await?.status, status, "{path}");
    }
    Ok(())
}
