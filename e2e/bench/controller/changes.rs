//! A series of endpoint changes to a connected client.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_resources::ResourceType;

use crate::client::{Client, Received};
use crate::objects::cluster_name;

/// Changes per second.
const RATE: usize = 50;
const SECONDS: usize = 10;

/// Lets `change` change an endpoint of many rules' Services in turn, and counts from when each was due until the client
/// had it. Fails unless the client got exactly the changed resources, once each.
pub(crate) async fn run(rules: usize, client: &mut Client, mut change: impl FnMut(usize)) -> Result<Vec<Duration>> {
    let count = rules.min(RATE * SECONDS);
    // Spread over all rules: neighbours share a namespace and pages of memory.
    let changed: Vec<usize> = (0..count).map(|number| number * rules / count).collect();
    let start = Instant::now();
    let interval = Duration::from_secs(1) / u32::try_from(RATE)?;
    let mut due: BTreeMap<String, Instant> = BTreeMap::new();
    let changing = async {
        for (number, rule) in changed.iter().enumerate() {
            let at: Instant = start + interval * u32::try_from(number)?;
            tokio::time::sleep_until(at.into()).await;
            due.insert(cluster_name(*rule), at);
            change(*rule);
        }
        anyhow::Ok(())
    };
    let (changing, received) = tokio::join!(changing, client.until(ResourceType::ClusterLoadAssignment, count));
    changing?;
    let mut times: Vec<Duration> = Vec::new();
    for received in received? {
        let at = due.remove(&received.name).filter(|_| is_assignment(&received));
        let at = at.with_context(|| format!("a resource came that did not change, or came twice: {received:?}"))?;
        times.push(received.at - at);
    }
    ensure!(due.is_empty(), "these did not come: {:?}", due.keys());
    Ok(times)
}

fn is_assignment(received: &Received) -> bool {
    received.resource_type == ResourceType::ClusterLoadAssignment && !received.removed
}
