//! The application decides who gets a session: its cookie's value is replaced.

use super::*;

async fn begun(at: SocketAddr) -> Result<Session> {
    let answer = Request::get(at, "/").send().await?;
    assert!(
        answer.set_cookies().is_empty(),
        "a cookie was set that the application did not set"
    );
    let answer = Request::get(at, "/")
        .answered_with("set-cookie", "limpet-session=any; Path=/")
        .send()
        .await?;
    Ok(Session {
        at,
        backend: answer.backend().context("no backend answered")?.to_owned(),
        cookie: answer.set_cookie(COOKIE).context("no cookie was set")?,
        since: Instant::now(),
    })
}

/// Every first answer sets Envoy's cookie.
#[tokio::test]
async fn envoy_decides_by_itself() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = native(&backends).await?;
    assert_eq!(Request::get(envoy.address(), "/").send().await?.set_cookies().len(), 1);
    Ok(())
}

#[tokio::test]
async fn haproxy_rewrites_it_to_the_servers_name() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie limpet-session rewrite", &backends).await?;
    let session = begun(haproxy.address()).await?;
    assert_eq!(session.cookie.value, session.backend);
    assert!(session.holds().await?);
    for backend in &backends {
        let forged = format!("limpet-session={}", backend.name());
        assert_eq!(reached(haproxy.address(), &forged).await?, one(backend.name()));
    }
    Ok(())
}

#[tokio::test]
async fn limpet_rewrites_it_to_a_token() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = limpet(&json!({"cookie": {"name": COOKIE, "mode": "rewrite"}}), &backends).await?;
    let session = begun(envoy.address()).await?;
    assert_eq!(session.cookie.value.len(), 60);
    assert!(session.holds().await?);
    for backend in &backends {
        for forged in [backend.name(), &BASE64_STANDARD.encode(backend.address().to_string())] {
            assert_eq!(
                reached(envoy.address(), &format!("limpet-session={forged}"))
                    .await?
                    .len(),
                3
            );
        }
    }
    Ok(())
}
