//! Sessions that their application moves to another backend.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Backend, Config, Request, Site, Visitor};
use serde_json::{Value, json};

const COOKIE: &str = "limpet-session";
const MOVE: &str = "x-move";

fn policy(fields: &Value) -> Value {
    let mut policy = json!({"cookie": {"name": COOKIE}, "move": {"header": "X-Move"}});
    for (name, field) in fields.as_object().into_iter().flatten() {
        policy[name] = field.clone();
    }
    policy
}

async fn site(fields: &Value) -> Result<Site> {
    Site::start(Config::load("cookie.yaml")?.policy(&policy(fields))).await
}

/// A request to which the backend answers that the session moves there.
async fn moving(site: &Site, visitor: &mut Visitor, to: impl ToString) -> Result<Answer> {
    let request = site.envoy.get("/").answered_with(MOVE, to.to_string());
    let answer = visitor.send(request).await?;
    assert_eq!(
        (answer.status, answer.header(MOVE)),
        (200, None),
        "clients see the header"
    );
    Ok(answer)
}

/// The backends that did not answer.
fn others(site: &Site, answer: &Answer) -> Result<[(String, SocketAddr); 2]> {
    let other = |backend: &&Backend| Some(backend.name()) != answer.backend();
    let others = site.backends.iter().filter(other);
    let others: Vec<_> = others
        .map(|backend| (backend.name().to_owned(), backend.address()))
        .collect();
    others.try_into().ok().context("two other backends")
}

/// An address of the backends' network at which nobody listens.
fn nowhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 9], 9))
}

