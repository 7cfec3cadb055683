//! Connections that clients share, such as those of a proxy in front of Envoy.

use anyhow::{Result, ensure};
use limpet_e2e::{Carrier, Connection, Request};

use super::{Session, address, site};

#[tokio::test]
async fn sessions_that_take_turns_on_one_connection_do_not_mix() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        for http2 in [false, true] {
            let mut connection = Connection::open(at, http2).await?;
            let mut sessions: Vec<_> = (0..20).map(|_| Session::new(carrier)).collect();
            for _ in 0..4 {
                for session in &mut sessions {
                    session
                        .open_over(&mut connection, Request::get(at, "/"))
                        .await?
                        .rest()
                        .await?;
                }
            }
            assert_spread(&sessions)?;
        }
    }
    Ok(())
}

/// All streams are open at the same time. Each piece must return on its own stream.
#[tokio::test]
async fn sessions_that_share_one_connection_do_not_mix() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut connection = Connection::open(at, true).await?;
        let mut sessions: Vec<_> = (0..50).map(|_| Session::new(carrier)).collect();
        for _ in 0..3 {
            let mut streams = Vec::new();
            for session in &mut sessions {
                let (request, upload) = Request::get(at, "/echo").upload();
                streams.push((session.open_over(&mut connection, request).await?, upload));
            }
            for (number, (_, upload)) in streams.iter_mut().enumerate() {
                upload.send(format!("{number:04}")).await?;
            }
            for (number, (exchange, _)) in streams.iter_mut().enumerate() {
                assert_eq!(exchange.bytes(4).await?, format!("{number:04}").as_bytes());
            }
        }
        assert_spread(&sessions)?;
    }
    Ok(())
}

/// If sessions had mixed, all would be at the first one's backend.
fn assert_spread(sessions: &[Session]) -> Result<()> {
    for backend in ["a", "b", "c"] {
        ensure!(
            sessions.iter().any(|session| session.backend() == backend),
            "no session is at {backend}"
        );
    }
    let mut tokens: Vec<_> = sessions.iter().filter_map(Session::token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    ensure!(tokens.len() == sessions.len(), "clients share tokens");
    Ok(())
}
