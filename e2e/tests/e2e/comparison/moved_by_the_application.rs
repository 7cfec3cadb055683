//! The application sends its session to another backend.

use limpet_e2e::Visitor;

use super::*;

const MOVE: &str = "x-move";

/// Where a session was, and where it goes after an answer that sets this field.
async fn goes(at: SocketAddr, name: &str, value: &str) -> Result<(String, BTreeSet<String>)> {
    let mut visitor = Visitor::of(at);
    let before = visitor.get("/").await?;
    let told = visitor.send(Request::get(at, "/").answered_with(name, value)).await?;
    assert_eq!((told.status, told.backend()), (200, before.backend()));
    assert_eq!(told.header(MOVE), None, "the client sees the header");
    let mut reached = BTreeSet::new();
    for _ in 0..6 {
        reached.extend(visitor.get("/").await?.backend().map(str::to_owned));
    }
    Ok((before.backend().context("no backend answered")?.to_owned(), reached))
}

/// With `preserve`, the session goes where the cookie says. A client can write it, too.
#[tokio::test]
async fn haproxys_application_writes_a_servers_name() -> Result<()> {
    let backends = Backend::three()?;
    for (preserve, moves) in [("", false), ("preserve", true)] {
        let haproxy = haproxy(&format!("cookie limpet-session insert indirect {preserve}"), &backends).await?;
        for backend in &backends {
            let pair = format!("{COOKIE}={}", backend.name());
            let (before, after) = goes(haproxy.address(), "set-cookie", &pair).await?;
            let expected = if moves { backend.name() } else { before.as_str() };
            assert_eq!(after, one(expected), "{preserve}");
            assert_eq!(reached(haproxy.address(), &pair).await?, one(backend.name()));
        }
    }
    Ok(())
}

/// Envoy sets its cookie only when the backend changes, so it leaves the application's in a living session. A client
/// can write it, too.
#[tokio::test]
async fn envoys_application_writes_an_address() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = native(&backends).await?;
    for backend in &backends {
        let pair = native_forgery(&backend.address().to_string());
        let (_, after) = goes(envoy.address(), "set-cookie", &pair).await?;
        assert_eq!(after, one(backend.name()));
        assert_eq!(reached(envoy.address(), &pair).await?, one(backend.name()));
    }
    Ok(())
}

#[tokio::test]
async fn limpets_application_names_an_address_in_a_header() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = limpet(&json!({"move": {"header": MOVE}}), &backends).await?;
    for backend in &backends {
        let address = backend.address().to_string();
        let (_, after) = goes(envoy.address(), MOVE, &address).await?;
        assert_eq!(after, one(backend.name()));
        // In a request, the header means nothing.
        let session = Session::begin(envoy.address()).await?;
        let asked = Request::get(envoy.address(), "/").cookie(session.cookie.pair());
        let asked = asked.header(MOVE, &address).send().await?;
        assert_eq!(
            (asked.backend(), asked.set_cookies().len()),
            (Some(&*session.backend), 0)
        );
    }
    Ok(())
}
