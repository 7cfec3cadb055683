//! What the page's scripts see of a session.

use super::*;

/// All means to read cookies.
const COOKIES: &str = "return document.cookie + (await cookieStore.getAll()).map((cookie) => cookie.name)";

async fn readable(shop: &Shop) -> Result<String> {
    let text = shop.browser.script(COOKIES, &[]).await?;
    Ok(text.as_str().context("no text")?.to_owned())
}

#[tokio::test]
async fn scripts_see_no_session() -> Result<()> {
    for policy in [
        json!({"cookie": {"name": COOKIE}}),
        json!({"cookie": {"name": COOKIE, "sameSite": "None", "secure": "always", "partitioned": true}}),
        json!({"cookie": {"name": COOKIE, "lifetimeType": "Permanent"}, "absoluteTimeout": "1h"}),
        json!({"header": {"name": "x-session"}}),
        json!({"query": {"name": "s"}, "tell": {"header": {"name": "x-session"}}}),
        json!({"source": {}}),
    ] {
        let shop = Shop::open(&policy).await?;
        shop.visit("/").await?;
        assert_eq!(readable(&shop).await?, "", "{policy}");
        let fetched = shop.fetch("/", &json!({})).await?;
        assert_eq!(fetched["headers"]["set-cookie"], Value::Null);
        assert!(shop.site.envoy.metric("web.issued").await? > 0, "{policy}: no session");
    }
    Ok(())
}

#[tokio::test]
async fn scripts_see_a_cookie_that_is_not_http_only() -> Result<()> {
    let shop = Shop::open(&json!({"cookie": {"name": COOKIE, "httpOnly": false}})).await?;
    shop.visit("/").await?;
    let token = shop.token().await?.context("no session")?;
    assert_eq!(readable(&shop).await?, format!("{COOKIE}={token}{COOKIE}"));
    Ok(())
}
