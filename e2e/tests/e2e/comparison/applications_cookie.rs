//! A session in the application's own cookie, whose value it gets back.

use limpet_e2e::Visitor;

use super::*;

const OWN: &str = "basket7";

async fn begun(at: SocketAddr) -> Result<Session> {
    let answer = Request::get(at, "/")
        .answered_with("set-cookie", format!("limpet-session={OWN}"))
        .send()
        .await?;
    Ok(Session {
        at,
        backend: answer.backend().context("no backend answered")?.to_owned(),
        cookie: answer.set_cookie(COOKIE).context("no cookie was set")?,
        since: Instant::now(),
    })
}

async fn seen(at: SocketAddr, value: &str) -> Result<Option<String>> {
    let answer = Request::get(at, "/")
        .cookie(format!("limpet-session={value}"))
        .send()
        .await?;
    Ok(answer.seen()?.cookies())
}

async fn set(at: SocketAddr, field: &str) -> Result<String> {
    let answer = Request::get(at, "/").answered_with("set-cookie", field).send().await?;
    answer
        .header("set-cookie")
        .context("no cookie was set")
        .map(str::to_owned)
}

async fn with_prefixes(backends: &[Backend]) -> Result<Envoy> {
    limpet(&json!({"cookie": {"name": COOKIE, "mode": "prefix"}}), backends).await
}

/// Envoy's cookie would have the same name. A client keeps one of the two, so the application's is lost.
#[tokio::test]
async fn envoys_cookie_replaces_the_applications() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = native(&backends).await?;
    let mut visitor = Visitor::new(&envoy);
    let request = envoy
        .get("/")
        .answered_with("set-cookie", format!("limpet-session={OWN}; Path=/"));
    let answer = visitor.send(request).await?;
    assert_eq!(answer.set_cookies().len(), 2);
    let seen = visitor.get("/").await?.seen()?.cookies().context("no cookie")?;
    assert!(!seen.contains(OWN), "{seen}");
    Ok(())
}

#[tokio::test]
async fn haproxys_prefix_is_a_name_that_anybody_can_write() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie limpet-session prefix", &backends).await?;
    let session = begun(haproxy.address()).await?;
    assert_eq!(session.cookie.value, format!("{}~{OWN}", session.backend));
    assert!(session.holds().await?);
    assert_eq!(
        session.send().await?.seen()?.cookies(),
        Some(format!("limpet-session={OWN}"))
    );
    for backend in &backends {
        let forged = format!("limpet-session={}~{OWN}", backend.name());
        assert_eq!(reached(haproxy.address(), &forged).await?, one(backend.name()));
    }
    Ok(())
}

/// HAProxy removes what is before the first `~` of the application's own value, leaves quotes behind the prefix, and
/// adds a prefix to a deletion.
#[tokio::test]
async fn haproxy_removes_what_is_before_any_tilde() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie limpet-session prefix", &backends[..1]).await?;
    assert_eq!(
        seen(haproxy.address(), "old").await?.as_deref(),
        Some("limpet-session=old")
    );
    assert_eq!(
        seen(haproxy.address(), "old~value").await?.as_deref(),
        Some("limpet-session=value")
    );
    assert_eq!(
        set(haproxy.address(), "limpet-session=\"x\"").await?,
        "limpet-session=a~\"x\""
    );
    assert_eq!(
        set(haproxy.address(), "limpet-session=x; Max-Age=0").await?,
        "limpet-session=a~x; Max-Age=0"
    );
    assert_eq!(
        set(haproxy.address(), "limpet-session=; Path=/").await?,
        "limpet-session=a~; Path=/"
    );
    Ok(())
}

#[tokio::test]
async fn limpets_prefix_is_a_token_that_nobody_can_write() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = with_prefixes(&backends).await?;
    let session = begun(envoy.address()).await?;
    let (token, own) = session.cookie.value.split_once('~').context("no prefix")?;
    assert_eq!((token.len(), own), (60, OWN));
    assert!(session.holds().await?);
    assert_eq!(
        session.send().await?.seen()?.cookies(),
        Some(format!("limpet-session={OWN}"))
    );
    for backend in &backends {
        for forged in [backend.name(), &BASE64_STANDARD.encode(backend.address().to_string())] {
            assert_eq!(
                reached(envoy.address(), &format!("limpet-session={forged}~{OWN}"))
                    .await?
                    .len(),
                3
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn limpet_removes_nothing_that_is_not_a_token() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = with_prefixes(&backends).await?;
    for value in ["old", "old~value"] {
        assert_eq!(
            seen(envoy.address(), value).await?,
            Some(format!("limpet-session={value}"))
        );
    }
    let quoted = set(envoy.address(), "limpet-session=\"x\"").await?;
    assert!(
        quoted.starts_with("limpet-session=\"EA") && quoted.ends_with("~x\""),
        "{quoted}"
    );
    for field in ["limpet-session=x; Max-Age=0", "limpet-session=; Path=/"] {
        assert_eq!(set(envoy.address(), field).await?, field);
    }
    Ok(())
}
