//! Other controllers write the controller's statuses, with other content.

use std::time::Duration;

use anyhow::Result;
use limpet_e2e::kube::{Cluster, Controller, Release};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{ControlledSite, nothing_happened};

const FIGHTS: u64 = 30;

async fn written(controller: &Controller) -> u64 {
    let mut sum = 0;
    for result in ["written", "conflict", "failed"] {
        // A metric without events does not exist yet.
        let count = controller
            .metric(&format!("limpet_status_writes_total{{result=\"{result}\"}}"))
            .await;
        sum += count.ok().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    }
    sum
}

/// Waits until the controller pauses. Returns its number of writes.
async fn until_at_rest(controller: &Controller) -> Result<u64> {
    let mut last = None;
    let at_rest = async || {
        let now = written(controller).await;
        let before = last.replace(now);
        tokio::time::sleep(Duration::from_millis(300)).await;
        (before == Some(now)).then_some(now)
    };
    poll::until("no more writes", at_rest).await
}

#[tokio::test]
async fn a_controller_that_removes_entries_causes_no_write_storm() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let site = ControlledSite::start(cluster, "fight").await?;
    let (namespace, controller) = (&site.namespace, &site.controller);
    site.until_programmed("True/Programmed").await?;
    let parents = |object: &Value| object["status"]["parents"].as_array().cloned().unwrap_or_default();
    let is_ours = |parent: &Value| parent["controllerName"] == namespace.controller_name();
    let has_ours = |object: &Value| parents(object).iter().any(is_ours);
    namespace.until("Limpet's entry", "HTTPRoute", "web", has_ours).await?;
    // The first writes are over.
    let before = until_at_rest(controller).await?;
    let crowd = site.crowd().await?;

    // Each time, the other controller writes a new entry and removes those of others.
    let mut removed = 0;
    for number in 0..FIGHTS {
        removed += u64::from(has_ours(&namespace.get("HTTPRoute", "web").await?));
        let foreign = json!({"parents": [{
            "controllerName": "example.com/other",
            "parentRef": {"name": "web"},
            "conditions": [{
                "type": "Accepted", "status": "False", "reason": "NoMatchingParent", "message": number.to_string(),
                "lastTransitionTime": "2020-01-01T00:00:00Z",
            }],
        }]});
        namespace.merge_status("HTTPRoute", "web", &foreign).await?;
        crowd.rounds(1).await?;
    }
    let route = namespace
        .until("Limpet's entry to be back", "HTTPRoute", "web", has_ours)
        .await?;
    assert_eq!(parents(&route).len(), 2, "{route}");
    assert!(removed > 0, "no entry of Limpet's was removed");
    let writes = until_at_rest(controller).await? - before;
    assert!(
        (1..=FIGHTS).contains(&writes),
        "Limpet answered {FIGHTS} writes with {writes}"
    );
    let after = namespace.get("HTTPRoute", "web").await?;
    crowd.rounds(5).await?;
    assert_eq!(
        namespace.get("HTTPRoute", "web").await?,
        after,
        "the route is still being written"
    );
    nothing_happened(crowd).await
}
