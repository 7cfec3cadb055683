//! What ends a session: its timeout, its backend, a fence, a full table.

use super::*;

/// The wasm filter may note a use up to a hundredth of the timeout late.
#[tokio::test]
async fn an_entry_ends_after_its_last_use() -> Result<()> {
    let site = Site::start(in_turn(&json!({"source": {"timeout": "3s"}}))?).await?;
    let first = backend(&site, 1).await?;
    for _ in 0..3 {
        pass(1.5).await;
        assert_eq!(backend(&site, 1).await?, first);
    }
    assert_eq!(site.envoy.metric("web.refused.idle").await?, 0);
    pass(4.5).await;
    backend(&site, 1).await?;
    assert_eq!(site.envoy.metric("web.refused.idle").await?, 1);
    assert_eq!(site.envoy.metric("web.issued").await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_session_whose_backend_goes_moves_and_stays_there() -> Result<()> {
    let mut site = Site::start(in_turn(&json!({"source": {}}))?.health_checks()).await?;
    let answer = ask(&site, 1).await?;
    let gone = backend_of(&answer)?;
    site.make_unhealthy(&[&gone]).await?;
    let next = backend(&site, 1).await?;
    assert_ne!(next, gone);
    site.backend(&gone)?.set_healthy(true);
    site.envoy.until_stat("cluster.backends.membership_healthy", 3).await?;
    for _ in 0..6 {
        assert_eq!(backend(&site, 1).await?, next);
    }
    assert_eq!(site.envoy.metric("web.reissued").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_strict_session_fails_while_its_backend_is_gone() -> Result<()> {
    let policy = json!({"source": {}, "strict": true, "strictStatus": 421});
    let mut site = Site::start(in_turn(&policy)?.strict_routes().health_checks()).await?;
    let own = backend(&site, 1).await?;
    site.make_unhealthy(&[&own]).await?;
    for _ in 0..4 {
        let answer = ask(&site, 1).await?;
        assert_eq!((answer.status, answer.backend()), (421, None));
    }
    site.backend(&own)?.set_healthy(true);
    site.envoy.until_stat("cluster.backends.membership_healthy", 3).await?;
    site.envoy
        .until_every_worker("takes the backend again", |answer| {
            answer.backend() == Some(own.as_str()) || answer.status == 200
        })
        .await?;
    assert_eq!(backend(&site, 1).await?, own);
    Ok(())
}

#[tokio::test]
async fn a_full_table_loses_the_least_recently_used() -> Result<()> {
    let site = Site::start(in_turn(&json!({"source": {"entries": 3, "timeout": "1h"}}))?).await?;
    let mut own = Vec::new();
    for number in 1..=3 {
        own.push(backend(&site, number).await?);
        pass(0.01).await;
    }
    // The wasm filter notes a use once a second.
    pass(1.1).await;
    assert_eq!(backend(&site, 1).await?, own[0]);
    own.push(backend(&site, 4).await?);
    assert_eq!(site.envoy.metric("web.evicted").await?, 1);
    for number in [1, 3, 4] {
        assert_eq!(
            backend(&site, number).await?,
            own[usize::from(number) - 1],
            "client {number}"
        );
    }
    assert_eq!(site.envoy.metric("web.issued").await?, 4);
    backend(&site, 2).await?;
    assert_eq!(site.envoy.metric("web.issued").await?, 5);
    Ok(())
}

#[tokio::test]
async fn a_fence_ends_the_sessions_of_an_address() -> Result<()> {
    let mut site = Site::start(Config::load("ecds.yaml")?.policy(&json!({"source": {}}))).await?;
    let answer = site.envoy.get("/").from(client(1)).send().await?;
    let own = backend_of(&answer)?;
    let address = site.backend_of(&answer)?.address().to_string();
    let mut filter = limpet_e2e::filter_with(&json!({"source": {}}));
    let later = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_secs()
        + 1;
    filter["fences"] = json!([{"address": address, "notBefore": later}]);
    site.envoy.update(|config| config.filter(&filter))?;
    limpet_e2e::poll::until("the fence", async || {
        site.envoy.get("/").from(client(1)).send().await.ok()?;
        (site.envoy.metric("web.refused.fenced").await.ok()? > 0).then_some(())
    })
    .await?;
    // The sessions of others stay, and the new one counts as soon as the fence is over.
    pass(2.0).await;
    let now = backend(&site, 1).await?;
    let fenced = site.envoy.metric("web.refused.fenced").await?;
    for _ in 0..6 {
        assert_eq!(backend(&site, 1).await?, now, "was {own}");
    }
    assert!(site.envoy.metric("web.refused.fenced").await? <= fenced + 1);
    Ok(())
}
