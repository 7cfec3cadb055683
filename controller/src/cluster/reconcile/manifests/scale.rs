//! Leaves the number of pods to a `HorizontalPodAutoscaler`.

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::cluster::kube::FIELD_MANAGER;
use limpet_api::ObjectName;
use limpet_outputs::envoys::DEPLOYMENT;

/// The scaled Deployment, in the autoscaler's own namespace.
pub(super) fn scaled(autoscaler: &DynamicObject) -> Option<ObjectName> {
    let target = autoscaler.data.get("spec")?.get("scaleTargetRef")?;
    let name = target.get("name")?.as_str();
    let name = name.filter(|_| target["kind"] == DEPLOYMENT.kind)?;
    Some(ObjectName::new(autoscaler.metadata.namespace.as_deref()?, name))
}

/// Leaves the number of pods to its other writer, for example an autoscaler.
///
/// Without the field, it would get its default, one pod. So the present number is applied, unless another client has
/// set it.
pub(super) fn leave(object: &mut Value, live: &DynamicObject, is_autoscaled: bool) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else {
        return;
    };
    if spec.contains_key("replicas") && !is_autoscaled {
        return;
    }
    spec.remove("replicas");
    if !is_somebody_elses(live) {
        let now = live.data.get("spec").and_then(|spec| spec.get("replicas"));
        spec.extend(now.map(|now| ("replicas".to_owned(), json!(now))));
    }
}

fn is_somebody_elses(live: &DynamicObject) -> bool {
    let mut managers = live.metadata.managed_fields.iter().flatten();
    managers.any(|entry| {
        let fields = entry.fields_v1.as_ref();
        entry.manager.as_deref() != Some(FIELD_MANAGER)
            && fields.is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(manager: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "a",
                "managedFields": [{"manager": manager, "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
            },
            "spec": {"replicas": 7},
        }))
        .unwrap()
    }

    fn left(object: Value, manager: &str, autoscaled: bool) -> Value {
        let mut object = object;
        leave(&mut object, &live(manager), autoscaled);
        object["spec"]["replicas"].take()
    }

    #[test]
    fn an_autoscaler_scales_deployments_of_its_namespace() {
        let autoscaler = |kind: &str| {
            let object = json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "x", "namespace": "other"},
                "spec": {"scaleTargetRef": {"kind": kind, "name": "a"}},
            });
            scaled(&serde_json::from_value(object).unwrap())
        };
        assert_eq!(autoscaler("Deployment"), Some(ObjectName::new("other", "a")));
        assert_eq!(autoscaler("StatefulSet"), None);
    }

    #[test]
    fn the_number_of_pods_is_the_autoscalers() {
        let (asked, none) = (json!({"spec": {"replicas": 2}}), json!({"spec": {}}));
        assert_eq!(left(asked.clone(), FIELD_MANAGER, false), 2);
        assert_eq!(left(asked.clone(), FIELD_MANAGER, true), 7);
        assert_eq!(left(asked, "kube-controller-manager", true), Value::Null);
        assert_eq!(left(none.clone(), FIELD_MANAGER, false), 7);
        assert_eq!(left(none, "kube-controller-manager", false), Value::Null);
    }
}
