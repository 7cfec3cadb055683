//! Gentle rebalancing: a new pod gets only sessions that were unused for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Controller, Proxy};
use limpet_e2e::{Visitor, poll};
use serde_json::{Value, json};

use crate::sessions::site;

const BUSY: usize = 40;
const IDLE: usize = 160;
/// Idle clients come once in so many rounds, the others in each.
const ROUNDS: usize = 12;
const ROUND: Duration = Duration::from_millis(500);
/// Sessions live so long without a request, and the controller watches so long before it moves any.
const MAX_IDLE: &str = "30s";

struct Client {
    visitor: Visitor,
    home: String,
    at: Instant,
}

impl Client {
    /// Returns whether another pod answered than before.
    async fn visit(&mut self) -> Result<bool> {
        let answer = self.visitor.get("/").await?;
        ensure!(answer.status == 200, "{answer:?}");
        let home = answer.backend().context("no backend")?.to_owned();
        let moved = home != self.home;
        self.home = home;
        self.at = Instant::now();
        Ok(moved)
    }
}

/// The controller's count of moved sessions.
async fn rebalanced(controller: &Controller) -> Result<u64> {
    let answer = controller.page("/sessions").await?;
    let sessions: Value = serde_json::from_slice(&answer.body)?;
    Ok(sessions["moves"]["rebalanced"].as_u64().unwrap_or_default())
}

async fn counted(envoys: &[&Proxy]) -> Result<u64> {
    let mut sum = 0;
    for envoy in envoys {
        sum += envoy
            .admin()
            .stats("limpet.*[.]rebalanced")
            .await?
            .values()
            .sum::<u64>();
    }
    Ok(sum)
}

/// The most moves in any minute.
fn busiest(moves: &[Instant]) -> usize {
    let minute = |start: &Instant| {
        let within = |at: &&Instant| **at >= *start && **at - *start < Duration::from_secs(60);
        moves.iter().filter(within).count()
    };
    moves.iter().map(minute).max().unwrap_or_default()
}

#[tokio::test]
async fn a_new_pod_gets_sessions_that_were_unused_and_no_others() -> Result<()> {
    let (site, [two, three]) = site("rebalanced", MAX_IDLE).await?;
    let annotation = json!({"metadata": {"annotations": {"session.limpet.dev/rebalance": "2s"}}});
    site.namespace.merge("BackendLBPolicy", "web", &annotation).await?;
    poll::until("a policy with its own counter", async || {
        let counters = site.envoy.admin().stats("limpet.*[.]steered").await.ok()?;
        site.session().await.ok()?.0.get("/").await.ok()?;
        (counters.len() > 1).then_some(())
    })
    .await?;

    let mut clients = Vec::new();
    for _ in 0..BUSY + IDLE {
        let (visitor, home) = site.session().await?;
        let at = Instant::now();
        clients.push(Client { visitor, home, at });
    }
    let _pod = site.namespace.pod("c", &[("app", "web")]).await?;
    poll::until("sessions of the new pod", async || {
        (site.session().await.ok()?.1 == "c").then_some(())
    })
    .await?;

    let start = Instant::now();
    let mut moves = Vec::new();
    for round in 0.. {
        let began = Instant::now();
        for (number, client) in clients.iter_mut().enumerate() {
            if number < BUSY {
                // On a busy machine, a round may outlast the time after which a session is unused.
                let unused = client.at.elapsed();
                ensure!(
                    !client.visit().await? || unused >= 2 * ROUND,
                    "a session that was used {unused:?} ago moved, round {round}"
                );
            } else if number % ROUNDS == round % ROUNDS && client.visit().await? {
                ensure!(client.home == "c", "a session moved to the full pod {}", client.home);
                moves.push(Instant::now());
            }
        }
        let arrived = clients.iter().filter(|client| client.home == "c").count();
        if arrived >= 10 {
            break;
        }
        ensure!(
            start.elapsed() < Duration::from_secs(200),
            "{arrived} sessions on the new pod, {} moved",
            moves.len()
        );
        tokio::time::sleep(ROUND.saturating_sub(began.elapsed())).await;
    }
    // Earlier tries count until their idle bound is over.
    let all = BUSY + IDLE;
    assert!(busiest(&moves) <= all * 3 / 20, "{} in a minute", busiest(&moves));
    let homes = clients.iter().fold(BTreeMap::new(), |mut homes, client| {
        *homes.entry(client.home.as_str()).or_insert(0) += 1;
        homes
    });
    println!(
        "{} moves in {:?}, at most {} in a minute: {homes:?}",
        moves.len(),
        start.elapsed(),
        busiest(&moves)
    );

    poll::until("moves that the controller knows of", async || {
        (rebalanced(&site.controller).await.ok()? >= moves.len() as u64).then_some(())
    })
    .await?;
    assert!(counted(&[&site.envoy, &two, &three]).await? >= moves.len() as u64);
    let counted = site
        .controller
        .metric("limpet_session_moves_total{reason=\"rebalanced\"}")
        .await?;
    assert!(counted.parse::<usize>()? >= moves.len(), "{counted}");
    Ok(())
}
