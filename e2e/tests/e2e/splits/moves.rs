//! Applications move sessions of a split within the service that answered.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Carrier};
use serde_json::{Value, json};

use super::rule::Rule;
use super::site::{self, Session, SplitSite, service, split};

const MOVE: &str = "x-move";

fn policies(strict: bool) -> Value {
    let mut policies = site::policies(strict);
    for carrier in Carrier::ALL {
        policies[carrier.name()]["move"] = json!({"header": MOVE});
    }
    policies
}

fn rules(strict: bool, [v1, v2]: [u32; 2]) -> [Rule; 2] {
    site::rules(strict, &[("shop-v1", v1), ("shop-v2", v2)]).map(Rule::moving)
}

async fn started(strict: bool, weights: [u32; 2]) -> Result<SplitSite> {
    SplitSite::start(split(&rules(strict, weights), &policies(strict))?).await
}

async fn change(site: &mut SplitSite, strict: bool, weights: [u32; 2], newcomers: &str) -> Result<()> {
    let are_there = |answer: &Answer| service(answer) == Some(newcomers);
    site.change(
        &rules(strict, weights),
        &format!("new clients go to {newcomers}"),
        are_there,
    )
    .await
}

fn neighbour(site: &mut SplitSite, backend: &str) -> Result<(String, SocketAddr)> {
    let (service, own) = backend.split_once('/').context("a backend of no service")?;
    let name = format!("{service}/{}", if own == "a" { "b" } else { "a" });
    let address = site.backend(&name)?.address();
    Ok((name, address))
}

async fn tell(site: &SplitSite, session: &mut Session, to: SocketAddr) -> Result<Answer> {
    let request = site.envoy.get(&session.carrier.path());
    let answer = session.send(request.answered_with(MOVE, to.to_string())).await?;
    assert_eq!((answer.status, answer.header(MOVE)), (200, None), "{session:?}");
    Ok(answer)
}

/// Moves the session to the other backend of its service, where it stays.
async fn moved(site: &mut SplitSite, session: &mut Session) -> Result<()> {
    let (name, address) = neighbour(site, &session.backend)?;
    let told = tell(site, session, address).await?;
    assert_eq!(told.backend(), Some(session.backend.as_str()), "{session:?}");
    assert!(session.carrier.token(&told).is_some(), "no token for the new backend");
    session.backend = name;
    let arrived = session.go_on(&site.envoy).await?;
    assert_eq!(arrived.backend(), Some(session.backend.as_str()), "{session:?}");
    assert!(
        session.carrier.token(&arrived).is_some(),
        "nothing says that it has arrived"
    );
    session.stays(&site.envoy, 10).await
}

#[tokio::test]
async fn a_session_moves_within_its_service_at_any_weight() -> Result<()> {
    for strict in [false, true] {
        let mut site = started(strict, [100, 0]).await?;
        let mut sessions = Vec::new();
        for carrier in Carrier::ALL {
            let mut session = Session::begin(&site.envoy, carrier).await?;
            assert!(session.backend.starts_with("shop-v1/"), "{session:?}");
            moved(&mut site, &mut session).await?;
            sessions.push(session);
        }
        change(&mut site, strict, [0, 100], "shop-v2").await?;
        for session in &mut sessions {
            session.stays(&site.envoy, 20).await?;
            moved(&mut site, session).await?;
        }
        change(&mut site, strict, [1, 999], "shop-v2").await?;
        for session in &mut sessions {
            session.stays(&site.envoy, 20).await?;
            let counter = |name| format!("{}.{name}", session.carrier.name());
            assert_eq!(site.envoy.metric(&counter("moved")).await?, 2, "strict: {strict}");
            assert_eq!(site.envoy.metric(&counter("renewed")).await?, 2, "strict: {strict}");
            assert_eq!(site.envoy.metric(&counter("refused_moves")).await?, 0);
            assert_eq!(site.envoy.metric(&counter("refused.unknown_destination")).await?, 0);
        }
    }
    Ok(())
}

/// The weights change between the application's answer and the next request.
#[tokio::test]
async fn a_session_arrives_whatever_becomes_of_the_weights() -> Result<()> {
    for strict in [false, true] {
        let mut site = started(strict, [100, 0]).await?;
        let mut sessions = Vec::new();
        for carrier in Carrier::ALL {
            let mut session = Session::begin(&site.envoy, carrier).await?;
            let (name, address) = neighbour(&mut site, &session.backend)?;
            tell(&site, &mut session, address).await?;
            session.backend = name;
            sessions.push(session);
        }
        change(&mut site, strict, [0, 100], "shop-v2").await?;
        for session in &mut sessions {
            let arrived = session.go_on(&site.envoy).await?;
            assert_eq!(arrived.backend(), Some(session.backend.as_str()), "strict: {strict}");
            session.stays(&site.envoy, 20).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_session_of_a_split_may_begin_at_a_named_backend() -> Result<()> {
    let mut site = started(false, [0, 100]).await?;
    for carrier in Carrier::ALL {
        for name in ["shop-v2/a", "shop-v2/b"] {
            let to = site.backend(name)?.address().to_string();
            let first = site.envoy.get(&carrier.path()).answered_with(MOVE, to).send().await?;
            let mut session = Session {
                carrier,
                token: carrier.token(&first).context("no session began")?,
                backend: name.to_owned(),
            };
            let arrived = session.go_on(&site.envoy).await?;
            assert_eq!(arrived.backend(), Some(name));
            session.stays(&site.envoy, 6).await?;
        }
    }
    Ok(())
}

/// Envoy searches only the session's cluster, whether that has all the weight or none.
#[tokio::test]
async fn a_backend_of_the_other_service_is_refused_and_counted() -> Result<()> {
    for (strict, at_weight_zero) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut site = started(strict, [100, 0]).await?;
        let mut sessions = Vec::new();
        for carrier in Carrier::ALL {
            sessions.push(Session::begin(&site.envoy, carrier).await?);
        }
        if at_weight_zero {
            change(&mut site, strict, [0, 100], "shop-v2").await?;
        }
        let elsewhere = site.backend("shop-v2/a")?;
        let (to, requests) = (elsewhere.address(), elsewhere.requests());
        for session in &mut sessions {
            tell(&site, session, to).await?;
            let back = session.go_on(&site.envoy).await?;
            assert_eq!(
                (back.status, service(&back)),
                (200, Some("shop-v1")),
                "strict: {strict}"
            );
            assert!(session.carrier.token(&back).is_some(), "no token for {session:?}");
            let refused = format!("{}.refused_moves", session.carrier.name());
            assert_eq!(site.envoy.metric(&refused).await?, 1, "strict: {strict}");
            session.backend = back.backend().unwrap_or_default().to_owned();
            session.stays(&site.envoy, 10).await?;
            assert_eq!(site.envoy.metric(&refused).await?, 1, "strict: {strict}");
        }
        assert_eq!(site.backend("shop-v2/a")?.requests(), requests, "it was reached");
        let line = format!("{MOVE}: {to} is no host of the cluster, or not available: 127.0.0.1:");
        assert!(site.envoy.log()?.contains(&line), "{}", site.envoy.log()?);
    }
    Ok(())
}