#[tokio::test]
async fn a_session_goes_where_its_application_says() -> Result<()> {
    let site = site(&json!({})).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    for (number, (name, address)) in (1..).zip(others(&site, &first)?) {
        let before = visitor.get("/").await?;
        let told = moving(&site, &mut visitor, address).await?;
        assert_eq!(told.backend(), before.backend());
        assert!(told.set_cookie(COOKIE).is_some(), "no token for the new backend");
        assert_eq!(told.header("cache-control"), Some("private"));
        let arrived = visitor.get("/").await?;
        assert_eq!(arrived.backend(), Some(name.as_str()));
        assert!(arrived.set_cookie(COOKIE).is_some(), "nothing says that it has arrived");
        for _ in 0..6 {
            let answer = visitor.get("/").await?;
            assert_eq!((answer.backend(), answer.set_cookies().len()), (Some(name.as_str()), 0));
        }
        assert_eq!(site.envoy.metric("web.moved").await?, number);
        assert_eq!(site.envoy.metric("web.renewed").await?, number);
    }
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_session_may_begin_at_another_backend() -> Result<()> {
    let site = site(&json!({})).await?;
    for http2 in [false, true] {
        let mut visitor = site.visitor();
        let request = |to: SocketAddr| site.envoy.get("/").answered_with(MOVE, to.to_string());
        let request = |to| if http2 { request(to).http2() } else { request(to) };
        let c = site.backends[2].address();
        let first = visitor.send(request(c)).await?;
        assert_eq!(first.header(MOVE), None);
        for _ in 0..6 {
            assert_eq!(visitor.get("/").await?.backend(), Some("c"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_move_to_no_host_is_refused_and_counted() -> Result<()> {
    // A VM says once that a move is refused.
    let config = Config::load("cookie.yaml")?.policy(&policy(&json!({})));
    let site = Site::start(config.alone()).await?;
    let mut visitor = site.visitor();
    moving(&site, &mut visitor, nowhere()).await?;
    assert_eq!(site.envoy.metric("web.moved").await?, 1);
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 0, "nobody knows yet");
    let back = visitor.get("/").await?;
    assert_eq!(back.status, 200);
    assert!(back.set_cookie(COOKIE).is_some());
    for _ in 0..6 {
        assert_eq!(visitor.get("/").await?.backend(), back.backend());
    }
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 1);
    assert_eq!(site.envoy.metric("web.reissued").await?, 1);
    let log = site.envoy.log()?;
    let line = "policy web: x-move: 127.0.0.9:9 is no host of the cluster, or not available";
    assert!(log.contains(line), "{log}");
    Ok(())
}

#[tokio::test]
async fn what_names_no_backend_leaves_the_session_where_it_is() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?.policy(&policy(&json!({}))).workers(1)).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    let port = site.backends[0].address().port();
    let values = [
        String::new(),
        "a".to_owned(),
        "backend.example:80".to_owned(),
        "127.0.0.1".to_owned(),
        "127.0.0.1:0".to_owned(),
        format!("0.0.0.0:{port}"),
        format!("127.0.0.1:{port}, 127.0.0.1:{port}"),
        format!("[fe80::1%lo]:{port}"),
        "[::1]".to_owned(),
        "9".repeat(50 * 1024),
    ];
    let count = values.len() as u64;
    for value in values {
        let told = moving(&site, &mut visitor, &value).await?;
        assert_eq!(
            (told.backend(), told.set_cookies().len()),
            (first.backend(), 0),
            "{value}"
        );
    }
    let twice = site.envoy.get("/").answered_with(MOVE, format!("127.0.0.1:{port}"));
    let told = visitor
        .send(twice.answered_with(MOVE, format!("127.0.0.1:{port}")))
        .await?;
    assert_eq!((told.backend(), told.header(MOVE)), (first.backend(), None));
    assert_eq!(site.envoy.metric("web.refused_moves").await?, count + 1);
    assert_eq!(site.envoy.metric("web.moved").await?, 0);
    assert_eq!(
        site.envoy.log()?.matches("policy web: x-move").count(),
        1,
        "one line of the only worker"
    );
    Ok(())
}

#[tokio::test]
async fn a_move_locks_no_strict_session_out() -> Result<()> {
    let config = Config::load("cookie.yaml")?.policy(&policy(&json!({"strict": true})));
    let mut site = Site::start(config.moving_strict_routes()).await?;
    let mut visitor = site.visitor();
    visitor.get("/").await?;
    moving(&site, &mut visitor, nowhere()).await?;
    let back = visitor.get("/").await?;
    assert_eq!(back.status, 200, "the session is locked out");
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 1);

    let [(name, address), _] = others(&site, &back)?;
    moving(&site, &mut visitor, address).await?;
    for _ in 0..4 {
        assert_eq!(visitor.get("/").await?.backend(), Some(name.as_str()));
    }
    // It has arrived, so it is as strict as others.
    let arrived = visitor.get("/").await?;
    site.stop_backend_of(&arrived).await?;
    assert_eq!(visitor.get("/").await?.status, 503);
    Ok(())
}

#[tokio::test]
async fn a_moving_session_passes_a_backend_that_is_gone() -> Result<()> {
    for strict in [false, true] {
        let config = Config::load("cookie.yaml")?.policy(&policy(&json!({"strict": strict})));
        let mut site = Site::start(config.moving_strict_routes()).await?;
        let mut visitor = site.visitor();
        let [(gone, address), _] = others(&site, &visitor.get("/").await?)?;
        moving(&site, &mut visitor, address).await?;
        site.backend(&gone)?.stop().await;
        // Envoy tries it, and then another one.
        let passed = visitor.get("/").await?;
        assert_eq!(passed.status, 200, "strict: {strict}");
        assert_ne!(passed.backend(), Some(gone.as_str()));
        assert_eq!(site.envoy.metric("web.refused_moves").await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn headers_and_queries_move_sessions_too() -> Result<()> {
    let tell = json!({"header": {"name": "x-session"}});
    for own in [
        json!({"header": {"name": "x-session"}, "move": {"header": MOVE}}),
        json!({"query": {"name": "s"}, "tell": tell, "move": {"header": MOVE}}),
    ] {
        let site = Site::start(Config::load("cookie.yaml")?.policy(&own)).await?;
        let bringing = |token: &str| -> Request {
            match own.get("query") {
                None => site.envoy.get("/").header("x-session", token),
                Some(_) => site.envoy.get(&format!("/?s={token}")),
            }
        };
        let token = |answer: &Answer| answer.header("x-session").map(str::to_owned).context("no token");
        let first = site.envoy.get("/").send().await?;
        let [(name, address), _] = others(&site, &first)?;
        let request = bringing(&token(&first)?).answered_with(MOVE, address.to_string());
        let moved = request.send().await?;
        assert_eq!(moved.header(MOVE), None);
        let arrived = bringing(&token(&moved)?).send().await?;
        assert_eq!(arrived.backend(), Some(name.as_str()));
        for _ in 0..4 {
            let answer = bringing(&token(&arrived)?).send().await?;
            assert_eq!(
                (answer.backend(), answer.header("x-session")),
                (Some(name.as_str()), None)
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_session_of_an_address_moves_too() -> Result<()> {
    let policy = json!({"source": {}, "move": {"header": MOVE}});
    let config = Config::load("source.yaml")?.policy(&policy);
    let site = Site::start(config.cluster(&json!({"lb_policy": "ROUND_ROBIN"}))).await?;
    let first = site.envoy.get("/").send().await?;
    for (name, address) in others(&site, &first)? {
        let told = site
            .envoy
            .get("/")
            .answered_with(MOVE, address.to_string())
            .send()
            .await?;
        assert_eq!(told.header(MOVE), None);
        for _ in 0..6 {
            assert_eq!(site.envoy.get("/").send().await?.backend(), Some(name.as_str()));
        }
    }
    let told = site
        .envoy
        .get("/")
        .answered_with(MOVE, nowhere().to_string())
        .send()
        .await?;
    assert_eq!(told.header(MOVE), None);
    let back = site.envoy.get("/").send().await?;
    for _ in 0..6 {
        assert_eq!(site.envoy.get("/").send().await?.backend(), back.backend());
    }
    assert_eq!(site.envoy.metric("web.moved").await?, 3);
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 1);
    Ok(())
}

/// The address is looked for among the hosts of the session's own cluster only.
#[tokio::test]
async fn a_host_of_another_cluster_is_never_reached() -> Result<()> {
    let site = site(&json!({})).await?;
    let elsewhere = Backend::start("elsewhere")?;
    for _ in 0..6 {
        let mut visitor = site.visitor();
        moving(&site, &mut visitor, elsewhere.address()).await?;
        assert_eq!(visitor.get("/").await?.status, 200);
    }
    assert_eq!(elsewhere.requests(), 0);
    assert_eq!(site.envoy.metric("web.refused_moves").await?, 6);
    Ok(())
}
