use futures_util::future::try_join_all;

use super::*;

/// The backends of 24 clients that ask at the same time.
async fn together(site: &Site) -> Result<Vec<String>> {
    try_join_all((1..=24).map(|number| backend(site, number))).await
}

/// All share one place of the wasm filter's table: at first, a worker may overwrite what others have just noted. The
/// next requests note it again, and then nothing is lost.
#[tokio::test]
async fn who_begins_at_once_has_an_entry_by_the_next_request() -> Result<()> {
    let policy = json!({"source": {"entries": 32}});
    let site = Site::start(in_turn(&policy)?.workers(4)).await?;
    together(&site).await?;
    let kept = together(&site).await?;
    let begun = site.envoy.metric("web.issued").await?;
    for _ in 0..4 {
        assert_eq!(together(&site).await?, kept);
    }
    assert_eq!(site.envoy.metric("web.issued").await?, begun);
    match Build::tested()? {
        Build::Module => assert_eq!(begun, 24),
        Build::Wasm => assert!((24..48).contains(&begun), "{begun}"),
    }
    assert_eq!(site.envoy.metric("host_errors").await?, 0);
    Ok(())
}
