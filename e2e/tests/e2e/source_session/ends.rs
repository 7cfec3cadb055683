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
