use std::sync::Arc;

use anyhow::Result;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use limpet_e2e::{BoxError, Build, Config, Protocol, Reply, Site, Tasks};
use serde_json::json;

use super::{begun, policy, routed, site};

#[tokio::test]
async fn a_token_in_the_query_keeps_the_session() -> Result<()> {
    let site = site(&json!([{"query": {"name": "s"}}])).await?;
    let (token, first) = begun(&site).await?;
    for number in 0..20 {
        let request = site.envoy.get(&format!("/a?x=%20&s={token}&y"));
        let request = if number % 2 == 0 { request } else { request.http2() };
        let answer = request.send().await?;
        assert_eq!(answer.backend(), first.backend());
        let seen = answer.seen()?;
        assert_eq!((seen.path.as_str(), seen.query.as_deref()), ("/a", Some("x=%20&y")));
        assert!(answer.set_cookies().is_empty(), "a token was issued again");
    }
    let alone = site.envoy.get(&format!("/?s={token}")).send().await?;
    assert_eq!((alone.backend(), alone.seen()?.query), (first.backend(), None));
    assert_eq!(site.envoy.metric("web.steered").await?, 21);
    Ok(())
}

#[tokio::test]
async fn the_backend_sees_no_token_of_any_carrier() -> Result<()> {
    let also = json!([{"query": {"name": "s"}}, {"header": {"name": "X-Further"}}, {"cookie": {"name": "t"}}]);
    let site = site(&also).await?;
    let (token, first) = begun(&site).await?;
    for by_header in [false, true] {
        let request = site.envoy.get("/").cookie(format!("a=1; t={token}"));
        let request = if by_header {
            request.header("x-further", "not a token")
        } else {
            request
        };
        let answer = request.send().await?;
        let seen = answer.seen()?;
        assert_eq!(answer.backend(), first.backend());
        assert_eq!(
            (seen.cookies().as_deref(), seen.all("x-further").len()),
            (Some("a=1"), 0)
        );
    }
    let all = site.envoy.get(&format!("/?s={token}"));
    let all = all
        .header("x-further", &token)
        .cookie(format!("limpet-session={token}; t={token}"));
    let answer = all.send().await?;
    let seen = answer.seen()?;
    assert_eq!(answer.backend(), first.backend());
    assert_eq!(
        (seen.query.as_deref(), seen.cookies(), seen.all("x-further").len()),
        (None, None, 0)
    );
    Ok(())
}

/// The route that a token's parameter matches stays when the module takes the parameter out. Behind the wasm filter,
/// Envoy matches again after any change of a request header.
#[tokio::test]
async fn the_module_does_not_have_the_route_matched_again() -> Result<()> {
    let routes = json!([
        {
            "name": "with",
            "match": {"prefix": "/", "query_parameters": [{"name": "s", "present_match": true}]},
            "route": {"cluster": "backends"},
            "request_headers_to_add": [{"header": {"key": "x-route", "value": "with"}}],
            "metadata": {"filter_metadata": {"limpet": {"session": "web/shop"}}},
        },
        {
            "name": "without",
            "match": {"prefix": "/"},
            "route": {"cluster": "backends"},
            "request_headers_to_add": [{"header": {"key": "x-route", "value": "without"}}],
            "metadata": {"filter_metadata": {"limpet": {"session": "web/shop"}}},
        },
    ]);
    let site = Site::start(routed(&policy(&json!([{"query": {"name": "s"}}])), routes)?).await?;
    let (token, first) = begun(&site).await?;
    assert_eq!(first.seen()?.all("x-route"), ["without"]);
    let route = match Build::tested()? {
        Build::Module => "with",
        Build::Wasm => "without",
    };
    for token in [token.as_str(), "x"] {
        let seen = site.envoy.get(&format!("/?s={token}")).send().await?.seen()?;
        assert_eq!(
            (seen.query.as_deref(), seen.all("x-route")),
            (None, vec![route]),
            "{token}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn rewritten_paths_have_no_token() -> Result<()> {
    let routes = json!([
        {
            "match": {"prefix": "/old/"},
            "route": {"cluster": "backends", "prefix_rewrite": "/new/"},
            "metadata": {"filter_metadata": {"limpet": {"session": "web/shop"}}},
        },
        {
            "match": {"prefix": "/"},
            "route": {"cluster": "backends"},
            "metadata": {"filter_metadata": {"limpet": {"session": "web/shop"}}},
        },
    ]);
    let site = Site::start(routed(&policy(&json!([{"query": {"name": "s"}}])), routes)?).await?;
    let (token, first) = begun(&site).await?;
    let answer = site.envoy.get(&format!("/old/x?s={token}&a=1")).send().await?;
    let seen = answer.seen()?;
    assert_eq!(answer.backend(), first.backend());
    assert_eq!((seen.path.as_str(), seen.query.as_deref()), ("/new/x", Some("a=1")));
    assert!(
        seen.headers.iter().all(|(_, value)| !value.contains(&token)),
        "{:?}",
        seen.headers
    );
    Ok(())
}

#[derive(Debug)]
struct Redirecting;

impl Protocol for Redirecting {
    fn speaks(&self, request: &hyper::Request<Incoming>) -> bool {
        request.uri().path() == "/from"
    }

    fn answer(&self, _: &str, _: hyper::Request<Incoming>, _: &Tasks) -> Reply {
        let response = hyper::Response::builder()
            .status(302)
            .header("location", "http://shop.example/to?a=1")
            .body(Empty::new().map_err(BoxError::from).boxed_unsync());
        Box::pin(async { Ok(response?) })
    }
}

#[tokio::test]
async fn a_redirect_that_envoy_follows_keeps_the_session() -> Result<()> {
    for forward in [false, true] {
        let policy = policy(&json!([{"query": {"name": "s", "forward": forward}}]));
        let followed = json!({"route": {"internal_redirect_policy": {"max_internal_redirects": 1}}});
        let config = Config::load("cookie.yaml")?.policy(&policy).route(&followed);
        let site = Site::start_speaking(config, &[Arc::new(Redirecting)]).await?;
        let (token, first) = begun(&site).await?;
        for _ in 0..6 {
            let answer = site.envoy.get(&format!("/from?s={token}")).send().await?;
            let seen = answer.seen()?;
            assert_eq!((seen.path.as_str(), seen.query.as_deref()), ("/to", Some("a=1")));
            assert_eq!(answer.backend(), first.backend());
            let leaked = seen.headers.iter().any(|(_, value)| value.contains(&token));
            assert_eq!(leaked, forward, "{:?}", seen.headers);
        }
    }
    Ok(())
}
