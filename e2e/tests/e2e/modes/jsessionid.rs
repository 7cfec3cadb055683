//! Sessions of a servlet container, from login to logout.

use anyhow::{Context, Result};
use limpet_e2e::{Config, Site, Visitor};
use serde_json::json;

use super::applications::ServletApplication;
use super::*;

fn token_and_id(visitor: &Visitor, login: &Answer) -> Result<(String, String)> {
    let id = String::from_utf8(login.body.to_vec())?;
    let kept = visitor.cookie(COOKIE).context("no session")?;
    Ok((Mode::CookiePrefix.token(kept, &id)?.to_owned(), id))
}

/// Twice. The application gets exactly its own ids, and its baskets stay in one backend's memory.
#[tokio::test]
async fn a_servlet_session_works_from_login_to_logout() -> Result<()> {
    let config = Config::load("cookie.yaml")?.policy(&Mode::CookiePrefix.policy(&json!({})));
    let site = Site::start_speaking(config, &[ServletApplication::shared()]).await?;
    let mut visitor = site.visitor();
    for _ in 0..6 {
        let answer = visitor.get("/shop/welcome").await?;
        assert!(answer.set_cookies().is_empty(), "a cookie was set before the login");
    }
    assert_eq!(site.envoy.metric("web.issued").await?, 0);

    let mut former = String::new();
    for round in ["the first", "the next"] {
        let login = visitor.get("/shop/login").await?;
        let (token, id) = token_and_id(&visitor, &login)?;
        assert_ne!(token, former, "{round}");
        assert_eq!(
            fields_without(&login, "set-cookie", &token),
            [
                "theme=dark".to_owned(),
                format!("{COOKIE}=TOKEN~{id}; Path=/shop; HttpOnly; SameSite=Lax")
            ],
            "{round}"
        );
        for count in 1..=20 {
            let answer = visitor.get("/shop/add").await?;
            assert_eq!((answer.status, answer.backend()), (200, login.backend()), "{round}");
            assert_eq!(answer.body, count.to_string(), "{round}");
            assert!(answer.set_cookies().is_empty(), "{round}");
        }

        // A login within the session: a new id and a new token at the same backend.
        until_another_time().await;
        let again = visitor.get("/shop/login").await?;
        assert_eq!(again.backend(), login.backend(), "{round}");
        let (next_token, next_id) = token_and_id(&visitor, &again)?;
        assert!(next_token != token && next_id != id, "{round}");
        assert_eq!(
            visitor.get("/shop/add").await?.body,
            "1",
            "{round}: the basket is not new"
        );

        let logout = visitor.get("/shop/logout").await?;
        assert_eq!(logout.body, "true", "{round}: the application did not end its session");
        assert_eq!(
            fields_without(&logout, "set-cookie", "no token"),
            [
                "theme=dark",
                "JSESSIONID=; Max-Age=0; Expires=Thu, 01-Jan-1970 00:00:10 GMT; Path=/shop; HttpOnly"
            ],
            "{round}"
        );
        assert_eq!(visitor.cookie(COOKIE), None, "{round}");
        assert_eq!(visitor.get("/shop/add").await?.status, 401, "{round}");
        former = token;
    }
    assert_eq!(site.envoy.metric("web.issued").await?, 2);
    assert_eq!(site.envoy.metric("web.renewed").await?, 2);
    assert_eq!(site.envoy.metric("web.reissued").await?, 0);
    Ok(())
}
