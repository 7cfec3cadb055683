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
