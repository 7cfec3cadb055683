use anyhow::{Context, Result};
use limpet_e2e::{Answer, Config, Request, Site};
use serde_json::{Value, json};

use super::{TELL, told};

const HOST: &str = "shop.example";

async fn site(more: &Value) -> Result<Site> {
    let mut policy = json!({"query": {"name": "s"}});
    for (name, value) in more.as_object().into_iter().flatten() {
        policy[name] = value.clone();
    }
    Site::with_policy(&policy).await
}

async fn redirecting() -> Result<Site> {
    site(&json!({"query": {"name": "s", "redirects": true}})).await
}

async fn redirected(request: Request, location: &str) -> Result<Answer> {
    request
        .header("host", HOST)
        .answered_with("location", location)
        .send()
        .await
}

#[tokio::test]
async fn a_client_sends_what_it_was_told_in_the_query() -> Result<()> {
    let site = site(&json!({"tell": {"header": {"name": TELL}}})).await?;
    let first = site.envoy.get("/").send().await?;
    let token = told(&first).context("no token")?;
    assert!(first.set_cookies().is_empty());
    for _ in 0..6 {
        let answer = site.envoy.get(&format!("/a?s={token}&b=1")).send().await?;
        assert_eq!((answer.backend(), told(&answer)), (first.backend(), None));
        assert_eq!(answer.seen()?.query.as_deref(), Some("b=1"));
    }
    let elsewhere = site
        .envoy
        .get("/")
        .cookie(format!("s={token}"))
        .header("s", token)
        .send()
        .await?;
    assert!(
        told(&elsewhere).is_some(),
        "a token counts where the policy does not say so"
    );
    Ok(())
}

#[tokio::test]
async fn a_redirect_to_the_same_host_keeps_the_session() -> Result<()> {
    let site = redirecting().await?;
    for backend in &site.backends {
        backend.answer(limpet_e2e::Answering::status(303));
    }
    let mut path = "/login".to_owned();
    let mut backends = Vec::new();
    for step in 0..6 {
        let answer = redirected(site.envoy.get(&path), &format!("/step/{step}?a=%20#top")).await?;
        assert_eq!((answer.status, answer.header("cache-control")), (303, Some("no-store")));
        backends.push(answer.backend().map(str::to_owned));
        let location = answer.header("location").context("no location")?;
        assert!(
            location.starts_with(&format!("/step/{step}?a=%20&s=")) && location.ends_with("#top"),
            "{location}"
        );
        path = location.trim_end_matches("#top").to_owned();
    }
    backends.dedup();
    assert_eq!(backends.len(), 1, "{backends:?}");
    Ok(())
}

/// A redirect of a route is Envoy's own answer: it has no session.
#[tokio::test]
async fn envoys_own_redirect_has_no_token() -> Result<()> {
    let policy = json!({"query": {"name": "s", "redirects": true}});
    let config = Config::load("cookie.yaml")?.policy(&policy).routes(json!([
        {
            "match": {"prefix": "/old"},
            "redirect": {"path_redirect": "/new"},
            "metadata": {"filter_metadata": {"limpet": {"session": "web/shop"}}},
        },
        {"match": {"prefix": "/"}, "route": {"cluster": "backends"}},
    ]));
    let site = Site::start(config).await?;
    let answer = site.envoy.get("/old").header("host", HOST).send().await?;
    assert_eq!(
        (answer.status, answer.header("location")),
        (301, Some("http://shop.example/new"))
    );
    Ok(())
}
