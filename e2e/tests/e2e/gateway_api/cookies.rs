//! How long cookie sessions last, which requests have them, and the application's own cookies.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::header::HeaderValue;
use limpet_e2e::{Answering, Backend, Config, Envoy, Request, SetCookie, Site, filter_with, poll};
use serde_json::json;

async fn first_cookie(envoy: &Envoy, path: &str) -> Result<SetCookie> {
    let first = envoy.get(path).send().await?;
    first.set_cookie("limpet-session").context("no cookie")
}

/// The token has the end, so every Envoy knows it.
#[tokio::test]
async fn check_06_a_session_cookies_token_limits_its_lifespan() -> Result<()> {
    let policy = json!({"cookie": {"name": "limpet-session"}, "absoluteTimeout": "3s"});
    let backends = Backend::three()?;
    let config = Config::load("cookie.yaml")?.policy(&policy).backends(&backends);
    let (one, other) = tokio::try_join!(Envoy::serve(config.clone()), Envoy::serve(config))?;
    let begun = Instant::now();
    let first = one.get("/").send().await?;
    let cookie = first.set_cookie("limpet-session").context("no cookie")?;
    assert_eq!((cookie.attribute("Expires"), cookie.attribute("Max-Age")), (None, None));
    let replay = async |envoy: &Envoy| envoy.get("/").cookie(cookie.pair()).send().await;
    let kept = replay(&other).await?;
    assert_eq!(kept.backend(), first.backend());
    assert!(kept.set_cookies().is_empty());

    poll::until("the session to end", async || {
        let answer = replay(&other).await.ok()?;
        answer.set_cookie("limpet-session")
    })
    .await?;
    // The timeout of 3 s, less a margin.
    assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
    let ended = replay(&one).await?;
    assert_eq!(ended.status, 200);
    assert!(ended.set_cookie("limpet-session").is_some(), "the session did not end");
    for envoy in [&one, &other] {
        assert_eq!(envoy.metric("web.refused.expired").await?, 1);
    }
    Ok(())
}

/// A token reissued because of `idleTimeout` ends when the first one would have.
#[tokio::test]
async fn check_07_a_permanent_cookie_lasts_for_the_absolute_timeout() -> Result<()> {
    let cookie = json!({"name": "limpet-session", "lifetimeType": "Permanent"});
    let policy = json!({"cookie": cookie, "absoluteTimeout": "1h", "idleTimeout": "10s"});
    let site = Site::with_policy(&policy).await?;
    let mut visitor = site.visitor();
    let first = visitor
        .get("/")
        .await?
        .set_cookie("limpet-session")
        .context("no cookie")?;
    assert_eq!(first.attribute("Max-Age"), Some("3600"));
    let reissued = poll::until("the token to be issued again", async || {
        visitor.get("/").await.ok()?.set_cookie("limpet-session")
    })
    .await?;
    assert_eq!(site.envoy.metric("web.renewed").await?, 1);
    assert_eq!(reissued.attribute("Expires"), first.attribute("Expires"));
    let left: u32 = reissued.attribute("Max-Age").context("no Max-Age")?.parse()?;
    assert!((3500..3600).contains(&left), "{left}");

    let without = filter_with(&json!({"cookie": cookie}));
    let (accepted, said) = Envoy::validate(&Config::load("cookie.yaml")?.filter(&without)).await?;
    assert!(!accepted && said.contains("absoluteTimeout"), "{said}");
    Ok(())
}

/// The path is `/` since release 1.6 of the API. A rule's path, as in the older text, can be configured.
#[tokio::test]
async fn check_08_the_cookies_path_is_the_configured_one() -> Result<()> {
    for (cookie, path) in [
        (json!({"name": "limpet-session"}), "/"),
        (json!({"name": "limpet-session", "path": "/p1/p2"}), "/p1/p2"),
    ] {
        let site = Site::with_policy(&json!({"cookie": cookie})).await?;
        for request in ["/", "/p1/p2/foo/p3", "/other"] {
            let cookie = first_cookie(&site.envoy, request).await?;
            assert_eq!(cookie.attribute("Path"), Some(path), "{request}");
        }
    }
    Ok(())
}

