//! Cookies of the application whose value is replaced by a token.

use anyhow::{Context, Result};
use limpet_e2e::Request;

use super::*;

/// The application decides which client has a session, and from when until when.
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

/// Set-Cookie fields that the application sends, and those that the client gets.
const ANSWERS: [(&[&str], &[&str]); 7] = [
    (&["JSESSIONID=abc"], &["JSESSIONID=TOKEN"]),
    (&["JSESSIONID="], &["JSESSIONID=TOKEN"]),
    (
        &["JSESSIONID=\"a~b\";Path=/a;  HttpOnly;"],
        &["JSESSIONID=TOKEN;Path=/a;  HttpOnly;"],
    ),
    (&["JSESSIONID = abc ; Path=/"], &["JSESSIONID = TOKEN ; Path=/"]),
    (&["JSESSIONID=\u{e9}"], &["JSESSIONID=TOKEN"]),
    (
        &["a=1", "JSESSIONID=x; Path=/a", "JSESSIONID=y; Path=/b", "b=2"],
        &["a=1", "JSESSIONID=TOKEN; Path=/a", "JSESSIONID=TOKEN; Path=/b", "b=2"],
    ),
    (
        &["JSESSIONID=x", "JSESSIONID=y; Expires=Thu, 01 Jan 1970 00:00:00 GMT"],
        &[
            "JSESSIONID=TOKEN",
            "JSESSIONID=y; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        ],
    ),
];

#[tokio::test]
async fn only_the_value_is_replaced() -> Result<()> {
    let site = site_with(Mode::CookieRewrite).await?;
    for (sent, expected) in ANSWERS {
        let request = site.envoy.get("/");
        let request = sent
            .iter()
            .fold(request, |request, field| request.answered_with("set-cookie", field));
        let answer = request.send().await?;
        let token = answer.set_cookie(COOKIE).context("no cookie")?.value;
        assert_eq!(token.len(), 60, "{sent:?}");
        assert_eq!(fields_without(&answer, "set-cookie", &token), expected);
    }
    Ok(())
}

/// The application gets what the client sends. The client gets no token for it.
#[tokio::test]
async fn values_that_are_not_tokens_arrive_unchanged() -> Result<()> {
    let site = site_with(Mode::CookieRewrite).await?;
    let prefixed = format!("{FORGED}~abc");
    for value in ["yes", "", "\"yes\"", "a~b", FORGED, &prefixed] {
        let field = format!("a=1;  JSESSIONID={value}");
        assert_eq!(
            reached(site.envoy.address(), "/", &[("cookie", &field)]).await?.len(),
            3,
            "{field}"
        );
        let answer = site.envoy.get("/").cookie(&field).send().await?;
        assert_eq!(answer.seen()?.all("cookie"), [field]);
        assert!(answer.set_cookies().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn the_first_good_token_of_several_counts() -> Result<()> {
    let site = site_with(Mode::CookieRewrite).await?;
    let mut client = Client::new(&site.envoy, Mode::CookieRewrite);
    let first = client.begin("yes").await?;
    let token = client.token("yes")?;
    for fields in [
        &[format!("{COOKIE}=old; {COOKIE}={FORGED}; {COOKIE}=\"{token}\"; a=1")][..],
        &[
            "a=1".to_owned(),
            format!("{COOKIE}={FORGED}"),
            format!("b=2; {COOKIE}={token}"),
        ],
    ] {
        for http2 in [false, true] {
            let request = if http2 {
                site.envoy.get("/").http2()
            } else {
                site.envoy.get("/")
            };
            let answer = fields.iter().fold(request, Request::cookie).send().await?;
            assert_eq!(answer.backend(), first.backend(), "{fields:?}");
            assert_eq!(answer.seen()?.cookies(), Some(fields.join("; ")));
        }
    }
    Ok(())
}
