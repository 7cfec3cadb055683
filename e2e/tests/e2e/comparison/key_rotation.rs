use super::*;

fn keys(keys: &Value) -> Result<Config> {
    Ok(Config::load("two-keys.yaml")?.filter(&json!({
        "keys": keys,
        "policies": {"web": {"cookie": {"name": COOKIE}}},
        "default": {"policy": "web", "scope": "default"},
    })))
}

/// A `backend` section has one key at a time.
#[tokio::test]
async fn haproxys_new_key_ends_all_sessions() -> Result<()> {
    let backends = Backend::three()?;
    let before = haproxy_with_key("one", &backends).await?;
    let mut session = Session::begin(before.address()).await?;
    let same = haproxy_with_key("one", &backends).await?;
    session.at = same.address();
    assert!(session.holds().await?);
    let after = haproxy_with_key("two", &backends).await?;
    session.at = after.address();
    assert!(!session.holds().await?);
    Ok(())
}

#[tokio::test]
async fn limpet_honours_the_old_key_until_it_is_removed() -> Result<()> {
    let backends = Backend::three()?;
    let start = async |list: &Value| Envoy::serve(keys(list)?.backends(&backends)).await;
    let before = start(&json!([{"id": 1, "env": "LIMPET_KEY_1"}])).await?;
    let mut session = Session::begin(before.address()).await?;
    let old = session.cookie.clone();

    let both = json!([{"id": 1, "env": "LIMPET_KEY_1", "state": "retiring"}, {"id": 2, "env": "LIMPET_KEY_2"}]);
    let during = start(&both).await?;
    session.at = during.address();
    assert!(session.holds().await?);
    session.cookie = session
        .send()
        .await?
        .set_cookie(COOKIE)
        .context("no token of the new key")?;

    let after = start(&json!([{"id": 2, "env": "LIMPET_KEY_2"}])).await?;
    session.at = after.address();
    assert!(session.holds().await?);
    assert!(!session.holds_with(&old.pair()).await?);
    Ok(())
}
