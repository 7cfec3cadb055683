//! Cookies that end with the browser, or by their time.

use limpet_e2e::poll;

use super::*;

fn policy(lifetime: &str, timeout: &str) -> Value {
    json!({"cookie": {"name": COOKIE, "lifetimeType": lifetime}, "absoluteTimeout": timeout})
}

/// The token before the browser ended, and after it began again.
async fn before_and_after(policy: &Value, preferences: &Value) -> Result<[Option<String>; 2]> {
    let mut shop = Shop::open_for(policy, preferences).await?;
    shop.visit("/").await?;
    let before = shop.token().await?;
    assert!(before.is_some());
    shop.browser = shop.browser.restart().await?;
    shop.browser.go(&format!("{SHOP}/empty")).await?;
    Ok([before, shop.token().await?])
}

#[tokio::test]
async fn a_session_cookie_ends_with_the_browser() -> Result<()> {
    let [_, after] = before_and_after(&policy("Session", "1h"), &json!({})).await?;
    assert_eq!(after, None);
    Ok(())
}

#[tokio::test]
async fn a_permanent_cookie_outlasts_the_browser() -> Result<()> {
    let [before, after] = before_and_after(&policy("Permanent", "1h"), &json!({})).await?;
    assert_eq!(after, before);
    Ok(())
}

/// A browser that opens its last pages again keeps them.
#[tokio::test]
async fn a_browser_that_goes_on_keeps_session_cookies() -> Result<()> {
    let goes_on = json!({"session.restore_on_startup": 1});
    let [before, after] = before_and_after(&policy("Session", "1h"), &goes_on).await?;
    assert_eq!(after, before);
    Ok(())
}

/// Max-Age is the rest of the absolute timeout.
#[tokio::test]
async fn a_permanent_cookie_ends_with_its_timeout() -> Result<()> {
    let shop = Shop::open(&policy("Permanent", "3s")).await?;
    shop.visit("/").await?;
    assert!(shop.token().await?.is_some());
    poll::until("the cookie to end", async || {
        shop.token().await.ok()?.is_none().then_some(())
    })
    .await?;
    shop.visit("/").await?;
    let envoy = &shop.site.envoy;
    assert_eq!(
        (envoy.metric("web.issued").await?, envoy.metric("web.no_token").await?),
        (2, 2)
    );
    Ok(())
}
