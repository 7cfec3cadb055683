//! A panic in the dynamic module ends in its hook. The tests run a variant that panics on demand
//! (`e2e/panicking-module`), and skip the wasm filter, where a panic is a trap that ends in its sandbox.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use limpet_e2e::{Build, Config, Envoy, Site, Visitor, filter_with, poll};
use serde_json::{Value, json};

use crate::dynamic_module::{per_route, takes_the_module};
use crate::splits::rule::specifier;
use crate::splits::specifier::chooses;

const REQUESTS: usize = 12;

fn panics(envoy: &Envoy, hook: &str) -> Result<usize> {
    Ok(envoy.log()?.matches(&format!("in {hook}, as a test asked for")).count())
}

fn host_errors() -> String {
    Build::Module.counter("host_errors")
}

async fn assert_steered(visitor: &mut Visitor, backend: Option<&str>) -> Result<()> {
    for _ in 0..6 {
        let answer = visitor.get("/here").await?;
        assert_eq!((answer.status, answer.backend()), (200, backend));
        assert!(answer.set_cookies().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn a_request_survives_a_panic_and_is_counted() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let config = Config::load("cookie.yaml")?.panicking()?;
    let site = Site::start(config.route(&json!({"match": {"prefix": "/here"}}))).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/here").await?;
    let session = format!(
        "limpet-session={}",
        visitor.cookie("limpet-session").context("no session")?
    );
    let mut expected = 0;
    // When Envoy destroys a stream, the module can count nothing any more.
    for (hook, path, steered, begins, counted) in [
        ("request_headers", "/here", false, false, true),
        // The code after a panic panics as well.
        ("request_headers give_up", "/here", false, false, false),
        ("response_headers", "/here", true, false, true),
        ("local_reply", "/elsewhere", true, false, true),
        ("stream_complete", "/here", true, true, true),
        ("destroy", "/here", true, true, false),
    ] {
        let mut reached = BTreeSet::new();
        for _ in 1..REQUESTS {
            let request = site.envoy.get(path).header("x-panic", hook);
            let answer = request.cookie(&session).send().await?;
            assert_eq!(answer.status, if path == "/here" { 200 } else { 404 }, "{hook}");
            assert!(answer.set_cookies().is_empty(), "{hook}");
            reached.insert(answer.backend().map(str::to_owned));
        }
        let only = BTreeSet::from([first.backend().filter(|_| path == "/here").map(str::to_owned)]);
        assert_eq!(reached == only, steered, "{hook}: {reached:?}");
        let new = site.envoy.get(path).header("x-panic", hook).send().await?;
        assert_eq!(new.set_cookie("limpet-session").is_some(), begins, "{hook}");

        let last = hook.rsplit(' ').next().unwrap_or_default();
        poll::until(&format!("all panics in {last}"), async || {
            (panics(&site.envoy, last).ok()? == REQUESTS).then_some(())
        })
        .await?;
        expected += if counted { REQUESTS as u64 } else { 0 };
        site.envoy.until_stat(&host_errors(), expected).await?;
        assert_steered(&mut visitor, first.backend()).await?;
    }
    Ok(())
}

/// The policies `web` and one whose name makes a hook panic.
fn told(hook: &str) -> Value {
    let mut filter = filter_with(&json!({"cookie": {"name": "limpet-session"}}));
    filter["policies"][format!("panic-in-{hook}")] = json!({"cookie": {"name": "other"}});
    filter
}

async fn until_panic(envoy: &Envoy, hook: &str) -> Result<()> {
    poll::until("the panic", async || (panics(envoy, hook).ok()? > 0).then_some(())).await
}

/// This hook creates the state for a request's other hooks.
#[tokio::test]
async fn a_request_survives_a_panic_at_its_beginning() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let config = Config::load("ecds.yaml")?.filter(&told("http_filter_new"));
    let mut site = Site::start(config.panicking()?).await?;
    for _ in 0..REQUESTS {
        let answer = site.envoy.get("/").send().await?;
        assert!(answer.status == 200 && answer.set_cookies().is_empty(), "{answer:?}");
    }
    assert_eq!(panics(&site.envoy, "http_filter_new")?, REQUESTS);
    site.envoy.until_stat(&host_errors(), REQUESTS as u64).await?;
    site.envoy.update(|config| config.filter(&told("nothing")))?;
    until_sessions(&site).await
}

async fn until_sessions(site: &Site) -> Result<()> {
    site.envoy
        .until_every_worker("starts sessions", |answer| {
            answer.set_cookie("limpet-session").is_some()
        })
        .await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/here").await?;
    assert_steered(&mut visitor, first.backend()).await
}

#[tokio::test]
async fn a_configuration_that_panics_is_refused() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let config = Config::load("cookie.yaml")?.filter(&told("config_new")).panicking()?;
    let (accepted, said) = Envoy::validate(&config).await?;
    assert!(
        !accepted && said.contains("in config_new, as a test asked for"),
        "{said}"
    );
    assert!(
        said.contains("Failed to initialize dynamic module"),
        "Envoy crashed: {said}"
    );
    Ok(())
}

