//! Sessions that end with the application's logout.

use super::*;

#[tokio::test]
async fn the_logout_of_the_application_ends_the_session() -> Result<()> {
    let site = Site::start(config()?).await?;
    let mut visitor = site.visitor();
    for round in 1..=2 {
        let login = setting(&mut visitor, &site, LOGIN).await?;
        assert_kept(&mut visitor, login.backend()).await?;
        let logout = setting(&mut visitor, &site, LOGOUT).await?;
        assert_eq!(logout.backend(), login.backend());
        assert_eq!(logout.set_cookies().len(), 2, "the application's and the session's");
        assert_eq!(logout.header("cache-control"), Some("private"));
        assert_eq!(visitor.cookie_names(), [""; 0]);
        assert_balanced(&mut visitor).await?;
        assert_eq!(site.envoy.metric("web.ended").await?, round);
    }
    Ok(())
}

/// A browser keeps a cookie unless the deletion has the same Path, Domain and Partitioned.
#[tokio::test]
async fn the_deletion_is_that_of_the_cookie_that_was_set() -> Result<()> {
    for cookie in [
        json!({"name": SESSION}),
        json!({
            "name": SESSION, "path": "/shop", "domain": "example.com", "secure": "always", "sameSite": "None",
            "partitioned": true, "httpOnly": false,
        }),
    ] {
        let site = site(&json!({"cookie": cookie, "end": {"cookie": "login"}})).await?;
        for scheme in ["http", "https"] {
            let request = || site.envoy.get("/").header("x-forwarded-proto", scheme);
            let set = request().send().await?.set_cookie(SESSION).context("no cookie")?;
            let request = request().cookie(set.pair());
            let logout = request.answered_with("set-cookie", LOGOUT).send().await?;
            let deletion = logout.set_cookie(SESSION).context("no deletion")?;
            assert_eq!(
                (deletion.value.as_str(), deletion.attribute("Max-Age")),
                ("", Some("0"))
            );
            let ends = |attribute: &&String| attribute.starts_with("Max-Age=") || attribute.starts_with("Expires=");
            let others: BTreeSet<_> = deletion.attributes.iter().filter(|one| !ends(one)).collect();
            assert_eq!(others, set.attributes.iter().collect());
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_response_of_a_logout_has_no_token() -> Result<()> {
    let site = site(&json!({"end": {"cookie": "login"}, "tell": {"header": {"name": "x-session"}}})).await?;
    for cookie in [
        LOGOUT,
        "login=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        "login=x; Expires=Thu, 1 Jan 1970 00:00:00 -0000",
        "login=x; Expires=Thu Jan 01 1970 00:00:00 GMT+0000 (UTC)",
        "login=",
    ] {
        let answer = site.envoy.get("/").answered_with("set-cookie", cookie).send().await?;
        let deletion = answer
            .set_cookie(SESSION)
            .context("a browser may have a cookie that it did not send")?;
        assert_eq!(
            (deletion.value.as_str(), answer.header("x-session")),
            ("", None),
            "{cookie}"
        );
    }
    assert_eq!(site.envoy.metric("web.ended").await?, 0, "no session lived");
    assert_eq!(site.envoy.metric("web.issued").await?, 0);
    Ok(())
}

/// Envoy, or a filter behind Limpet, may answer for the application.
#[tokio::test]
async fn a_logout_that_envoy_answers_ends_the_session() -> Result<()> {
    let session = json!({"filter_metadata": {"limpet": {"session": "web/shop"}}});
    let config = config()?.routes(json!([
        {
            "match": {"prefix": "/logout"},
            "direct_response": {"status": 200},
            "response_headers_to_add": [{"header": {"key": "set-cookie", "value": LOGOUT}}],
            "metadata": session,
        },
        {"match": {"prefix": "/"}, "route": {"cluster": "backends"}, "metadata": session},
    ]));
    let site = Site::start(config).await?;
    let mut visitor = site.visitor();
    let login = setting(&mut visitor, &site, LOGIN).await?;
    assert_kept(&mut visitor, login.backend()).await?;
    let logout = visitor.get("/logout").await?;
    assert_eq!(
        (logout.status, visitor.cookie_names()),
        (200, vec![""; 0]),
        "{logout:?}"
    );
    assert_balanced(&mut visitor).await
}
