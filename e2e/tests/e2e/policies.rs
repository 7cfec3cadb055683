//! A request's policy: by its route's metadata, by the table of routes, by default, or none.

use anyhow::{Context, Result};
use limpet_e2e::{Build, Config, Envoy, Site, poll, tools};
use serde_json::{Value, json};

fn route(name: &str, prefix: &str) -> Value {
    json!({"name": name, "match": {"prefix": prefix}, "route": {"cluster": "backends"}})
}

#[tokio::test]
async fn two_routes_have_two_sessions() -> Result<()> {
    let site = Site::start(Config::load("two-policies.yaml")?).await?;
    let mut visitor = site.visitor();
    let cart = visitor.get("/cart").await?;
    assert_eq!(
        cart.set_cookie("cart").context("no cookie cart")?.attribute("Path"),
        Some("/cart")
    );
    let mut web = visitor.get("/web").await?;
    // Only different backends show that the sessions are two.
    poll::patiently("two sessions on two backends", async {
        while web.backend() == cart.backend() {
            visitor = site.visitor();
            visitor.keep("cart", &cart.set_cookie("cart").context("no cookie cart")?.value);
            web = visitor.get("/web").await?;
        }
        Ok(())
    })
    .await?;
    assert!(web.set_cookie("limpet-session").is_some());
    for _ in 0..10 {
        assert_eq!(visitor.get("/cart").await?.backend(), cart.backend());
        assert_eq!(visitor.get("/web").await?.backend(), web.backend());
    }
    Ok(())
}

#[tokio::test]
async fn one_of_two_routes_is_strict() -> Result<()> {
    let mut site = Site::start(Config::load("two-policies.yaml")?).await?;
    let mut visitor = site.visitor();
    let cart = visitor.get("/cart").await?;
    let pair = cart.set_cookie("cart").context("no cookie cart")?;
    site.stop_backend_of(&cart).await?;
    for _ in 0..5 {
        let answer = site.envoy.get("/cart").cookie(pair.pair()).send().await?;
        assert_eq!((answer.status, answer.set_cookies().len()), (503, 0));
    }
    for _ in 0..5 {
        assert_eq!(site.visitor().get("/web").await?.status, 200);
    }

    let web = site.visitor().get("/web").await?;
    let pair = web.set_cookie("limpet-session").context("no cookie session")?;
    site.stop_backend_of(&web).await?;
    let moved = site.envoy.get("/web").cookie(pair.pair()).send().await?;
    assert_eq!(moved.status, 200);
    assert!(moved.set_cookie("limpet-session").is_some());
    Ok(())
}

#[tokio::test]
async fn a_route_without_a_policy_is_left_alone() -> Result<()> {
    let site = Site::start(Config::load("two-policies.yaml")?).await?;
    let token = site
        .visitor()
        .get("/web")
        .await?
        .set_cookie("limpet-session")
        .context("no cookie session")?;
    let cookies = format!("a=1; {}; cart=2", token.pair());
    let mut backends = std::collections::BTreeSet::new();
    for _ in 0..12 {
        let answer = site
            .envoy
            .get("/")
            .cookie(&cookies)
            .header("x-session", "3")
            .send()
            .await?;
        assert!(answer.set_cookies().is_empty());
        let seen = answer.seen()?;
        assert_eq!(seen.all("cookie"), [&cookies]);
        assert_eq!(seen.all("x-session"), ["3"]);
        backends.insert(answer.backend().map(str::to_owned));
    }
    assert!(backends.len() > 1, "a session steered on a route without a policy");
    Ok(())
}

#[tokio::test]
async fn the_table_of_routes_tells_virtual_hosts_apart() -> Result<()> {
    let filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"one": {"cookie": {"name": "one"}}, "two": {"cookie": {"name": "two"}}},
        "routes": [
            {"route": "all", "virtualHost": "one", "policy": "one"},
            {"route": "all", "virtualHost": "two", "policy": "two"},
        ],
    });
    let virtual_host =
        |name: &str| json!({"name": name, "domains": [format!("{name}.example")], "routes": [route("all", "/")]});
    let hosts =
        json!({"route_config": {"virtual_hosts": [virtual_host("one"), virtual_host("two"), virtual_host("three")]}});
    let config = Config::load("cookie.yaml")?.filter(&filter).connection_manager(&hosts);
    if Build::tested()? == Build::Module && tools::envoy_version()? < (1, 40) {
        // These Envoys do not show modules the virtual host. Another route's sessions would be worse than none, so the
        // configuration is refused.
        let (accepted, said) = Envoy::validate(&config).await?;
        assert!(!accepted && said.contains("routes[0].virtualHost"), "{said}");
        return Ok(());
    }
    let site = Site::start(config).await?;
    for (host, cookie) in [
        ("one.example", Some("one")),
        ("two.example", Some("two")),
        ("three.example", None),
    ] {
        let answer = site.envoy.get("/").header("host", host).send().await?;
        let names: Vec<_> = answer.set_cookies().into_iter().map(|cookie| cookie.name).collect();
        assert_eq!(names, Vec::from_iter(cookie), "{host}");
    }
    Ok(())
}

fn with_session(name: &str, prefix: &str, session: &str) -> Value {
    let mut route = route(name, prefix);
    route["metadata"] = json!({"filter_metadata": {"limpet": {"session": session}}});
    route
}

