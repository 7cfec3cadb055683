//! A token as a prefix of the application's cookie.

use anyhow::{Context, Result};
use limpet_e2e::{Config, Site};
use serde_json::json;

use super::*;

fn policy() -> Value {
    Mode::CookiePrefix.policy(&json!({}))
}

/// A site, what a client keeps whose application set `own`, and its backend's name.
async fn with_session(config: Config, own: &str) -> Result<(Site, String, String)> {
    let site = Site::start(config.policy(&policy())).await?;
    let mut client = Client::new(&site.envoy, Mode::CookiePrefix);
    let backend = client.begin(own).await?.backend().context("no backend")?.to_owned();
    Ok((site, client.token(own)?.to_owned(), backend))
}

/// Set-Cookie fields of the application, and what clients without a session get.
const ANSWERS: [(&[&str], &[&str]); 15] = [
    (&["JSESSIONID=abc"], &["JSESSIONID=TOKEN~abc"]),
    (
        &["JSESSIONID=abc;Path=/a;  secure ;HttpOnly; SameSite=None;Unknown=\"x\";"],
        &["JSESSIONID=TOKEN~abc;Path=/a;  secure ;HttpOnly; SameSite=None;Unknown=\"x\";"],
    ),
    (
        &["JSESSIONID=abc; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"],
        &["JSESSIONID=TOKEN~abc; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"],
    ),
    (&["JSESSIONID=a~b"], &["JSESSIONID=TOKEN~a~b"]),
    (&["JSESSIONID=~"], &["JSESSIONID=TOKEN~~"]),
    (&["JSESSIONID=a=b=="], &["JSESSIONID=TOKEN~a=b=="]),
    (&["JSESSIONID=\"abc\"; Path=/"], &["JSESSIONID=\"TOKEN~abc\"; Path=/"]),
    (&["JSESSIONID=\"abc"], &["JSESSIONID=TOKEN~\"abc"]),
    (
        &["a=1", "JSESSIONID=x; Path=/a", "b=2", "JSESSIONID=y; Path=/b", "a=3"],
        &[
            "a=1",
            "JSESSIONID=TOKEN~x; Path=/a",
            "b=2",
            "JSESSIONID=TOKEN~y; Path=/b",
            "a=3",
        ],
    ),
    (
        &[
            "JSESSIONID=; Path=/a",
            "JSESSIONID=y; Path=/b",
            "JSESSIONID=z; Max-Age=0",
        ],
        &[
            "JSESSIONID=; Path=/a",
            "JSESSIONID=TOKEN~y; Path=/b",
            "JSESSIONID=z; Max-Age=0",
        ],
    ),
    // Empty fields are removed.
    (&["", "a=1", "", "JSESSIONID=x", ""], &["a=1", "JSESSIONID=TOKEN~x"]),
    // A date that is not in one of HTTP's formats.
    (
        &["JSESSIONID=abc; Expires=1970-01-01T00:00:00Z"],
        &["JSESSIONID=TOKEN~abc; Expires=1970-01-01T00:00:00Z"],
    ),
    // A session of another Limpet behind this one.
    (
        &["JSESSIONID=EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA~abc"],
        &["JSESSIONID=TOKEN~EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA~abc"],
    ),
    (
        &["a=1; JSESSIONID=x", "JSESSIONID=y"],
        &["a=1; JSESSIONID=x", "JSESSIONID=TOKEN~y"],
    ),
    (&["JSESSIONID = abc"], &["JSESSIONID = TOKEN~abc"]),
];

#[tokio::test]
async fn the_applications_cookie_gets_a_token_and_loses_nothing() -> Result<()> {
    let site = site_with(Mode::CookiePrefix).await?;
    for (sent, expected) in ANSWERS {
        let request = site.envoy.get("/");
        let request = sent
            .iter()
            .fold(request, |request, field| request.answered_with("set-cookie", field));
        let answer = request.send().await?;
        let prefixed = answer
            .set_cookies()
            .into_iter()
            .find(|cookie| cookie.name == COOKIE && cookie.value.len() > 60);
        let value = prefixed.with_context(|| format!("no token: {sent:?}"))?.value;
        let token = value.trim_start_matches('"').get(..60).unwrap_or_default();
        assert_eq!(fields_without(&answer, "set-cookie", token), expected);
    }
    assert_eq!(site.envoy.metric("web.issued").await?, ANSWERS.len() as u64);
    Ok(())
}

