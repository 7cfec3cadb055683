//! What HAProxy has and Limpet has not.

use limpet_e2e::Answering;

use super::*;

/// A table in the proxy remembers which server a key had; the client carries nothing of HAProxy's.
#[tokio::test]
async fn a_session_by_a_url_parameter_in_a_stick_table() -> Result<()> {
    let backends = Backend::three()?;
    let lines = "stick-table type string len 32 size 1k expire 1m\nstick on url_param(id)";
    let haproxy = haproxy(lines, &backends).await?;
    let mut all = BTreeSet::new();
    for id in ["x", "y", "z"] {
        let mut reached = BTreeSet::new();
        for _ in 0..6 {
            let answer = Request::get(haproxy.address(), &format!("/?id={id}")).send().await?;
            assert!(answer.set_cookies().is_empty());
            reached.insert(answer.backend().unwrap_or("none").to_owned());
        }
        assert_eq!(reached.len(), 1);
        all.append(&mut reached);
    }
    assert_eq!(all.len(), 3);
    Ok(())
}

/// The table learns what the application answers.
#[tokio::test]
async fn a_session_by_a_header_of_the_applications_own() -> Result<()> {
    let backends = Backend::three()?;
    for backend in &backends {
        backend.answer(Answering::ok().header("x-login", &format!("user of {}", backend.name())));
    }
    let lines = "stick-table type string len 32 size 1k expire 1m
        stick match req.hdr(x-login)
        stick store-response res.hdr(x-login)";
    let haproxy = haproxy(lines, &backends).await?;
    for _ in 0..3 {
        let first = Request::get(haproxy.address(), "/").send().await?;
        let login = first.header("x-login").context("no header")?;
        for _ in 0..6 {
            let answer = Request::get(haproxy.address(), "/")
                .header("x-login", login)
                .send()
                .await?;
            assert_eq!(answer.backend(), first.backend());
        }
    }
    Ok(())
}

/// The application's own cookie carries the server's name in front of its value; the application does not see that.
#[tokio::test]
async fn a_prefix_of_the_applications_own_cookie() -> Result<()> {
    let backends = Backend::three()?;
    for backend in &backends {
        backend.answer(Answering::ok().header("set-cookie", "session=basket7"));
    }
    let haproxy = haproxy("cookie session prefix", &backends).await?;
    let session = Session::begin(haproxy.address()).await?;
    assert_eq!(session.cookie.value, format!("{}~basket7", session.backend));
    assert!(session.holds().await?);
    assert_eq!(
        session.send().await?.seen()?.cookies().as_deref(),
        Some("session=basket7")
    );
    Ok(())
}

/// The application decides who gets a session, by a cookie whose value is replaced.
#[tokio::test]
async fn a_cookie_that_the_application_sets_and_haproxy_rewrites() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie session rewrite", &backends).await?;
    assert!(
        Request::get(haproxy.address(), "/")
            .send()
            .await?
            .set_cookies()
            .is_empty()
    );
    for backend in &backends {
        backend.answer(Answering::ok().header("set-cookie", "session=any"));
    }
    let session = Session::begin(haproxy.address()).await?;
    assert_eq!(session.cookie.value, session.backend);
    assert!(session.holds().await?);
    Ok(())
}