/// The application's cookies are unchanged, also in several fields over HTTP/2.
#[tokio::test]
async fn check_10_multiple_cookies_are_handled() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let first = site.envoy.get("/").send().await?;
    let ours = first.set_cookie("limpet-session").context("no cookie")?.pair();
    let fields = [
        "a=1; a=\"2, 3\"; limpet-session=stale; =b",
        &format!("c; {ours}; a=\"4; d=e=f; a=1"),
    ];
    for _ in 0..4 {
        let mut answers = Vec::new();
        for request in [site.envoy.get("/"), site.envoy.get("/").http2()] {
            let request = fields.iter().fold(request, Request::cookie);
            answers.push(request.send().await?);
        }
        for answer in answers {
            assert_eq!(answer.backend(), first.backend());
            assert!(answer.set_cookies().is_empty());
            let seen = answer.seen()?.cookies();
            assert_eq!(seen.as_deref(), Some("a=1; a=\"2, 3\"; =b; c; a=\"4; d=e=f; a=1"));
        }
    }
    Ok(())
}

/// Byte for byte and in order, on a route with a session and on one without.
#[tokio::test]
async fn check_11_a_backends_set_cookie_is_forwarded_unchanged() -> Result<()> {
    let fields = [
        "JSESSIONID=\"a,b\"; path=/shop;HTTPONLY ; Max-Age=060",
        "JSESSIONID=2;expires=Thu, 01-Jan-70 00:00:00 GMT",
        "no-value;; Priority=High",
    ];
    let site = Site::start(Config::load("cookie.yaml")?.both_carriers(&json!({}))).await?;
    let answering = |answering: Answering, field: &&str| answering.header("set-cookie", field);
    for backend in &site.backends {
        backend.answer(fields.iter().fold(Answering::ok(), answering));
    }
    for (path, own) in [("/cookie", 1), ("/", 0)] {
        let answer = site.envoy.get(path).send().await?;
        let all = answer.headers.get_all("set-cookie").iter();
        let (ours, others): (Vec<_>, Vec<_>) = all
            .map(HeaderValue::as_bytes)
            .partition(|field| field.starts_with(b"limpet-session="));
        assert_eq!(others, fields.map(str::as_bytes), "{path}");
        assert_eq!(ours.len(), own, "{path}");
    }
    Ok(())
}

/// A session survives when idle for less than the timeout, but not for more than 1.1 times it.
#[tokio::test]
async fn check_22_a_session_that_was_idle_for_too_long_is_invalid() -> Result<()> {
    let survives = async {
        let site = Site::with_policy(&json!({"cookie": {"name": "limpet-session"}, "idleTimeout": "3s"})).await?;
        let mut visitor = site.visitor();
        let first = visitor.get("/").await?;
        // The sum is longer than the timeout.
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(1800)).await;
            assert_eq!(visitor.get("/").await?.backend(), first.backend());
        }
        ensure!(
            site.envoy.metric("web.issued").await? == 1,
            "the session did not survive"
        );
        ensure!(site.envoy.metric("web.renewed").await? > 0, "the token was not renewed");
        anyhow::Ok(())
    };
    let ends = async {
        let site = Site::with_policy(&json!({"cookie": {"name": "limpet-session"}, "idleTimeout": "1s"})).await?;
        let pair = first_cookie(&site.envoy, "/").await?.pair();
        // 1.1 times the timeout, and a margin.
        tokio::time::sleep(Duration::from_millis(3200)).await;
        let answer = site.envoy.get("/").cookie(pair).send().await?;
        ensure!(answer.set_cookie("limpet-session").is_some(), "the session survived");
        ensure!(site.envoy.metric("web.refused.idle").await? == 1);
        anyhow::Ok(())
    };
    tokio::try_join!(survives, ends)?;
    Ok(())
}
