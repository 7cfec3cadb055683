//! Sessions that only POST requests begin.

use hyper::Method;

use super::*;

async fn answer(at: SocketAddr, method: Method, cookie: Option<&str>) -> Result<Answer> {
    let request = Request::get(at, "/").method(method);
    let request = match cookie {
        Some(cookie) => request.cookie(cookie),
        None => request,
    };
    request.send().await
}

/// Checks that GETs get no cookie and reach all backends. Returns a session that a POST began.
async fn begun(at: SocketAddr) -> Result<Session> {
    let mut reached = BTreeSet::new();
    for _ in 0..6 {
        let answer = answer(at, Method::GET, None).await?;
        assert!(answer.set_cookies().is_empty());
        reached.insert(answer.backend().unwrap_or_default().to_owned());
    }
    assert_eq!(reached.len(), 3);
    let posted = answer(at, Method::POST, None).await?;
    let session = Session {
        at,
        backend: posted.backend().context("no backend answered")?.to_owned(),
        cookie: posted.set_cookie(COOKIE).context("no cookie was set")?,
        since: Instant::now(),
    };
    assert!(session.holds().await?);
    Ok(session)
}

/// Stops the session's backend. Returns whether a GET and then a POST get a cookie.
async fn moved(session: &Session, backends: &mut [Backend]) -> Result<[bool; 2]> {
    for backend in backends.iter_mut().filter(|backend| backend.name() == session.backend) {
        backend.stop().await;
    }
    let cookie = session.cookie.pair();
    let mut gets_cookie = [false; 2];
    for (gets_cookie, method) in gets_cookie.iter_mut().zip([Method::GET, Method::POST]) {
        let answer = answer(session.at, method, Some(&cookie)).await?;
        assert_eq!(answer.status, 200);
        assert_ne!(answer.backend(), Some(session.backend.as_str()));
        *gets_cookie = answer.set_cookie(COOKIE).is_some();
    }
    Ok(gets_cookie)
}

/// With `postonly`, a moving session gets no cookie until the next POST.
#[tokio::test]
async fn haproxy_sets_its_cookie_with_posts_alone() -> Result<()> {
    let mut backends = Backend::three()?;
    let lines = "cookie limpet-session insert indirect postonly\nretries 1\noption redispatch 1";
    let haproxy = haproxy(lines, &backends).await?;
    let session = begun(haproxy.address()).await?;
    assert_eq!(moved(&session, &mut backends).await?, [false, true]);
    Ok(())
}

#[tokio::test]
async fn limpets_sessions_begin_with_posts_and_move_with_any_request() -> Result<()> {
    let mut backends = Backend::three()?;
    // One worker takes turns as HAProxy does.
    let policy = json!({"cookie": {"name": COOKIE}, "begin": {"methods": ["POST"]}});
    let config = Config::load("cookie.yaml")?.policy(&policy).workers(1);
    let envoy = Envoy::serve(config.backends(&backends)).await?;
    let session = begun(envoy.address()).await?;
    assert_eq!(moved(&session, &mut backends).await?, [true, true]);
    Ok(())
}
