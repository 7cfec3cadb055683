//! The application's cookies reach the backend unchanged and in order, without Limpet's cookie.

use anyhow::{Context, Result};
use limpet_e2e::{Config, Request, Site};
use serde_json::json;

/// A site, the `name=value` pair of a visitor's cookie, and the name of the visitor's backend.
async fn visited(config: Config) -> Result<(Site, String, String)> {
    let site = Site::start(config).await?;
    let answer = site.visitor().get("/").await?;
    let pair = answer.set_cookie("limpet-session").context("no cookie was set")?.pair();
    let backend = answer.backend().context("no backend")?.to_owned();
    Ok((site, pair, backend))
}

fn with_fields(mut request: Request, fields: &[&str], ours: &str) -> Request {
    for field in fields {
        request = request.cookie(field.replace("OURS", ours));
    }
    request
}

/// A Cookie field that a client sends, where `OURS` stands for Limpet's pair, and the field that the backend gets.
const ONE_FIELD: [(&[&str], &str); 13] = [
    (&["OURS; a=1"], "a=1"),
    (&["a=1; OURS"], "a=1"),
    (&["a=1; OURS; b=2"], "a=1; b=2"),
    (&["a=1;OURS;b=2"], "a=1;b=2"),
    (&["a=1; OURS; a=2; a=1"], "a=1; a=2; a=1"),
    (&["a=\"1, 2\"; OURS; b=\"\""], "a=\"1, 2\"; b=\"\""),
    (&["a=\"unfinished; OURS; b=2"], "a=\"unfinished; b=2"),
    (&["a; OURS; =b; =; c="], "a; =b; =; c="),
    (&["a=b=c==; OURS; d=%20+/~|"], "a=b=c==; d=%20+/~|"),
    (
        &["SESSION=x; OURS; session2=y; xsession=z"],
        "SESSION=x; session2=y; xsession=z",
    ),
    (&["a=1;  b = 2 ; OURS; c=3"], "a=1;  b = 2 ; c=3"),
    (&["a=1, b=2; OURS"], "a=1, b=2"),
    (&["limpet-session=stale; OURS; a=1"], "a=1"),
];

/// Several Cookie fields, and the field that the backend gets: they are joined by `; ` (RFC 9113 section 8.2.3). Envoy
/// joins fields that come over HTTP/2; over HTTP/1.1 the filter sees separate fields.
const SEVERAL_FIELDS: [(&[&str], &str); 7] = [
    (&["OURS", "a=1"], "a=1"),
    (&["a=1", "OURS"], "a=1"),
    (&["a=1", "OURS", "b=2"], "a=1; b=2"),
    (&["OURS; a=1", "b=2"], "a=1; b=2"),
    (&["a=1", "b=2; OURS; c=3", "d=4"], "a=1; b=2; c=3; d=4"),
    (&["a=\"1,2\"", "OURS", "b=3,4"], "a=\"1,2\"; b=3,4"),
    (&["limpet-session=stale; a=1", "OURS; b=2"], "a=1; b=2"),
];

/// Sends all cases. Each must keep the session, and the other cookies must arrive unchanged.
async fn assert_arrive(cases: &[(&[&str], &str)], http2: bool) -> Result<()> {
    let config = Config::load("cookie.yaml")?;
    let (site, ours, backend) = visited(if http2 { config.http2_upstream() } else { config }).await?;
    for (fields, expected) in cases {
        let request = with_fields(site.envoy.get("/"), fields, &ours);
        let answer = if http2 { request.http2() } else { request }.send().await?;
        assert_eq!(answer.seen()?.cookies().as_deref(), Some(*expected), "{fields:?}");
        assert_eq!(
            answer.backend(),
            Some(&*backend),
            "{fields:?} does not keep the session"
        );
    }
    Ok(())
}

#[tokio::test]
async fn cookies_arrive_unchanged_and_in_order_over_http1() -> Result<()> {
    assert_arrive(&ONE_FIELD, false).await
}

#[tokio::test]
async fn cookies_arrive_unchanged_and_in_order_over_http2() -> Result<()> {
    assert_arrive(&ONE_FIELD, true).await
}

#[tokio::test]
async fn several_fields_arrive_unchanged_and_in_order_over_http1() -> Result<()> {
    assert_arrive(&SEVERAL_FIELDS, false).await
}

#[tokio::test]
async fn several_fields_arrive_unchanged_and_in_order_over_http2() -> Result<()> {
    assert_arrive(&SEVERAL_FIELDS, true).await
}

