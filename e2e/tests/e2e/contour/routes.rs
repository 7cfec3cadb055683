//! WebSockets, retries and timeouts of routes.

use std::time::{Duration, Instant};

use limpet_e2e::Answering;
use limpet_e2e::protocols::Socket;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::*;

async fn upgrade(site: &Site, path: &str) -> Result<Answer> {
    let request = site
        .get(path)?
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    request.send().await
}

/// Opens a WebSocket and talks over it. Returns the backend and the cookies set.
async fn talk(site: &Site, path: &str, cookie: Option<String>) -> Result<(String, Vec<String>)> {
    let stream = TcpStream::connect(site.http()?).await?;
    let field = cookie.map(|pair| ("cookie", pair));
    let (mut socket, headers) = Socket::handshake_on(stream, &format!("{HOST}{path}"), field).await?;
    let cookies = limpet_e2e::SetCookie::all(&headers).map(|cookie| cookie.pair());
    let cookies = cookies.collect();
    let Message::Text(name) = socket.receive().await? else {
        anyhow::bail!("{path}: no greeting");
    };
    socket.echo("hello").await?;
    Ok((name.to_string(), cookies))
}

#[tokio::test]
async fn websockets_are_refused_unless_a_route_enables_them() -> Result<()> {
    let routes = json!([
        {"match": "/", "services": [sticky("web")]},
        {"match": "/ws", "enableWebsockets": true, "services": [plain("web")]},
        {"match": "/kept", "enableWebsockets": true, "services": [sticky("web")]},
        {"match": "/team", "delegate": {"name": "team"}},
    ]);
    let team = json!([
        {"match": "/team", "services": [plain("web")]},
        {"match": "/team/ws", "enableWebsockets": true, "services": [plain("web")]},
    ]);
    let site = Site::start(Services::start(&[("web", 3)])?, &[root(&routes), vertex("team", &team)]).await?;
    for path in ["/", "/chat", "/team", "/team/chat"] {
        let answer = upgrade(&site, path).await?;
        assert_eq!((answer.status, answer.backend()), (403, None), "{path}");
        assert_eq!(
            site.ask(path).await?.status,
            200,
            "{path}: not even plain requests pass"
        );
    }
    for path in ["/ws", "/ws/chat", "/team/ws"] {
        assert_eq!(talk(&site, path, None).await?.1, [""; 0], "{path}");
    }
    let (first, cookies) = talk(&site, "/kept", None).await?;
    let pair = cookies
        .first()
        .context("the answer that opens a WebSocket has no token")?;
    for _ in 0..5 {
        let (next, cookies) = talk(&site, "/kept", Some(pair.clone())).await?;
        assert_eq!((next, cookies.len()), (first.clone(), 0));
    }
    Ok(())
}

/// Contour 1.0 refused such objects; later ones did not.
#[tokio::test]
async fn several_services_may_have_websockets() -> Result<()> {
    let services = |strategy: &str| {
        let of = |name: &str| json!({"name": name, "port": 80, "strategy": strategy});
        json!([of("one"), of("two")])
    };
    let routes = json!([
        {"match": "/", "enableWebsockets": true, "services": services("RoundRobin")},
        {"match": "/kept", "enableWebsockets": true, "services": services("Cookie")},
    ]);
    let site = Site::start(Services::start(&[("one", 2), ("two", 2)])?, &[root(&routes)]).await?;
    let mut met = Vec::new();
    for _ in 0..40 {
        met.push(talk(&site, "/chat", None).await?.0);
    }
    assert_eq!(shares(&met).len(), 2, "{met:?}");
    for _ in 0..4 {
        let (first, cookies) = talk(&site, "/kept", None).await?;
        for _ in 0..5 {
            let (next, none) = talk(&site, "/kept", cookies.first().cloned()).await?;
            assert_eq!((next, none.len()), (first.clone(), 0));
        }
    }
    Ok(())
}

