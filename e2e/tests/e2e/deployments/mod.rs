//! What a deployment does to sessions: backends drain, fail and are replaced, Envoys restart and reload, keys change. Under load, and with
//! sessions in cookies and in headers where it makes a difference.

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

/// Waits until no more requests come to a backend that was taken out, and stops it, as a pod's preStop hook does.
async fn retire(backend: &mut Backend, crowd: &Crowd) -> Result<()> {
    poll::patiently("requests to stay away from a backend", async {
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

/// A session moved when its backend had been taken out, and at no other time; each move, and nothing else, brought a new token; and in the end
/// it is on a backend that is still there. Says how often it moved.
fn moved_only_where_it_had_to(journey: &Journey, taken_out: &BTreeMap<String, Instant>) -> Result<usize> {
    let mut with_token = vec![journey.visits[0].begun];
    let mut left = Vec::new();
    for (from, visit) in journey.moves() {
        let gone = taken_out.get(from).is_some_and(|since| *since <= visit.ended);
        ensure!(gone, "a session left {from}, which was there: {visit:#?}");
        ensure!(!left.contains(&from), "a session came back to {from}: {journey:#?}");
        left.push(from);
        with_token.push(visit.begun);
    }
    let tokens: Vec<_> = journey.tokens().iter().map(|visit| visit.begun).collect();
    ensure!(
        tokens == with_token,
        "tokens without moves, or moves without: {journey:#?}"
    );
    let last = journey.visits.last().and_then(|visit| visit.backend());
    ensure!(
        last.is_some_and(|last| !taken_out.contains_key(last)),
        "{last:?} is gone"
    );
    Ok(left.len())
}
