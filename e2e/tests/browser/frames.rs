//! Sessions in frames of other sites: SameSite=None, and Partitioned where the browser blocks cookies of third parties.

use super::*;

/// Forwarded, so that backends see a request's session.
fn policy(partitioned: bool) -> Value {
    json!({"cookie": {
        "name": COOKIE,
        "sameSite": "None",
        "secure": "always",
        "partitioned": partitioned,
        "forward": true,
    }})
}

/// Opens a page of another site with the shop in a frame, and enters it.
async fn frame(shop: &Shop, site: &str) -> Result<()> {
    shop.browser.go(site).await?;
    let frame = "
        const frame = document.createElement('iframe');
        await new Promise((done) => {
            frame.onload = done;
            frame.src = arguments[0];
            document.body.append(frame);
        })";
    shop.browser.script(frame, &[json!(format!("{SHOP}/framed"))]).await?;
    shop.browser.enter_frame().await
}

/// The session of fetches in the present frame or page: backends, and the cookies that these saw.
async fn session(shop: &Shop) -> Result<(BTreeSet<String>, BTreeSet<Option<String>>)> {
    let (mut backends, mut sent) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..6 {
        let fetched = shop.fetch(&format!("{SHOP}/in-frame"), &json!({})).await?;
        backends.insert(name(&fetched["seen"])?);
        sent.insert(cookies(&fetched["seen"]).map(str::to_owned));
    }
    Ok((backends, sent))
}

async fn one_session(shop: &Shop) -> Result<String> {
    let (backends, sent) = session(shop).await?;
    assert_eq!((backends.len(), sent.len()), (1, 1), "{backends:?} {sent:?}");
    sent.into_iter().next().flatten().context("no cookie was sent")
}

#[tokio::test]
async fn a_frame_shares_the_session_of_its_site() -> Result<()> {
    let shop = Shop::open_for(&policy(false), &third_parties(false)).await?;
    shop.visit("/").await?;
    let own = one_session(&shop).await?;
    for site in [OTHER, THIRD] {
        frame(&shop, site).await?;
        assert_eq!(one_session(&shop).await?, own, "{site}");
    }
    Ok(())
}

#[tokio::test]
async fn where_third_parties_are_blocked_a_frame_has_no_session() -> Result<()> {
    let shop = Shop::open_for(&policy(false), &third_parties(true)).await?;
    shop.visit("/").await?;
    let own = one_session(&shop).await?;
    frame(&shop, OTHER).await?;
    let (backends, sent) = session(&shop).await?;
    assert_eq!((backends.len(), sent), (3, BTreeSet::from([None])), "{backends:?}");
    shop.visit("/").await?;
    assert_eq!(one_session(&shop).await?, own);
    Ok(())
}

/// Each embedding site has a session in the frame, and the shop itself has another one.
#[tokio::test]
async fn a_partitioned_cookie_is_a_session_for_each_site() -> Result<()> {
    for blocked in [false, true] {
        let shop = Shop::open_for(&policy(true), &third_parties(blocked)).await?;
        shop.visit("/").await?;
        let own = one_session(&shop).await?;
        let mut framed = Vec::new();
        for site in [OTHER, THIRD] {
            frame(&shop, site).await?;
            framed.push(one_session(&shop).await?);
        }
        assert!(framed[0] != framed[1] && !framed.contains(&own), "{own} {framed:?}");
        for (site, session) in [OTHER, THIRD].iter().zip(&framed) {
            frame(&shop, site).await?;
            assert_eq!(&one_session(&shop).await?, session, "{site}");
        }
        shop.visit("/").await?;
        assert_eq!(one_session(&shop).await?, own);
    }
    Ok(())
}

/// With `Strict` or `Lax`, whatever the browser blocks.
#[tokio::test]
async fn a_strict_cookie_never_reaches_a_frame() -> Result<()> {
    for (same_site, blocked) in [("Strict", false), ("Strict", true), ("Lax", false), ("Lax", true)] {
        let cookie = json!({"name": COOKIE, "sameSite": same_site, "secure": "always", "forward": true});
        let shop = Shop::open_for(&json!({"cookie": cookie}), &third_parties(blocked)).await?;
        frame(&shop, OTHER).await?;
        let (backends, sent) = session(&shop).await?;
        assert_eq!(
            (backends.len(), sent),
            (3, BTreeSet::from([None])),
            "{same_site}, {blocked}"
        );
        assert_eq!(shop.site.envoy.metric("web.issued").await?, 7, "{same_site}, {blocked}");
    }
    Ok(())
}
