//! What is kept of pods. Their metadata alone are read, because a cluster has many, and of most nothing is kept.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::core::PartialObjectMeta;

use limpet_model::endpoints::{DRAIN, SliceEndpoint};

/// The annotation by which a `ReplicaSet` chooses the pods that it deletes first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What is read of a pod.
pub(super) type RawPod = PartialObjectMeta<Pod>;

/// What is kept of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodMeta {
    uid: Arc<str>,
    /// Whether its annotation says that it drains.
    drains: bool,
    /// Whether it is being deleted.
    ends: bool,
    /// What it costs to delete it, as its annotation says.
    deletion_cost: Option<i32>,
}

impl PodMeta {
    /// `None`: there is nothing to keep.
    pub(super) fn read(pod: &RawPod) -> Option<Self> {
        let meta = &pod.metadata;
        let annotation = |name: &str| meta.annotations.as_ref()?.get(name);
        let read = Self {
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            drains: annotation(DRAIN).is_some(),
            ends: meta.deletion_timestamp.is_some(),
            deletion_cost: annotation(DELETION_COST).and_then(|cost| cost.parse().ok()),
        };
        let says_anything = read.drains || read.ends || read.deletion_cost.is_some();
        says_anything.then_some(read)
    }

    /// The uid, if it drains.
    pub(super) fn draining(&self) -> Option<&str> {
        self.drains.then_some(&*self.uid)
    }

    /// Whether the endpoint of a pod of this name drains. Another pod may have had the name before.
    pub(super) fn drains(&self, endpoint: &SliceEndpoint) -> bool {
        let is_same = endpoint.owner.as_ref().is_none_or(|owner| *owner == self.uid);
        self.drains && is_same
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(rest: &Value) -> Option<PodMeta> {
        let mut metadata = json!({"name": "a", "namespace": "shop", "uid": "u-1"});
        metadata
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().cloned().unwrap());
        PodMeta::read(&serde_json::from_value(json!({"metadata": metadata})).unwrap())
    }

    #[test]
    fn nothing_is_kept_of_a_pod_that_says_nothing() {
        assert_eq!(read(&json!({"labels": {"app": "web"}})), None);
        assert_eq!(read(&json!({"annotations": {"a": "b", DELETION_COST: "much"}})), None);
    }

    #[test]
    fn what_a_pod_says_is_kept() {
        let nothing = PodMeta {
            uid: "u-1".into(),
            drains: false,
            ends: false,
            deletion_cost: None,
        };
        // Whatever the value is: who wrote it wanted the pod to drain.
        for value in ["2026-11-23T06:00:00Z", "", "false"] {
            let drains = PodMeta {
                drains: true,
                ..nothing.clone()
            };
            assert_eq!(read(&json!({"annotations": {DRAIN: value}})), Some(drains), "{value}");
        }
        let ends = PodMeta {
            ends: true,
            ..nothing.clone()
        };
        assert_eq!(read(&json!({"deletionTimestamp": "2026-11-23T06:00:00Z"})), Some(ends));
        let costs = PodMeta {
            deletion_cost: Some(-3),
            ..nothing
        };
        assert_eq!(read(&json!({"annotations": {DELETION_COST: "-3"}})), Some(costs));
    }
}