fn two_scopes(one: &str, two: &str) -> Result<Config> {
    let filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
    });
    let routes = json!([with_session("one", "/one", one), with_session("two", "/two", two)]);
    Ok(Config::load("cookie.yaml")?.filter(&filter).routes(routes))
}

#[tokio::test]
async fn a_token_is_refused_in_another_scope() -> Result<()> {
    let site = Site::start(two_scopes("web/one", "web/two")?).await?;
    let token = site
        .envoy
        .get("/one")
        .send()
        .await?
        .set_cookie("limpet-session")
        .context("no cookie")?;
    let elsewhere = site.envoy.get("/two").cookie(token.pair()).send().await?;
    assert!(elsewhere.set_cookie("limpet-session").is_some());
    assert_eq!(site.envoy.metric("web.refused.bad_signature").await?, 1);
    assert_eq!(site.envoy.metric("web.steered").await?, 0);
    Ok(())
}

#[tokio::test]
async fn routes_of_one_scope_share_a_session() -> Result<()> {
    let site = Site::start(two_scopes("web/both", "web/both")?).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/one").await?;
    assert!(first.set_cookie("limpet-session").is_some());
    for _ in 0..6 {
        assert_eq!(visitor.get("/two").await?.backend(), first.backend());
    }
    Ok(())
}

/// The route's name replaces it.
#[tokio::test]
async fn a_policy_without_a_scope_takes_the_routes_name() -> Result<()> {
    let filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
        "default": {"policy": "web"},
    });
    let routes = json!([route("one", "/one"), route("two", "/two")]);
    let site = Site::start(Config::load("cookie.yaml")?.filter(&filter).routes(routes)).await?;
    let token = site
        .envoy
        .get("/one")
        .send()
        .await?
        .set_cookie("limpet-session")
        .context("no cookie")?;
    site.envoy.get("/two").cookie(token.pair()).send().await?;
    assert_eq!(site.envoy.metric("web.refused.bad_signature").await?, 1);
    site.envoy.get("/one").cookie(token.pair()).send().await?;
    assert_eq!(site.envoy.metric("web.steered").await?, 1);
    Ok(())
}

/// The filter gets a route's session in a header, which a client may send, too.
#[tokio::test]
async fn a_client_does_not_choose_its_session() -> Result<()> {
    let filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": {"cookie": {"name": "limpet-session"}}, "cart": {"cookie": {"name": "cart"}}},
        "default": {"policy": "web", "scope": "default"},
    });
    let routes = json!([
        with_session("web", "/web", "web/one"),
        with_session("cart", "/cart", "cart/one"),
        route("default", "/"),
    ]);
    let site = Site::start(Config::load("cookie.yaml")?.filter(&filter).routes(routes)).await?;
    for (path, cookie) in [("/web", "limpet-session"), ("/cart", "cart"), ("/", "limpet-session")] {
        for forged in ["cart/forged", "web/forged", "missing/forged"] {
            let answer = site.envoy.get(path).header("x-limpet-session", forged).send().await?;
            let names: Vec<_> = answer.set_cookies().into_iter().map(|cookie| cookie.name).collect();
            assert_eq!(names, [cookie], "{path} {forged}");
            assert_eq!(answer.seen()?.internal_headers(), Vec::<&str>::new());
        }
    }
    assert_eq!(site.envoy.metric("unknown_sessions").await?, 0);
    Ok(())
}

/// The request is served without a session.
#[tokio::test]
async fn an_unknown_policy_in_metadata_is_counted_and_harmless() -> Result<()> {
    let site = Site::start(two_scopes("missing/one", "web/two")?).await?;
    let answer = site.envoy.get("/one").cookie("limpet-session=x").send().await?;
    assert_eq!((answer.status, answer.set_cookies().len()), (200, 0));
    assert_eq!(answer.seen()?.cookies().as_deref(), Some("limpet-session=x"));
    assert_eq!(site.envoy.metric("unknown_sessions").await?, 1);
    Ok(())
}

/// If a wasm filter changes headers, Envoy matches the route again, without the cookie that the filter has removed. A
/// dynamic module changes headers and keeps the route.
#[tokio::test]
async fn the_builds_differ_if_a_route_matches_the_sessions_cookie() -> Result<()> {
    let named = |name: &str, headers: Value| {
        let mut route = route(name, "/");
        route["match"]["headers"] = headers;
        route["response_headers_to_add"] = json!([{"header": {"key": "x-route", "value": name}}]);
        route
    };
    let asks = json!([{"name": "cookie", "string_match": {"contains": "limpet-session="}}]);
    let routes = json!([named("with", asks), named("without", json!([]))]);
    let expected = match Build::tested()? {
        Build::Wasm => "without",
        Build::Module => "with",
    };
    let site = Site::start(Config::load("cookie.yaml")?.routes(routes.clone())).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    assert_eq!(first.header("x-route"), Some("without"));
    for _ in 0..6 {
        let again = visitor.get("/").await?;
        assert_eq!(
            (again.backend(), again.header("x-route")),
            (first.backend(), Some(expected))
        );
    }
    // A forwarded cookie stays in the request, so both builds find the route.
    let forwarded = json!({"cookie": {"name": "limpet-session", "forward": true}});
    let site = Site::start(Config::load("cookie.yaml")?.routes(routes).policy(&forwarded)).await?;
    let mut visitor = site.visitor();
    visitor.get("/").await?;
    assert_eq!(visitor.get("/").await?.header("x-route"), Some("with"));
    Ok(())
}
