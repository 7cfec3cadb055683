use super::*;

/// The cookie contains its end, and Envoy checks it.
#[tokio::test]
async fn envoy_has_the_cookies_ttl() -> Result<()> {
    let backends = Backend::three()?;
    let config = native_config(&json!({}), &json!({"ttl": "2s"}))?.backends(&backends);
    let envoy = Envoy::serve(config).await?;
    let session = Session::begin(envoy.address()).await?;
    assert_eq!(session.cookie.attribute("Max-Age"), Some("2"));
    session.until_it_ends().await?;
    Ok(())
}

#[tokio::test]
async fn haproxy_has_maxlife() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie limpet-session insert indirect maxlife 1", &backends).await?;
    let session = Session::begin(haproxy.address()).await?;
    assert!(session.until_it_ends().await? > Duration::from_secs(1));
    Ok(())
}

#[tokio::test]
async fn limpet_has_one() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = limpet(&json!({"absoluteTimeout": "2s"}), &backends).await?;
    let session = Session::begin(envoy.address()).await?;
    assert!(session.until_it_ends().await? > Duration::from_secs(1));
    assert!(envoy.metric("web.refused.expired").await? > 0);
    Ok(())
}
