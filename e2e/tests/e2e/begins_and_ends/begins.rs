//! Sessions that begin with what the application sets, or with requests of some methods.

use hyper::Method;

use super::*;

#[tokio::test]
async fn a_visitor_is_balanced_until_the_login() -> Result<()> {
    let mut site = Site::start(config()?).await?;
    let mut visitor = site.visitor();
    assert_balanced(&mut visitor).await?;
    assert_eq!(site.envoy.metric("web.issued").await?, 0);

    let login = setting(&mut visitor, &site, LOGIN).await?;
    assert_eq!(login.set_cookies().len(), 2, "the application's and the session's");
    assert_eq!(login.header("cache-control"), Some("private"));
    assert_kept(&mut visitor, login.backend()).await?;

    // A session that lives gets another backend without another login.
    site.stop_backend_of(&login).await?;
    let moved = visitor.get("/").await?;
    assert_ne!(moved.backend(), login.backend());
    assert!(moved.set_cookie(SESSION).is_some());
    assert_kept(&mut visitor, moved.backend()).await?;
    assert_eq!(site.envoy.metric("web.issued").await?, 1);
    assert_eq!(site.envoy.metric("web.reissued").await?, 1);
    Ok(())
}

#[tokio::test]
async fn other_cookies_begin_no_session() -> Result<()> {
    let site = Site::start(config()?).await?;
    for cookie in ["other=abc", "Login=abc", "login=; Path=/", LOGOUT] {
        let answer = site.envoy.get("/").answered_with("set-cookie", cookie).send().await?;
        // The application's deletion takes the session's cookie with it.
        let set = answer.set_cookie(SESSION);
        assert!(set.is_none_or(|cookie| cookie.value.is_empty()), "{cookie}");
    }
    let both = site
        .envoy
        .get("/")
        .answered_with("set-cookie", "login=; Path=/old; Max-Age=0");
    let answer = both.answered_with("set-cookie", LOGIN).http2().send().await?;
    assert_eq!(answer.set_cookies().len(), 3, "{answer:?}");
    assert_eq!(site.envoy.metric("web.issued").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_header_of_the_application_begins_a_session() -> Result<()> {
    let site = site(&json!({"begin": {"header": "X-User"}})).await?;
    let mut visitor = site.visitor();
    assert_balanced(&mut visitor).await?;
    let login = visitor.send(site.envoy.get("/").answered_with("x-user", "7")).await?;
    assert_eq!(login.header("x-user"), Some("7"), "the client sees it as before");
    assert!(login.set_cookie(SESSION).is_some());
    assert_kept(&mut visitor, login.backend()).await
}

#[tokio::test]
async fn only_requests_of_a_method_begin_a_session() -> Result<()> {
    let site = site(&json!({"begin": {"methods": ["POST", "PUT"]}})).await?;
    for (method, begins) in [
        (Method::POST, true),
        (Method::PUT, true),
        (Method::HEAD, false),
        (Method::DELETE, false),
    ] {
        for http2 in [false, true] {
            let mut visitor = site.visitor();
            assert_balanced(&mut visitor).await?;
            let request = site.envoy.get("/").method(method.clone());
            let answer = visitor.send(if http2 { request.http2() } else { request }).await?;
            assert_eq!(answer.set_cookie(SESSION).is_some(), begins, "{method}");
            if begins {
                assert_kept(&mut visitor, answer.backend()).await?;
            }
        }
    }
    Ok(())
}

/// A token that is refused is no session: its client is balanced, and gets another one with the next login.
#[tokio::test]
async fn a_refused_token_begins_nothing() -> Result<()> {
    let site = site(&json!({"begin": {"cookie": "login"}, "absoluteTimeout": "2s"})).await?;
    let mut visitor = site.visitor();
    let login = setting(&mut visitor, &site, LOGIN).await?;
    assert_kept(&mut visitor, login.backend()).await?;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_balanced(&mut visitor).await?;
    let mut forger = site.visitor();
    forger.keep(SESSION, "forged");
    assert_balanced(&mut forger).await?;
    assert_eq!(site.envoy.metric("web.refused.expired").await?, 12);
    assert_eq!(site.envoy.metric("web.refused.malformed").await?, 12);
    assert_eq!(site.envoy.metric("web.issued").await?, 1);
    let again = setting(&mut visitor, &site, LOGIN).await?;
    assert!(again.set_cookie(SESSION).is_some());
    Ok(())
}
