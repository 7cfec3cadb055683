//! Backends drain, fail and are replaced, Envoys restart and reload, keys change. The tests run under load; where it
//! makes a difference, with sessions in cookies and in headers.

mod draining;
mod key_rotation;
mod reload;
mod restarts;
mod reused_addresses;
mod rolling;
mod two_envoys;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use limpet_e2e::{Backend, Crowd, Journey, poll};

/// Waits until a removed backend gets no requests, then stops it.
async fn retire(backend: &mut Backend, crowd: &Crowd) -> Result<()> {
    poll::patiently("a backend to get no more requests", async {
        loop {
            let before = backend.requests();
            crowd.rounds(1).await?;
            if backend.requests() == before {
                return Ok(());
            }
        }
    })
    .await?;
    backend.stop().await;
    Ok(())
}

/// Checks that a session moved only from removed backends, that each move, and nothing else, brought a new token, and
/// that its last backend exists. Returns the number of moves.
fn moved_only_where_it_had_to(journey: &Journey, taken_out: &BTreeMap<String, Instant>) -> Result<usize> {
    let mut with_token = vec![journey.visits[0].begun];
    let mut left = Vec::new();
    for (from, visit) in journey.moves() {
        let gone = taken_out.get(from).is_some_and(|since| *since <= visit.ended);
        ensure!(gone, "a session left {from}, which was not taken out: {visit:#?}");
        ensure!(!left.contains(&from), "a session came back to {from}: {journey:#?}");
        left.push(from);
        with_token.push(visit.begun);
    }
    let tokens: Vec<_> = journey.tokens().iter().map(|visit| visit.begun).collect();
    ensure!(
        tokens == with_token,
        "tokens without moves, or moves without tokens: {journey:#?}"
    );
    let last = journey.visits.last().and_then(|visit| visit.backend());
    ensure!(
        last.is_some_and(|last| !taken_out.contains_key(last)),
        "{last:?} is gone"
    );
    Ok(left.len())
}
