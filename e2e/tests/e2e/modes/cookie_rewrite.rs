//! A token in place of the value of the application's cookie.

use anyhow::{Context, Result};
use limpet_e2e::Request;

use super::*;

#[tokio::test]
async fn the_application_decides_which_clients_are_kept() -> Result<()> {
    let site = site_with(Mode::CookieRewrite).await?;
    let address = site.envoy.address();
    assert_eq!(
        reached(address, "/", &[]).await?.len(),
        3,
        "not all backends were reached"
    );

    let mut visitor = site.visitor();
    let keep = || Request::get(address, "/").answered_with("set-cookie", "JSESSIONID=yes; Path=/; Secure");
    let first = visitor.send(keep()).await?;
    let token = visitor.cookie(COOKIE).context("no session")?.to_owned();
    assert_eq!(
        fields_without(&first, "set-cookie", &token),
        ["JSESSIONID=TOKEN; Path=/; Secure"]
    );
    for _ in 0..20 {
        let answer = visitor.get("/").await?;
        assert_eq!(answer.backend(), first.backend());
        assert_eq!(answer.seen()?.cookies(), Some(format!("{COOKIE}={token}")));
        assert!(answer.set_cookies().is_empty());
    }
    until_another_time().await;
    let again = visitor.send(keep()).await?;
    assert_eq!(again.backend(), first.backend());
    assert_ne!(visitor.cookie(COOKIE), Some(&*token), "there is no new token");

    let deletion = "JSESSIONID=no; Path=/; Max-Age=0";
    let deleted = visitor
        .send(Request::get(address, "/").answered_with("set-cookie", deletion))
        .await?;
    assert_eq!(fields_without(&deleted, "set-cookie", "no token"), [deletion]);
    assert_eq!(visitor.cookie(COOKIE), None);
    assert_eq!(site.envoy.metric("web.issued").await?, 1);
    assert_eq!(site.envoy.metric("web.renewed").await?, 1);
    Ok(())
}
