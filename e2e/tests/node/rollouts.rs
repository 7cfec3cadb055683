//! What clients see while pods are replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_e2e::{Carrier, Crowd, Journey, Journeys, Visit};

use crate::site::{APPLICATION, ENVOYS, Site, restart};

/// How long an ending pod may answer at one Envoy after another one has learnt of the end. Its `preStop` lasts for five
/// times that, so sessions that moved when it began would be noticed.
const PROPAGATION: Duration = Duration::from_secs(2);

#[tokio::test]
async fn an_envoy_rollout_loses_no_request_and_moves_no_session() -> Result<()> {
    let site = Site::shared().await?;
    let crowd = Crowd::gather(20, &Carrier::ALL, &[site.envoys()]).await?;
    crowd.rounds(3).await?;
    restart(&site.system(), ENVOYS).await?;
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_exposed()?;
    journeys.none_moved()
}

/// Requests may be under way to the pod, and Envoys learn of its end a moment later.
#[tokio::test]
async fn an_application_rollout_moves_a_session_when_its_pod_ends() -> Result<()> {
    let site = Site::shared().await?;
    let crowd = Crowd::gather(20, &Carrier::ALL, &[site.envoys()]).await?;
    crowd.rounds(3).await?;
    let former = restart(&site.default(), APPLICATION).await?;
    crowd.rounds(3).await?;
    let journeys = crowd.leave().await;
    journeys.none_exposed()?;
    let last_answers = last_answers(&journeys);
    let mut failed = 0;
    for journey in &journeys.0 {
        let moves = journey.moves();
        ensure!(!moves.is_empty(), "a session stayed on a pod that is gone");
        for (pod, visit) in &moves {
            ensure!(
                former.contains(*pod) && last_answers[*pod] <= visit.begun + PROPAGATION,
                "a session left {pod}, which lived: {visit:#?}"
            );
        }
        ensure!(journey.tokens().len() == 1 + moves.len(), "not one token for each move");
        failed += failures_are_of_pods_that_ended(journey, &former, &last_answers)?;
    }
    let requests = journeys.0.iter().map(|journey| journey.visits.len()).sum::<usize>();
    println!("{failed} of {requests} requests reached a pod that had just ended");
    Ok(())
}

/// When each pod was last sent a request that it answered.
fn last_answers(journeys: &Journeys) -> BTreeMap<&str, Instant> {
    let mut last = BTreeMap::new();
    for visit in journeys.0.iter().flat_map(|journey| &journey.visits) {
        if let Some(pod) = visit.backend() {
            let known = last.entry(pod).or_insert(visit.begun);
            *known = visit.begun.max(*known);
        }
    }
    last
}

/// Failed requests are of sessions whose pods have answered for the last time. Returns their number.
fn failures_are_of_pods_that_ended(
    journey: &Journey,
    former: &BTreeSet<String>,
    last_answers: &BTreeMap<&str, Instant>,
) -> Result<usize> {
    let mut pod = None;
    let mut failed = 0;
    for visit in &journey.visits {
        if let (Some(backend), Ok((200, _))) = (visit.backend(), &visit.answer) {
            pod = Some(backend);
            continue;
        }
        failed += 1;
        ensure!(has_ended(pod, visit, former, last_answers), "of {pod:?}: {visit:#?}");
    }
    Ok(failed)
}

fn has_ended(
    pod: Option<&str>,
    visit: &Visit,
    former: &BTreeSet<String>,
    last_answers: &BTreeMap<&str, Instant>,
) -> bool {
    let ended = pod.is_some_and(|pod| former.contains(pod) && last_answers[pod] <= visit.ended + PROPAGATION);
    ended && matches!(visit.answer, Ok((503, None)))
}