#[tokio::test]
async fn envoy_survives_panics_in_an_update_of_the_configuration() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let config = Config::load("ecds.yaml")?.filter(&told("config_destroy"));
    let mut site = Site::start(config.panicking()?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/here").await?;
    site.envoy.update(|config| config.filter(&told("config_new")))?;
    until_panic(&site.envoy, "config_new").await?;
    assert_steered(&mut visitor, first.backend()).await?;
    site.envoy.update(|config| config.filter(&told("nothing")))?;
    until_panic(&site.envoy, "config_destroy").await?;
    assert_steered(&mut visitor, first.backend()).await
}

#[tokio::test]
async fn envoy_survives_panics_in_an_update_of_a_route() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let named = |config: Config, hook: &str| config.route(&per_route(&format!("web/panic-in-{hook}")));
    let config = named(Config::load("cookie.yaml")?, "per_route_config_destroy")
        .policy(&json!({"cookie": {"name": "limpet-session"}}));
    let mut site = Site::start(config.discover_routes().panicking()?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/here").await?;
    site.envoy.update(|config| named(config, "per_route_config_new"))?;
    until_panic(&site.envoy, "per_route_config_new").await?;
    assert_steered(&mut visitor, first.backend()).await?;
    site.envoy.update(|config| named(config, "nothing"))?;
    until_panic(&site.envoy, "per_route_config_destroy").await?;
    until_sessions(&site).await
}

/// Without a cluster, Envoy answers the request. With one, it stays there.
#[tokio::test]
async fn a_panic_where_a_cluster_is_chosen_costs_its_request_alone() -> Result<()> {
    if !chooses()? {
        return Ok(());
    }
    let to = |clusters: [&str; 2]| {
        let weighted = clusters.map(|cluster| json!({"cluster": cluster, "weight": 1}));
        json!([{"match": {"prefix": "/"}, "route": specifier(&json!({"destinations": weighted}))}])
    };
    let routes = to(["backends", "panic-in-select"]);
    let site = Site::start(Config::load("cookie.yaml")?.routes(routes).panicking()?).await?;
    let mut answered = BTreeSet::new();
    for _ in 0..40 {
        answered.insert(site.envoy.get("/").send().await?.status);
    }
    assert_eq!(answered, [200, 503].into());
    assert!(panics(&site.envoy, "select")? > 0);

    let refused = Config::load("cookie.yaml")?.routes(to(["backends", "panic-in-specifier_config_new"]));
    let (accepted, said) = Envoy::validate(&refused.panicking()?).await?;
    assert!(
        !accepted && said.contains("in specifier_config_new, as a test asked for"),
        "{said}"
    );
    Ok(())
}
