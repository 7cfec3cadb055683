use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cluster::kube::{DeletionCost, PodDeletion, PodDeletions};
use crate::settling::SETTLING;
use limpet_api::ObjectName;
use limpet_core::time::Timestamp;

/// The minimum time between two writes of a pod.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodCounts {
    /// Since when sessions are counted; `None`: not yet.
    pub(crate) since: Option<Timestamp>,
    pub(crate) services: BTreeSet<ObjectName>,
    pub(crate) pods: Vec<PodSessionCount>,
}

/// The sessions of a pod as a backend of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodSessionCount {
    pub(crate) service: ObjectName,
    pub(crate) pod: ObjectName,
    /// Whether it is an endpoint. One that is not ready may become one again, with its sessions.
    pub(crate) is_endpoint: bool,
    /// Sessions and streams.
    pub(crate) count: u64,
    pub(crate) complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CostPatch {
    /// `None`: removes the annotation.
    pub(super) cost: Option<i32>,
    pub(super) service: Option<ObjectName>,
}

/// The due writes. `asking`: the Services that ask for costs. `written`: present costs. `last`: this process's writes.
pub(super) fn writes(
    asking: &BTreeSet<ObjectName>,
    counts: &PodCounts,
    written: &PodDeletions,
    last: &BTreeMap<ObjectName, Timestamp>,
    now: Timestamp,
) -> BTreeMap<ObjectName, CostPatch> {
    if counts.since.is_none_or(|since| now.since(since) < SETTLING) {
        return BTreeMap::new();
    }
    // Sessions of a Service without routes are not counted.
    let asking = asking.intersection(&counts.services).cloned().collect();
    let mut writes = changed(&asking, counts, written);
    writes.extend(unasked(&asking, counts, written));
    writes.retain(|pod, _| {
        let seen = own(written, pod).and_then(|cost| cost.written);
        // Another replica may have led then. A clock that is ahead delays no write for longer.
        let times = [seen.map(|seen| seen.min(now)), last.get(pod).copied()];
        times.into_iter().flatten().all(|time| now.since(time) >= INTERVAL)
    });
    writes
}

/// A pod's present cost. `None`: none, or the pod is being deleted.
fn own<'a>(written: &'a PodDeletions, pod: &ObjectName) -> Option<&'a DeletionCost> {
    match written.get(pod) {
        Some(PodDeletion::Costs(cost)) => Some(cost),
        Some(PodDeletion::Begun) | None => None,
    }
}

/// The pods of asking Services whose cost must change, so that each Service's pods are in the order of their counts.
/// Costs that are in order stay, and so do all costs of a Service with a pod whose count is incomplete: its place is
/// unknown.
fn changed(
    asking: &BTreeSet<ObjectName>,
    counts: &PodCounts,
    written: &PodDeletions,
) -> BTreeMap<ObjectName, CostPatch> {
    let begun = |pod: &ObjectName| matches!(written.get(pod), Some(PodDeletion::Begun));
    // With a pod, the sessions of all its Services end.
    let mut sums: BTreeMap<&ObjectName, u64> = BTreeMap::new();
    let mut services: BTreeMap<&ObjectName, BTreeSet<&ObjectName>> = BTreeMap::new();
    let mut unknown: BTreeSet<&ObjectName> = BTreeSet::new();
    let there = counts.pods.iter().filter(|living| living.is_endpoint);
    for living in there.filter(|living| !begun(&living.pod)) {
        let PodSessionCount { service, pod, .. } = living;
        let sum = sums.entry(pod).or_default();
        *sum = sum.saturating_add(living.count);
        if !living.complete {
            unknown.insert(pod);
        }
        if asking.contains(service) {
            services.entry(service).or_default().insert(pod);
        }
    }
    services.retain(|_, pods| pods.is_disjoint(&unknown));
    let counted = |pod: &ObjectName| {
        let sum = sums.get(pod).copied().unwrap_or_default();
        i32::try_from(sum).unwrap_or(i32::MAX)
    };
    // A pod without the annotation costs 0.
    let has = |pod: &ObjectName| own(written, pod).map_or(0, |cost| cost.value);
    let mut stale: BTreeMap<&ObjectName, &ObjectName> = BTreeMap::new();
    // A new cost may be out of order with an old one that was in order.
    loop {
        let before = stale.len();
        for (service, pods) in &services {
            let costs = pods.iter().map(|pod| {
                let cost = if stale.contains_key(pod) {
                    counted(pod)
                } else {
                    has(pod)
                };
                (counted(pod), cost, *pod)
            });
            for pod in out_of_order(costs.collect()) {
                stale.entry(pod).or_insert(service);
            }
        }
        if stale.len() == before {
            break;
        }
    }
    let writes = stale.into_iter().filter(|(pod, _)| counted(pod) != has(pod));
    let writes = writes.map(|(pod, service)| {
        let write = CostPatch {
            cost: Some(counted(pod)),
            service: Some(service.clone()),
        };
        (pod.clone(), write)
    });
    writes.collect()
}

/// The pods that cost no more than one with a lower count, or no less than one with a higher count. Pods with equal
/// counts have no order.
fn out_of_order(mut pods: Vec<(i32, i32, &ObjectName)>) -> Vec<&ObjectName> {
    pods.sort_unstable_by_key(|(count, ..)| *count);
    let groups: Vec<_> = pods.chunk_by(|(one, ..), (other, ..)| one == other).collect();
    let mut found = Vec::new();
    let mut highest = None;
    for group in &groups {
        let behind = group
            .iter()
            .filter(|(_, cost, _)| highest.is_some_and(|highest| *cost <= highest));
        found.extend(behind.map(|(.., pod)| *pod));
        highest = highest.max(group.iter().map(|(_, cost, _)| *cost).max());
    }
    let mut lowest = None::<i32>;
    for group in groups.iter().rev() {
        let ahead = group
            .iter()
            .filter(|(_, cost, _)| lowest.is_some_and(|lowest| *cost >= lowest));
        found.extend(ahead.map(|(.., pod)| *pod));
        let least = group.iter().map(|(_, cost, _)| *cost).min();
        lowest = [lowest, least].into_iter().flatten().min();
    }
    found
}

/// The pods with a cost of ours, but without a Service that asks for it. One that is no endpoint and has no session
/// counts as a pod without the annotation.
fn unasked(
    asking: &BTreeSet<ObjectName>,
    counts: &PodCounts,
    written: &PodDeletions,
) -> BTreeMap<ObjectName, CostPatch> {
    let asked: BTreeSet<&ObjectName> = counts
        .pods
        .iter()
        .filter(|living| asking.contains(&living.service))
        .map(|living| &living.pod)
        .collect();
    let ours = written
        .keys()
        .filter(|pod| own(written, pod).is_some_and(|cost| cost.written.is_some()));
    let nothing = CostPatch {
        cost: None,
        service: None,
    };
    ours.filter(|pod| !asked.contains(pod))
        .map(|pod| (pod.clone(), nothing.clone()))
        .collect()
}