#[tokio::test]
async fn without_limpets_cookie_the_fields_arrive_unchanged() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    for fields in [
        &["a=1"][..],
        &["a=1; b=\"2\"; a=1"],
        &["a=1", "b=2, c", "=;;"],
        &[";; ;"],
        &["a=\u{e9}\u{df}"],
    ] {
        let seen = with_fields(site.envoy.get("/"), fields, "").send().await?.seen()?;
        let as_latin1: Vec<String> = fields
            .iter()
            .map(|field| field.bytes().map(char::from).collect())
            .collect();
        assert_eq!(seen.all("cookie"), as_latin1);
    }
    Ok(())
}

#[tokio::test]
async fn bytes_beyond_ascii_survive_next_to_limpets_cookie() -> Result<()> {
    let (site, ours, backend) = visited(Config::load("cookie.yaml")?).await?;
    let field = [b"a=\xe9\xff\x80; ", ours.as_bytes(), b"; b=\xc3\xa9"].concat();
    let answer = site.envoy.get("/").cookie(field).send().await?;
    assert_eq!(answer.backend(), Some(&*backend));
    assert_eq!(
        answer.seen()?.cookies().as_deref(),
        Some("a=\u{e9}\u{ff}\u{80}; b=\u{c3}\u{a9}")
    );
    Ok(())
}

#[tokio::test]
async fn limpets_cookie_alone_leaves_no_cookie_field() -> Result<()> {
    let (site, ours, _) = visited(Config::load("cookie.yaml")?).await?;
    for request in [site.envoy.get("/"), site.envoy.get("/").http2()] {
        assert_eq!(request.cookie(&ours).send().await?.seen()?.cookies(), None);
    }
    Ok(())
}

#[tokio::test]
async fn limpets_cookie_may_be_quoted() -> Result<()> {
    let (site, ours, backend) = visited(Config::load("cookie.yaml")?).await?;
    let quoted = format!("{}\"", ours.replacen('=', "=\"", 1));
    for _ in 0..6 {
        let answer = site.envoy.get("/").cookie(format!("a=1; {quoted}")).send().await?;
        assert_eq!(answer.backend(), Some(&*backend));
        assert_eq!(answer.seen()?.cookies().as_deref(), Some("a=1"));
    }
    Ok(())
}

#[tokio::test]
async fn a_refused_cookie_does_not_reach_the_backend() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let answer = site
        .envoy
        .get("/")
        .cookie("a=1; limpet-session=forged; b=2")
        .send()
        .await?;
    assert_eq!(answer.seen()?.cookies().as_deref(), Some("a=1; b=2"));
    Ok(())
}

#[tokio::test]
async fn the_backend_sees_limpets_cookie_if_the_policy_says_so() -> Result<()> {
    let policy = json!({"cookie": {"name": "limpet-session", "forward": true}});
    let (site, ours, backend) = visited(Config::load("cookie.yaml")?.policy(&policy)).await?;
    let field = format!("a=1; {ours}; b=2");
    let answer = site.envoy.get("/").cookie(&field).send().await?;
    assert_eq!(answer.backend(), Some(&*backend));
    assert_eq!(answer.seen()?.cookies(), Some(field));
    Ok(())
}

#[tokio::test]
async fn the_session_is_found_among_two_hundred_cookies() -> Result<()> {
    let (site, ours, backend) = visited(Config::load("cookie.yaml")?).await?;
    let others: Vec<_> = (0..200).map(|n| format!("cookie{n}=value{n}")).collect();
    let field = format!("{}; {ours}; {}", others[..100].join("; "), others[100..].join("; "));
    for request in [site.envoy.get("/"), site.envoy.get("/").http2()] {
        let answer = request.cookie(&field).send().await?;
        assert_eq!(answer.backend(), Some(&*backend));
        assert_eq!(answer.seen()?.cookies(), Some(others.join("; ")));
    }
    Ok(())
}

#[tokio::test]
async fn the_session_is_found_in_a_cookie_field_of_60_kib() -> Result<()> {
    let room = json!({"max_request_headers_kb": 96});
    let (site, ours, backend) = visited(Config::load("cookie.yaml")?.connection_manager(&room)).await?;
    let large = format!("large={}", "x".repeat(60 * 1024));
    let answer = site.envoy.get("/").cookie(format!("{large}; {ours}")).send().await?;
    assert_eq!(answer.backend(), Some(&*backend));
    assert_eq!(answer.seen()?.cookies(), Some(large));
    Ok(())
}

/// The filter reads only a few values of its cookie's name, so that a request cannot cause unlimited work.
#[tokio::test]
async fn thousands_of_forged_tokens_are_ignored() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let field = vec!["limpet-session=AQEAAAAAAAAAAAAAAAAAAAAA"; 1400].join("; ");
    let answer = site.envoy.get("/").cookie(field).send().await?;
    assert_eq!(answer.status, 200);
    assert!(answer.set_cookie("limpet-session").is_some());
    assert_eq!(answer.seen()?.cookies(), None);
    Ok(())
}
