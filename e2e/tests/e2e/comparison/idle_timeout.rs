use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

/// There is no setting, and use does not renew the cookie.
#[tokio::test]
async fn envoy_has_none() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = native(&backends).await?;
    let session = Session::begin(envoy.address()).await?;
    assert!(session.send().await?.set_cookies().is_empty());
    pass(3.0).await;
    assert!(session.holds().await?);
    assert!(session.send().await?.set_cookies().is_empty());
    Ok(())
}

/// HAProxy's date in its cookie: 30 bits in base64, in steps of 4 seconds, rounded up.
fn haproxys_date(cookie: &SetCookie) -> Result<u64> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let date = cookie.value.split('|').nth(1).context("no date")?;
    let mut steps = 0;
    for digit in date.chars() {
        steps = steps * 64 + DIGITS.find(digit).context("no digit")? as u64;
    }
    Ok(steps * 4)
}

#[tokio::test]
async fn haproxy_has_maxidle() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie limpet-session insert indirect maxidle 2", &backends).await?;
    let before = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let unused = Session::begin(haproxy.address()).await?;
    let ahead = haproxys_date(&unused.cookie)?.saturating_sub(before);
    assert!(ahead <= 4, "{ahead} s");
    let mut used = Session::begin(haproxy.address()).await?;
    while unused.holds().await? {
        keep_up(&mut used).await?;
        assert!(
            unused.since.elapsed() < Duration::from_secs(15),
            "the session does not end"
        );
        pass(0.3).await;
    }
    assert!(unused.since.elapsed() > Duration::from_secs(2));
    assert!(used.holds().await?);
    Ok(())
}

#[tokio::test]
async fn limpet_has_one() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = limpet(&json!({"idleTimeout": "3s"}), &backends).await?;
    let unused = Session::begin(envoy.address()).await?;
    let mut used = Session::begin(envoy.address()).await?;
    while unused.holds().await? {
        keep_up(&mut used).await?;
        assert!(
            unused.since.elapsed() < Duration::from_secs(15),
            "the session does not end"
        );
        pass(0.3).await;
    }
    assert!(unused.since.elapsed() > Duration::from_secs(3));
    assert!(used.holds().await?);
    Ok(())
}

async fn keep_up(session: &mut Session) -> Result<()> {
    let answer = session.send().await?;
    assert_eq!(answer.backend(), Some(session.backend.as_str()));
    if let Some(cookie) = answer.set_cookies().into_iter().next() {
        session.cookie = cookie;
    }
    Ok(())
}
