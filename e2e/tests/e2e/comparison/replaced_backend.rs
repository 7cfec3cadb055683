//! A backend is gone and another one has its address, as happens with pods.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

/// The new one is named `new`.
async fn replace(backends: &mut [Backend; 3], session: &mut Session) -> Result<()> {
    let old = backends.iter_mut().find(|backend| backend.name() == session.backend);
    let old = old.context("another test's backend answered")?;
    old.stop().await;
    *old = Backend::start_at("new", old.address())?;
    "new".clone_into(&mut session.backend);
    Ok(())
}

#[tokio::test]
async fn envoy_continues_the_session_on_the_new_one() -> Result<()> {
    let mut backends = Backend::three()?;
    let envoy = native(&backends).await?;
    let mut session = Session::begin(envoy.address()).await?;
    replace(&mut backends, &mut session).await?;
    assert!(session.holds().await?);
    Ok(())
}

#[tokio::test]
async fn haproxy_continues_the_session_on_the_new_one() -> Result<()> {
    let mut backends = Backend::three()?;
    let haproxy = haproxy("cookie limpet-session insert indirect", &backends).await?;
    let mut session = Session::begin(haproxy.address()).await?;
    replace(&mut backends, &mut session).await?;
    assert!(session.holds().await?);
    Ok(())
}

/// The operator can give HAProxy's new server another cookie value.
#[tokio::test]
async fn haproxy_ends_the_session_if_the_server_has_a_new_value() -> Result<()> {
    let backends = Backend::three()?;
    let with = |suffix: &str| {
        let servers = servers(&backends, |name| format!("cookie {name}{suffix}"));
        section("cookie limpet-session insert indirect", &servers)
    };
    let before = Haproxy::start(&with("1")).await?;
    let mut session = Session::begin(before.address()).await?;
    assert!(session.holds().await?);
    let after = Haproxy::start(&with("2")).await?;
    session.at = after.address();
    assert!(!session.holds().await?);
    Ok(())
}

#[tokio::test]
async fn limpet_continues_the_session_without_a_fence() -> Result<()> {
    let mut backends = Backend::three()?;
    let envoy = limpet(&json!({}), &backends).await?;
    let mut session = Session::begin(envoy.address()).await?;
    replace(&mut backends, &mut session).await?;
    assert!(session.holds().await?);
    Ok(())
}

#[tokio::test]
async fn limpet_ends_the_session_if_there_is_a_fence() -> Result<()> {
    let mut backends = Backend::three()?;
    let mut filter = limpet_e2e::filter_with(&json!({"cookie": {"name": COOKIE}}));
    let mut envoy = Envoy::serve(Config::load("ecds.yaml")?.filter(&filter).backends(&backends)).await?;
    let mut session = Session::begin(envoy.address()).await?;
    replace(&mut backends, &mut session).await?;
    assert!(session.holds().await?);

    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    filter["fences"] = json!([{"address": "127.0.0.1", "notBefore": now + 1}]);
    envoy.update(|config| config.filter(&filter))?;
    session.until_it_ends().await?;
    assert!(envoy.metric("web.refused.fenced").await? > 0);
    // Tokens issued from now on are younger than the fence.
    pass(1.1).await;
    assert!(Session::begin(envoy.address()).await?.holds().await?);
    Ok(())
}
