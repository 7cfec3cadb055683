//! The application's cookies reach the backend unchanged and in order, without Limpet's.

use anyhow::{Context, Result};
use limpet_e2e::{Config, Request, Site};
use serde_json::json;

/// A site, a visitor's cookie, and the name of its backend.
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

/// Cookie fields of a client, where `OURS` stands for Limpet's pair, and the field that the backend gets. Several are
/// joined by `; ` (RFC 9113 section 8.2.3): over HTTP/2 by Envoy, over HTTP/1.1 by the filter.
const CASES: [(&[&str], Option<&str>); 21] = [
    (&["OURS"], None),
    (&["OURS; a=1"], Some("a=1")),
    (&["a=1; OURS"], Some("a=1")),
    (&["a=1; OURS; b=2"], Some("a=1; b=2")),
    (&["a=1;OURS;b=2"], Some("a=1;b=2")),
    (&["a=1; OURS; a=2; a=1"], Some("a=1; a=2; a=1")),
    (&["a=\"1, 2\"; OURS; b=\"\""], Some("a=\"1, 2\"; b=\"\"")),
    (&["a=\"unfinished; OURS; b=2"], Some("a=\"unfinished; b=2")),
    (&["a; OURS; =b; =; c="], Some("a; =b; =; c=")),
    (&["a=b=c==; OURS; d=%20+/~|"], Some("a=b=c==; d=%20+/~|")),
    (
        &["SESSION=x; OURS; session2=y; xsession=z"],
        Some("SESSION=x; session2=y; xsession=z"),
    ),
    (&["a=1;  b = 2 ; OURS; c=3"], Some("a=1;  b = 2 ; c=3")),
    (&["a=1, b=2; OURS"], Some("a=1, b=2")),
    (&["limpet-session=stale; OURS; a=1"], Some("a=1")),
    (&["OURS", "a=1"], Some("a=1")),
    (&["a=1", "OURS"], Some("a=1")),
    (&["a=1", "OURS", "b=2"], Some("a=1; b=2")),
    (&["OURS; a=1", "b=2"], Some("a=1; b=2")),
    (&["a=1", "b=2; OURS; c=3", "d=4"], Some("a=1; b=2; c=3; d=4")),
    (&["a=\"1,2\"", "OURS", "b=3,4"], Some("a=\"1,2\"; b=3,4")),
    (&["limpet-session=stale; a=1", "OURS; b=2"], Some("a=1; b=2")),
];

#[tokio::test]
async fn cookies_arrive_unchanged_and_in_order() -> Result<()> {
    for http2 in [false, true] {
        let config = Config::load("cookie.yaml")?;
        let (site, ours, backend) = visited(if http2 { config.http2_upstream() } else { config }).await?;
        for (fields, expected) in CASES {
            let request = with_fields(site.envoy.get("/"), fields, &ours);
            let answer = if http2 { request.http2() } else { request }.send().await?;
            assert_eq!(answer.seen()?.cookies().as_deref(), expected, "{fields:?}");
            assert_eq!(
                answer.backend(),
                Some(&*backend),
                "{fields:?} does not keep the session"
            );
        }
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
async fn the_session_is_found_in_a_cookie_field_of_60_kib() -> Result<()> {
    let room = json!({"max_request_headers_kb": 96});
    let (site, ours, backend) = visited(Config::load("cookie.yaml")?.connection_manager(&room)).await?;
    let large = format!("large={}", "x".repeat(60 * 1024));
    let answer = site.envoy.get("/").cookie(format!("{large}; {ours}")).send().await?;
    assert_eq!(answer.backend(), Some(&*backend));
    assert_eq!(answer.seen()?.cookies(), Some(large));
    Ok(())
}

/// The filter reads only a few values of its cookie's name, which bounds its work.
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
