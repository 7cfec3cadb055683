//! Every kind of session, over pages and fetches.

use super::*;

async fn assert_kept(shop: &Shop, path: &str) -> Result<()> {
    let backend = name(&shop.visit(path).await?)?;
    assert_eq!(shop.visited_at(path).await?, one(&backend));
    let url = format!("{SHOP}{path}");
    assert_eq!(shop.fetched_from(&url, &json!({})).await?, one(&backend));
    Ok(())
}

#[tokio::test]
async fn pages_and_fetches_stay_by_a_cookie() -> Result<()> {
    for cookie in [
        json!({"name": COOKIE}),
        json!({"name": "__Host-session", "secure": "always"}),
        json!({"name": COOKIE, "domain": "shop.example", "path": "/basket", "perScope": true}),
    ] {
        let shop = Shop::open(&json!({"cookie": cookie})).await?;
        assert_kept(&shop, "/basket")
            .await
            .with_context(|| cookie.to_string())?;
        assert_eq!(shop.site.envoy.metric("web.issued").await?, 1, "{cookie}");
    }
    Ok(())
}

/// Such a fetch leaves the page's session unchanged.
#[tokio::test]
async fn a_fetch_without_credentials_has_no_session() -> Result<()> {
    let shop = Shop::open(&json!({"cookie": {"name": COOKIE}})).await?;
    let backend = name(&shop.visit("/").await?)?;
    let omitted = shop.fetched_from(SHOP, &json!({"credentials": "omit"})).await?;
    assert_eq!(omitted.len(), 3, "{omitted:?}");
    assert_eq!(shop.fetched_from(SHOP, &json!({})).await?, one(&backend));
    Ok(())
}

/// The application sets its cookie once. The token comes and goes with it.
#[tokio::test]
async fn pages_stay_by_the_applications_cookie() -> Result<()> {
    for mode in ["prefix", "rewrite"] {
        let shop = Shop::open(&json!({"cookie": {"name": "basket", "mode": mode}})).await?;
        shop.set_basket();
        shop.visit("/").await?;
        assert_kept(&shop, "/").await.context(mode)?;
        let seen = shop.visit("/").await?;
        let value = cookies(&seen).context("no cookie")?;
        assert_eq!(value == "basket=seven", mode == "prefix", "{value}");
    }
    Ok(())
}

/// A script, unlike a page, can send the header that it was given.
#[tokio::test]
async fn fetches_stay_by_a_header() -> Result<()> {
    for (mode, asked_for) in [("insert", "x-answer: none"), ("prefix", "x-session: seven")] {
        let shop = Shop::open(&json!({"header": {"name": "x-session", "mode": mode}})).await?;
        shop.visit("/").await?;
        let given = shop.fetch("/", &json!({"headers": {"x-answer": asked_for}})).await?;
        let token = given["headers"]["x-session"].as_str().context("no token")?;
        let own = json!({"headers": {"x-session": token}});
        assert_eq!(
            shop.fetched_from("/", &own).await?,
            one(&name(&given["seen"])?),
            "{mode}"
        );
        assert_eq!(shop.browser.cookies().await?, []);
        assert_eq!(shop.visited_at("/").await?.len(), 3, "{mode}");
    }
    Ok(())
}

/// A redirect puts the token into the URL of its target.
#[tokio::test]
async fn pages_stay_by_the_query_of_a_redirect() -> Result<()> {
    let policy = json!({"query": {"name": "s", "redirects": true}});
    let shop = Shop::open(&policy).await?;
    for backend in &shop.site.backends {
        backend.answer_next(Answering::status(303).header("location", "/basket?all"));
    }
    let seen = shop.visit("/login").await?;
    assert_eq!((&seen["path"], &seen["query"]), (&json!("/basket"), &json!("all")));
    let url = shop.browser.url().await?;
    assert!(url.starts_with(&format!("{SHOP}/basket?all&s=")), "{url}");
    for _ in 0..6 {
        shop.browser.reload().await?;
        assert_eq!(shop.browser.page().await?["backend"], seen["backend"]);
    }
    assert_eq!(shop.fetched_from(&url, &json!({})).await?, one(&name(&seen)?));
    // Backends without a request so far redirect once.
    shop.fetched_from("/", &json!({})).await?;
    assert_eq!(shop.visited_at("/basket").await?.len(), 3, "a URL without the token");
    Ok(())
}

#[tokio::test]
async fn pages_and_fetches_stay_by_the_address() -> Result<()> {
    let shop = Shop::open(&json!({"source": {}})).await?;
    assert_kept(&shop, "/").await?;
    assert_eq!(shop.browser.cookies().await?, []);
    assert_eq!(shop.site.envoy.metric("web.issued").await?, 1);
    Ok(())
}
