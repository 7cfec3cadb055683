//! A token as a prefix of the application's header.

use anyhow::{Context, Result};
use hyper::Method;
use limpet_e2e::{Config, Request, Site};

use super::applications::{MCP_SESSION, McpServer};
use super::*;

/// With the configuration that people copy.
#[tokio::test]
async fn an_mcp_session_works_from_beginning_to_end() -> Result<()> {
    let site = Site::start_speaking(Config::load("prefix.yaml")?, &[McpServer::shared()]).await?;
    let request = |method: Method| site.envoy.get("/mcp").method(method);
    for http2 in [false, true] {
        let over = |request: Request| if http2 { request.http2() } else { request };
        let initialized = over(request(Method::POST)).send().await?;
        let session = initialized.header(MCP_SESSION).context("no session")?;
        let (token, own) = session.split_once('~').context("no token")?;
        assert_eq!(token.len(), 60);
        assert!(
            session.bytes().all(|byte| byte.is_ascii_graphic()),
            "a request without a session got another status"
        );
        for method in [Method::POST, Method::GET, Method::POST].into_iter().cycle().take(20) {
            let answer = over(request(method)).header("Mcp-Session-Id", session).send().await?;
            assert_eq!((answer.status, answer.backend()), (200, initialized.backend()));
            assert_eq!(answer.body, own, "the application did not get its own id");
            assert_eq!(answer.header(MCP_SESSION), None);
        }
        let ended = over(request(Method::DELETE))
            .header(MCP_SESSION, session)
            .send()
            .await?;
        assert_eq!((ended.status, ended.backend()), (204, initialized.backend()));
        let over_now = over(request(Method::POST)).header(MCP_SESSION, session).send().await?;
        assert_eq!((over_now.status, over_now.backend()), (404, initialized.backend()));
    }
    assert_eq!(request(Method::GET).send().await?.status, 400);
    let [issued, steered] = [
        site.envoy.metric("mcp.issued").await?,
        site.envoy.metric("mcp.steered").await?,
    ];
    assert_eq!((issued, steered), (2, 44));
    Ok(())
}

/// The application knows neither ended sessions nor another backend's. The client begins a new one.
#[tokio::test]
async fn an_mcp_session_whose_backend_has_gone_begins_again() -> Result<()> {
    let mut site = Site::start_speaking(Config::load("prefix.yaml")?, &[McpServer::shared()]).await?;
    let first = site.envoy.get("/mcp").method(Method::POST).send().await?;
    let session = first.header(MCP_SESSION).context("no session")?.to_owned();
    site.stop_backend_of(&first).await?;
    let request = || site.envoy.get("/mcp").method(Method::POST);
    let unknown = request().header(MCP_SESSION, &session).send().await?;
    assert_eq!(unknown.status, 404);
    assert_ne!(unknown.backend(), first.backend());
    assert_eq!(unknown.body, session.split_once('~').context("no token")?.1);
    let second = request().send().await?;
    let session = second.header(MCP_SESSION).context("no new session")?;
    for _ in 0..6 {
        let answer = request().header(MCP_SESSION, session).send().await?;
        assert_eq!((answer.status, answer.backend()), (200, second.backend()));
    }
    Ok(())
}

/// Fields of the client, where `TOKEN` is its session's, and those that the application gets.
const REQUESTS: [(&[&str], &[&str]); 10] = [
    (&["TOKEN~abc"], &["abc"]),
    (&["TOKEN~a~b"], &["a~b"]),
    (&["\"TOKEN~abc\""], &["\"abc\""]),
    (&["TOKEN~a, b ,c"], &["a, b ,c"]),
    (&["TOKEN~a, TOKEN~b"], &["a, b"]),
    (&["TOKEN~a", "TOKEN~b"], &["a,b"]),
    (&["FORGED~a,old,TOKEN~b"], &["a,old,b"]),
    (&["TOKEN~TOKEN~abc"], &["TOKEN~abc"]),
    // No value is left, so there is no header.
    (&["TOKEN~"], &[]),
    (&["\"TOKEN~\""], &["\"\""]),
];

#[tokio::test]
async fn the_application_gets_its_own_value() -> Result<()> {
    let site = site_with(Mode::HeaderPrefix).await?;
    let mut client = Client::new(&site.envoy, Mode::HeaderPrefix);
    let first = client.begin("abc").await?;
    let token = client.token("abc")?;
    let filled = |text: &&str| text.replace("TOKEN", token).replace("FORGED", FORGED);
    for (sent, expected) in REQUESTS {
        let expected: Vec<_> = expected.iter().map(filled).collect();
        for (name, http2) in [("X-Session", false), (HEADER, true)] {
            let request = if http2 {
                site.envoy.get("/").http2()
            } else {
                site.envoy.get("/")
            };
            let request = sent
                .iter()
                .fold(request, |request, value| request.header(name, filled(value)));
            let answer = request.send().await?;
            assert_eq!(answer.seen()?.all(HEADER), expected, "{sent:?}");
            assert_eq!(answer.backend(), first.backend(), "{sent:?} does not keep the session");
            assert_eq!(answer.header(HEADER), None);
        }
    }
    Ok(())
}