/// Cookie fields of the client, where `TOKEN` is its session's, and those that the application gets.
const REQUESTS: [(&[&str], &str); 13] = [
    (&["JSESSIONID=TOKEN~abc"], "JSESSIONID=abc"),
    (&["a=1; JSESSIONID=TOKEN~abc; b=2"], "a=1; JSESSIONID=abc; b=2"),
    (
        &["a=1;JSESSIONID=TOKEN~a~b=c;  b = \"x;"],
        "a=1;JSESSIONID=a~b=c;  b = \"x;",
    ),
    (&["JSESSIONID=\"TOKEN~abc\""], "JSESSIONID=\"abc\""),
    (&["JSESSIONID=TOKEN~"], "JSESSIONID="),
    (&["JSESSIONID=\"TOKEN~\""], "JSESSIONID=\"\""),
    (&["JSESSIONID = TOKEN~abc ; a=1"], "JSESSIONID = abc ; a=1"),
    // Only the first prefix is this Limpet's.
    (&["JSESSIONID=TOKEN~TOKEN~abc"], "JSESSIONID=TOKEN~abc"),
    // Cookies of other paths. All lose their prefixes, and the first good token counts.
    (
        &["JSESSIONID=TOKEN~x; JSESSIONID=TOKEN~y"],
        "JSESSIONID=x; JSESSIONID=y",
    ),
    (
        &["JSESSIONID=FORGED~x; JSESSIONID=TOKEN~y"],
        "JSESSIONID=x; JSESSIONID=y",
    ),
    (
        &["JSESSIONID=old; JSESSIONID=TOKEN~y; JSESSIONID="],
        "JSESSIONID=old; JSESSIONID=y; JSESSIONID=",
    ),
    // Several fields, as in HTTP/2.
    (&["a=1", "JSESSIONID=TOKEN~abc", "b=2"], "a=1; JSESSIONID=abc; b=2"),
    (
        &["JSESSIONID=FORGED~x; a=1", "b=2; JSESSIONID=TOKEN~y"],
        "JSESSIONID=x; a=1; b=2; JSESSIONID=y",
    ),
];

#[tokio::test]
async fn the_application_gets_its_own_value() -> Result<()> {
    for http2 in [false, true] {
        let config = Config::load("cookie.yaml")?;
        let (site, token, backend) = with_session(if http2 { config.http2_upstream() } else { config }, "abc").await?;
        let filled = |text: &str| text.replace("TOKEN", &token).replace("FORGED", FORGED);
        for (fields, expected) in REQUESTS {
            let request = site.envoy.get("/");
            let request = fields
                .iter()
                .fold(request, |request, field| request.cookie(filled(field)));
            let answer = if http2 { request.http2() } else { request }.send().await?;
            assert_eq!(answer.seen()?.cookies(), Some(filled(expected)), "{fields:?}");
            assert_eq!(
                answer.backend(),
                Some(&*backend),
                "{fields:?} does not keep the session"
            );
            assert!(answer.set_cookies().is_empty(), "{fields:?}");
        }
        assert_eq!(site.envoy.metric("web.steered").await?, REQUESTS.len() as u64);
    }
    Ok(())
}

#[tokio::test]
async fn bytes_beyond_ascii_come_back_unchanged() -> Result<()> {
    let site = site_with(Mode::CookiePrefix).await?;
    let own = b"\xe9\xff\x80\xc3\xa9~\xff";
    let set = [b"JSESSIONID=", &own[..], b"; Path=/"].concat();
    let answer = site.envoy.get("/").answered_with("set-cookie", set).send().await?;
    let field = answer.headers.get("set-cookie").context("no cookie")?.as_bytes();
    let kept = field.strip_suffix(b"; Path=/").context("no attributes")?;
    assert!(kept.ends_with(own) && kept.len() == "JSESSIONID=".len() + 61 + own.len());
    let request = [b"a=\xff; ", kept].concat();
    let again = site.envoy.get("/").cookie(request).send().await?;
    assert_eq!(again.backend(), answer.backend());
    let latin1: String = own.iter().copied().map(char::from).collect();
    assert_eq!(again.seen()?.cookies(), Some(format!("a=\u{ff}; JSESSIONID={latin1}")));
    Ok(())
}

/// All reach the application. The filter looks for tokens only in the first few.
#[tokio::test]
async fn a_thousand_cookies_of_the_name_reach_the_application() -> Result<()> {
    let (site, token, _) = with_session(Config::load("cookie.yaml")?, "abc").await?;
    let pairs = |prefix: &str| {
        (0..400)
            .map(|n| format!("{COOKIE}={prefix}{n}"))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let field = format!("{}; {COOKIE}={token}~abc", pairs(&format!("{FORGED}~")));
    let answer = site.envoy.get("/").cookie(field).send().await?;
    assert_eq!(answer.seen()?.cookies(), Some(format!("{}; {COOKIE}=abc", pairs(""))));
    assert_eq!(
        site.envoy.metric("web.refused.bad_signature").await?,
        1,
        "more than the first few values were read"
    );
    Ok(())
}

#[tokio::test]
async fn values_of_two_clients_do_not_mix() -> Result<()> {
    let site = site_with(Mode::CookiePrefix).await?;
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..20 {
        let mut client = Client::new(&site.envoy, Mode::CookiePrefix);
        clients.spawn(async move {
            let own = format!("client{n}~");
            let backend = client.begin(&own).await?.backend().map(str::to_owned);
            client.assert_holds(backend.as_deref(), &own).await
        });
    }
    clients.join_all().await.into_iter().collect()
}
