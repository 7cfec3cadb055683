//! What is kept of pods. Only metadata are read, because a cluster has many pods, and of most nothing is kept.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;

use super::client::FIELD_MANAGER;
use limpet_core::time::Timestamp;
use limpet_model::endpoints::{DRAIN, SliceEndpoint};

/// `ReplicaSet`s delete pods of a lower cost first.
pub(crate) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The most bytes that the API server allows.
const FIELD_MANAGER_LIMIT: usize = 128;

pub(super) type RawPod = PartialObjectMeta<Pod>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodMeta {
    uid: Arc<str>,
    /// Whether it has the drain annotation.
    drains: bool,
    ends: bool,
    deletion_cost: Option<DeletionCost>,
}

/// The value of a pod's annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeletionCost {
    pub(crate) value: i32,
    /// When a replica of this controller wrote it; `None`: another writer did.
    pub(crate) written: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodDeletion {
    Begun,
    Costs(DeletionCost),
}

impl PodMeta {
    /// `writer`: see [`writer_of_costs`]. `None`: nothing to keep.
    pub(crate) fn read(pod: &RawPod, writer: &str) -> Option<Self> {
        let meta = &pod.metadata;
        let annotation = |name: &str| meta.annotations.as_ref()?.get(name);
        let read = Self {
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            drains: annotation(DRAIN).is_some(),
            ends: meta.deletion_timestamp.is_some(),
            deletion_cost: annotation(DELETION_COST).and_then(|cost| {
                Some(DeletionCost {
                    value: cost.parse().ok()?,
                    written: written(meta, writer),
                })
            }),
        };
        let says_anything = read.drains || read.ends || read.deletion_cost.is_some();
        says_anything.then_some(read)
    }

    pub(super) fn deletion(&self) -> Option<PodDeletion> {
        if self.ends {
            return Some(PodDeletion::Begun);
        }
        self.deletion_cost.map(PodDeletion::Costs)
    }

    /// The uid, if it drains.
    pub(super) fn draining(&self) -> Option<&str> {
        self.drains.then_some(&*self.uid)
    }

    /// Whether this endpoint drains. Another pod may have had the name before.
    pub(super) fn drains(&self, endpoint: &SliceEndpoint) -> bool {
        let is_same = endpoint.owner.as_ref().is_none_or(|owner| *owner == self.uid);
        self.drains && is_same
    }
}

/// The field manager of costs. It names the controller, because another one may route to the same pods, and must not
/// remove our costs.
pub(crate) fn writer_of_costs(controller: &str) -> String {
    let mut writer = format!("{FIELD_MANAGER}:{controller}");
    let end = (0..=FIELD_MANAGER_LIMIT)
        .rev()
        .find(|end| writer.is_char_boundary(*end));
    writer.truncate(end.unwrap_or_default());
    writer
}

/// When a replica of this controller wrote the cost; `None`: another writer did. `managedFields` has the last writer.
fn written(meta: &ObjectMeta, ours: &str) -> Option<Timestamp> {
    let is_of_cost = |fields: &serde_json::Value| {
        let metadata = fields.get("f:metadata");
        let annotations = metadata.and_then(|metadata| metadata.get("f:annotations"));
        annotations.is_some_and(|annotations| annotations.get(format!("f:{DELETION_COST}")).is_some())
    };
    let mut writers = meta.managed_fields.iter().flatten();
    let entry = writers.find(|writer| {
        let fields = writer.fields_v1.as_ref();
        writer.manager.as_deref() == Some(ours) && fields.is_some_and(|fields| is_of_cost(&fields.0))
    })?;
    let time = entry.time.as_ref().map(|time| time.0.as_millisecond());
    let time = time.and_then(|millis| u64::try_from(millis).ok());
    Some(Timestamp::from_unix_millis(time.unwrap_or_default()))
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
        let pod = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        PodMeta::read(&pod, &writer_of_costs("limpet.dev/controller"))
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
        // Any value: its writer wanted the pod to drain.
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
            deletion_cost: Some(DeletionCost {
                value: -3,
                written: None,
            }),
            ..nothing
        };
        assert_eq!(read(&json!({"annotations": {DELETION_COST: "-3"}})), Some(costs));
    }

    #[test]
    fn who_wrote_the_cost_is_known() {
        let written = |manager: &str, annotation: &str| {
            let fields = json!({"f:metadata": {"f:annotations": {format!("f:{annotation}"): {}}}});
            let pod = json!({"annotations": {DELETION_COST: "5"}, "managedFields": [
                {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}},
                {"manager": manager, "operation": "Update", "time": "1970-01-01T00:01:00Z", "fieldsV1": fields},
            ]});
            read(&pod).and_then(|pod| pod.deletion_cost?.written)
        };
        let ours = "limpet:limpet.dev/controller";
        assert_eq!(written(ours, DELETION_COST), Some(Timestamp::from_unix_seconds(60)));
        assert_eq!(written("limpet:limpet.dev/another", DELETION_COST), None);
        assert_eq!(written("kubectl-annotate", DELETION_COST), None);
        assert_eq!(written(ours, DRAIN), None);
    }

    #[test]
    fn a_long_name_of_a_controller_is_cut_off() {
        let names = ["a".repeat(253), "ä".repeat(126)].map(|name| writer_of_costs(&name));
        assert_eq!(names[0].len(), 128);
        assert!(names[1].len() <= 128 && names[1].ends_with('ä'));
    }

    #[test]
    fn a_pod_that_ends_costs_nothing_any_more() {
        let costs = json!({"annotations": {DELETION_COST: "5"}});
        let cost = DeletionCost {
            value: 5,
            written: None,
        };
        assert_eq!(read(&costs).unwrap().deletion(), Some(PodDeletion::Costs(cost)));
        let ends = json!({"annotations": {DELETION_COST: "5"}, "deletionTimestamp": "2026-11-23T06:00:00Z"});
        assert_eq!(read(&ends).unwrap().deletion(), Some(PodDeletion::Begun));
        assert_eq!(read(&json!({"annotations": {DRAIN: ""}})).unwrap().deletion(), None);
    }
}
