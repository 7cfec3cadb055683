//! Sessions for clients that can choose only a URL.

use super::*;

/// The backends that six requests reach, and the query that they see.
async fn reached_by(at: SocketAddr, query: &str) -> Result<(BTreeSet<String>, Option<String>)> {
    let (mut backends, mut seen) = (BTreeSet::new(), None);
    for _ in 0..6 {
        let answer = Request::get(at, &format!("/?{query}")).send().await?;
        backends.insert(answer.backend().unwrap_or("none").to_owned());
        seen = answer.seen()?.query;
    }
    Ok((backends, seen))
}

/// Every client can choose the value, and so a server. The backend sees it.
#[tokio::test]
async fn haproxy_hashes_what_the_client_chooses() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("balance url_param s", &backends).await?;
    let mut chosen = BTreeSet::new();
    for number in 0..30 {
        let query = format!("a=1&s=guess{number}");
        let (reached, seen) = reached_by(haproxy.address(), &query).await?;
        assert_eq!((reached.len(), seen), (1, Some(query)));
        chosen.extend(reached);
    }
    assert_eq!(chosen.len(), 3, "some guess leads to each server");
    let (balanced, _) = reached_by(haproxy.address(), "a=1").await?;
    assert_eq!(balanced.len(), 3);
    Ok(())
}

#[tokio::test]
async fn haproxys_hash_moves_sessions_when_a_server_comes() -> Result<()> {
    let backends = Backend::three()?;
    let two = haproxy("balance url_param s", &backends[..2]).await?;
    let three = haproxy("balance url_param s", &backends).await?;
    let mut moved = 0;
    for number in 0..30 {
        let query = format!("s={number}");
        let before = reached_by(two.address(), &query).await?;
        moved += usize::from(reached_by(three.address(), &query).await? != before);
    }
    assert!(moved > 0, "no session moved, although one of its servers is new");
    Ok(())
}

#[tokio::test]
async fn limpets_query_is_signed_and_kept_from_the_backend() -> Result<()> {
    let backends = Backend::three()?;
    let policy = json!({"query": {"name": "s"}, "tell": {"header": {"name": "x-session"}}});
    let config = |backends| -> Result<Config> { Ok(Config::load("cookie.yaml")?.policy(&policy).backends(backends)) };
    let envoy = Envoy::serve(config(&backends[..2])?).await?;
    let answer = Request::get(envoy.address(), "/").send().await?;
    let token = answer.header("x-session").context("no token")?;
    let session = (one(answer.backend().unwrap_or_default()), Some("a=1".to_owned()));
    assert_eq!(reached_by(envoy.address(), &format!("s={token}&a=1")).await?, session);
    for number in 0..5 {
        let (balanced, _) = reached_by(envoy.address(), &format!("s=guess{number}")).await?;
        assert_eq!(balanced.len(), 2);
    }
    let more = Envoy::serve(config(&backends)?).await?;
    assert_eq!(reached_by(more.address(), &format!("s={token}&a=1")).await?, session);
    Ok(())
}