#[tokio::test]
async fn answers_from_500_on_are_tried_again_as_often_as_said() -> Result<()> {
    let routes = json!([
        {"match": "/", "services": [plain("web")]},
        {"match": "/two", "retryPolicy": {"count": 2}, "services": [plain("web")]},
        // An object without a number means one.
        {"match": "/one", "retryPolicy": {}, "services": [plain("web")]},
        {"match": "/none", "retryPolicy": {"count": 0}, "services": [plain("web")]},
    ]);
    let site = Site::start(Services::start(&[("web", 1)])?, &[root(&routes)]).await?;
    let web = site.services.backend("web/0")?;
    let tried = async |path: &str, failures: usize, status: u16| {
        let before = web.requests();
        (0..failures).for_each(|_| web.answer_next(Answering::status(status)));
        let answered = site.ask(path).await?.status;
        let tries = web.requests() - before;
        // Uses up the failures that were not needed.
        for _ in tries..failures {
            site.ask("/").await?;
        }
        anyhow::Ok((answered, tries))
    };
    assert_eq!(tried("/", 1, 503).await?, (503, 1));
    for status in [500, 502, 503, 504] {
        assert_eq!(tried("/two", 2, status).await?, (200, 3), "{status}");
    }
    assert_eq!(tried("/two", 3, 503).await?, (503, 3));
    assert_eq!(tried("/two", 1, 404).await?, (404, 1));
    for path in ["/one", "/none"] {
        assert_eq!(tried(path, 1, 503).await?, (200, 2), "{path}");
        assert_eq!(tried(path, 2, 503).await?, (503, 2), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn a_try_has_its_own_timeout() -> Result<()> {
    let routes = json!([{
        "match": "/",
        "timeoutPolicy": {"request": "20s"},
        "retryPolicy": {"count": 1, "perTryTimeout": "200ms"},
        "services": [plain("web")],
    }]);
    let site = Site::start(Services::start(&[("web", 1)])?, &[root(&routes)]).await?;
    let web = site.services.backend("web/0")?;
    web.answer_next(Answering::ok().after(Duration::from_secs(10)));
    let began = Instant::now();
    assert_eq!(site.ask("/").await?.status, 200);
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    assert_eq!(web.requests(), 2);
    Ok(())
}

#[tokio::test]
async fn a_request_ends_with_its_timeout() -> Result<()> {
    let routes = json!([
        {"match": "/short", "timeoutPolicy": {"request": "300ms"}, "services": [plain("web")]},
        {"match": "/", "services": [plain("web")]},
    ]);
    let site = Site::start(Services::start(&[("web", 1)])?, &[root(&routes)]).await?;
    let web = site.services.backend("web/0")?;
    web.answer(Answering::ok().after(Duration::from_secs(1)));
    assert_eq!(site.ask("/short").await?.status, 504);
    assert_eq!(site.ask("/").await?.status, 200);
    Ok(())
}

/// Fifteen seconds are Envoy's default, and were Contour's. Envoy must accept all of them.
#[tokio::test]
async fn timeouts_are_those_of_go_and_fifteen_seconds_else() -> Result<()> {
    let durations = [
        ("", "15s"),
        ("infinity", "0s"),
        ("0s", "0s"),
        ("0", "0s"),
        ("1.5h", "5400s"),
        ("1h2m3.5s", "3723.500s"),
        ("+300ms", "0.300s"),
        // Envoy counts milliseconds, and reads 0 as no limit.
        ("10us", "0.001s"),
    ];
    let mut routes = vec![json!({"match": "/absent", "services": [plain("web")]})];
    for (number, (said, _)) in durations.iter().enumerate() {
        let timeout = json!({"request": said});
        routes.push(json!({"match": format!("/{number}"), "timeoutPolicy": timeout, "services": [plain("web")]}));
    }
    let services = Services::start(&[("web", 1)])?;
    let objects = [vec![root(&json!(routes))], services.objects()].concat();
    let rendered = Rendered::valid(&objects, &json!({}))?;
    let expected = durations
        .iter()
        .enumerate()
        .map(|(number, (_, expected))| (number.to_string(), *expected));
    for (path, expected) in expected.chain([("absent".to_owned(), "15s")]) {
        let actions = rendered.actions(&format!("ingressroute/{NAMESPACE}/root//{path}"));
        assert!(!actions.is_empty(), "no route for /{path}");
        for action in actions {
            assert_eq!(seconds(&action["timeout"])?, seconds(&expected.into())?, "/{path}");
        }
    }
    let (accepted, said) = Envoy::validate(&Config::made(rendered.bootstrap)).await?;
    assert!(accepted, "{said}");
    Ok(())
}

/// A duration of Envoy's, in nanoseconds.
fn seconds(duration: &Value) -> Result<u128> {
    let text = duration.as_str().and_then(|text| text.strip_suffix('s'));
    let (whole, part) = text
        .map(|text| text.split_once('.').unwrap_or((text, "")))
        .context("not a duration")?;
    Ok(whole.parse::<u128>()? * 1_000_000_000 + format!("{part:0<9}").parse::<u128>()?)
}
