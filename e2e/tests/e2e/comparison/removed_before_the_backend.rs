//! Whether the backend sees the session cookie beside the application's.

use super::*;

/// A session, and the cookies that the backend sees beside one of the application's.
async fn seen(at: SocketAddr) -> Result<(Session, Option<String>)> {
    let session = Session::begin(at).await?;
    let cookies = format!("app=1; {}", session.cookie.pair());
    let answer = Request::get(at, "/").cookie(cookies).send().await?;
    assert_eq!(answer.backend(), Some(session.backend.as_str()));
    Ok((session, answer.seen()?.cookies()))
}

#[tokio::test]
async fn envoy_leaves_it() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = native(&backends).await?;
    let (session, seen) = seen(envoy.address()).await?;
    assert_eq!(seen, Some(format!("app=1; {}", session.cookie.pair())));
    Ok(())
}

#[tokio::test]
async fn haproxy_removes_it_with_indirect() -> Result<()> {
    let backends = Backend::three()?;
    let indirect = haproxy("cookie limpet-session insert indirect", &backends).await?;
    assert_eq!(seen(indirect.address()).await?.1.as_deref(), Some("app=1"));
    let plain = haproxy("cookie limpet-session insert", &backends).await?;
    let (session, seen) = seen(plain.address()).await?;
    assert_eq!(seen, Some(format!("app=1; {}", session.cookie.pair())));
    Ok(())
}

#[tokio::test]
async fn limpet_removes_it() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = limpet(&json!({}), &backends).await?;
    assert_eq!(seen(envoy.address()).await?.1.as_deref(), Some("app=1"));
    Ok(())
}
