//! WebSockets and server-sent events, for which a script can choose only the URL.

use super::*;

const TELL: &str = "x-session";

const WEB_SOCKET: &str = "
    return await new Promise((done, fail) => {
        const socket = new WebSocket(arguments[0]);
        socket.onmessage = (message) => { socket.close(); done(message.data); };
        socket.onerror = () => fail(new Error('no WebSocket'));
    })";
const EVENT_SOURCE: &str = "
    return await new Promise((done, fail) => {
        const events = new EventSource(arguments[0]);
        events.onmessage = (event) => { events.close(); done(event.data); };
        events.onerror = () => fail(new Error('no events'));
    })";

/// The backends that several WebSockets and event sources reach.
async fn streamed_from(shop: &Shop, query: &str) -> Result<[BTreeSet<String>; 2]> {
    let (mut sockets, mut events) = (BTreeSet::new(), BTreeSet::new());
    let url = |scheme: &str, path: &str| json!(format!("{scheme}://shop.example{path}{query}"));
    for _ in 0..8 {
        let socket = shop.browser.script(WEB_SOCKET, &[url("wss", "/chat")]).await?;
        sockets.insert(socket.as_str().unwrap_or_default().to_owned());
        let event = shop.browser.script(EVENT_SOURCE, &[url("https", "/events")]).await?;
        events.insert(event.as_str().unwrap_or_default().to_owned());
    }
    Ok([sockets, events])
}

#[tokio::test]
async fn streams_of_a_page_stay_in_its_session() -> Result<()> {
    for policy in [
        json!({"cookie": {"name": COOKIE}}),
        json!({"cookie": {"name": "basket", "mode": "prefix"}}),
        json!({"cookie": {"name": "basket", "mode": "rewrite"}}),
        json!({"source": {}}),
    ] {
        let shop = Shop::open(&policy).await?;
        shop.set_basket();
        let backend = one(&name(&shop.visit("/").await?)?);
        assert_eq!(streamed_from(&shop, "").await?, [backend.clone(), backend], "{policy}");
        assert_eq!(shop.site.envoy.metric("web.issued").await?, 1, "{policy}");
    }
    Ok(())
}

/// A script can set no header for a stream.
#[tokio::test]
async fn streams_have_no_session_by_a_header() -> Result<()> {
    let shop = Shop::open(&json!({"header": {"name": TELL}})).await?;
    shop.visit("/").await?;
    for backends in streamed_from(&shop, "").await? {
        assert_eq!(backends.len(), 3, "{backends:?}");
    }
    Ok(())
}

/// The browser keeps the cookie of the response that opens a WebSocket.
#[tokio::test]
async fn a_websocket_begins_the_session_of_a_page() -> Result<()> {
    let shop = Shop::open(&json!({"cookie": {"name": COOKIE}})).await?;
    shop.browser.go(&format!("{SHOP}/empty")).await?;
    assert_eq!(shop.token().await?, None);
    let socket = shop
        .browser
        .script(WEB_SOCKET, &[json!("wss://shop.example/chat")])
        .await?;
    let backend = socket.as_str().context("no greeting")?;
    assert_eq!(shop.fetched_from("/", &json!({})).await?, one(backend));
    assert_eq!(shop.site.envoy.metric("web.issued").await?, 1);
    Ok(())
}

#[tokio::test]
async fn streams_stay_by_the_query_that_a_fetch_was_told() -> Result<()> {
    let policy = json!({"query": {"name": "s"}, "tell": {"header": {"name": TELL}}});
    let shop = Shop::open(&policy).await?;
    shop.visit("/").await?;
    let told = shop.fetch("/", &json!({})).await?;
    let token = told["headers"][TELL].as_str().context("no token")?;
    let backend = one(&name(&told["seen"])?);
    let query = format!("?room=1&s={token}");
    assert_eq!(streamed_from(&shop, &query).await?, [backend.clone(), backend]);
    for stranger in streamed_from(&shop, "?room=1").await? {
        assert_eq!(
            stranger.len(),
            3,
            "a stream without the token has a session: {stranger:?}"
        );
    }
    assert_eq!(shop.browser.cookies().await?, []);
    Ok(())
}

/// Another site's page has no cookie of the shop, but may know the token.
#[tokio::test]
async fn a_websocket_from_another_site_stays_by_the_query() -> Result<()> {
    let policy = json!({
        "cookie": {"name": COOKIE},
        "also": [{"query": {"name": "s"}}],
        "tell": {"header": {"name": TELL}},
    });
    let shop = Shop::open(&policy).await?;
    // A fetch begins the session: a page cannot read its own headers.
    shop.browser.go(&format!("{SHOP}/empty")).await?;
    let told = shop.fetch("/", &json!({})).await?;
    let token = told["headers"][TELL].as_str().context("no token")?.to_owned();
    let backend = name(&told["seen"])?;
    assert_eq!(shop.token().await?.as_ref(), Some(&token));

    shop.browser.go(OTHER).await?;
    for _ in 0..6 {
        let url = json!(format!("wss://shop.example/chat?s={token}"));
        assert_eq!(shop.browser.script(WEB_SOCKET, &[url]).await?, json!(backend));
    }
    assert_eq!(shop.site.envoy.metric("web.no_token").await?, 1);
    shop.browser
        .script(WEB_SOCKET, &[json!("wss://shop.example/chat")])
        .await?;
    assert_eq!(shop.site.envoy.metric("web.no_token").await?, 2);
    // The browser did not keep that response's cookie.
    shop.visit("/").await?;
    assert_eq!(shop.token().await?, Some(token));
    Ok(())
}
