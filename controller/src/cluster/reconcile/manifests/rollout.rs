//! Whether the pods of a Deployment come up, by its status.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RolloutProblem {
    /// Whether other Envoys of the Deployment serve, for example former ones.
    pub(super) serves: bool,
    pub(super) message: String,
}

/// The problem of a Deployment's pods. `None`: none, or none yet.
pub(super) fn trouble(deployment: &Value) -> Option<RolloutProblem> {
    let (metadata, spec, status) = (&deployment["metadata"], &deployment["spec"], &deployment["status"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    if spec["replicas"] == 0 {
        let message = format!(
            "No Envoy is asked for: Deployment {namespace}/{name} has replicas: 0, by its EnvoyDeployment or by who \
             scales it"
        );
        return Some(RolloutProblem { serves: false, message });
    }
    // The status may be about the former template.
    let is_current = status["observedGeneration"].as_i64() >= metadata["generation"].as_i64();
    let conditions = status["conditions"].as_array().filter(|_| is_current)?;
    let condition = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind);
    // The API server's words about a pod have the reason.
    let refused = condition("ReplicaFailure").filter(|condition| condition["status"] == "True");
    let late = condition("Progressing").filter(|condition| condition["reason"] == "ProgressDeadlineExceeded");
    let words = text(&refused.or(late)?["message"]);
    let message = format!(
        "The rollout of Deployment {namespace}/{name} does not go on: {words} (what its pods wait for: kubectl \
         describe pods --namespace {namespace} --selector app.kubernetes.io/instance={name})"
    );
    let serves = status["availableReplicas"]
        .as_u64()
        .is_some_and(|available| available > 0);
    Some(RolloutProblem { serves, message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(observed: i64, available: u64, conditions: &Value) -> Value {
        json!({
            "metadata": {"namespace": "limpet-system", "name": "web", "generation": 2},
            "spec": {"replicas": 2},
            "status": {"observedGeneration": observed, "availableReplicas": available, "conditions": conditions},
        })
    }

    fn late() -> Value {
        json!({
            "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out",
        })
    }

    #[test]
    fn a_rollout_that_goes_on_is_no_trouble() {
        let going = json!([{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}]);
        assert_eq!(trouble(&deployment(2, 0, &going)), None);
        assert_eq!(trouble(&deployment(2, 0, &json!([]))), None);
        let of_the_former = deployment(1, 0, &json!([late()]));
        assert_eq!(trouble(&of_the_former), None);
        assert_eq!(
            trouble(&json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}})),
            None
        );
    }

    #[test]
    fn a_rollout_that_takes_too_long_is_told_with_who_serves() {
        for (available, serves) in [(0, false), (1, true)] {
            let found = trouble(&deployment(2, available, &json!([late()]))).unwrap();
            assert_eq!(found.serves, serves);
            let words = "The rollout of Deployment limpet-system/web does not go on: timed out (";
            assert!(found.message.starts_with(words), "{}", found.message);
        }
    }

    #[test]
    fn a_pod_that_is_refused_is_told_in_the_words_of_the_refusal() {
        let refused = |status: &str| json!({"type": "ReplicaFailure", "status": status, "message": "exceeded quota"});
        let found = trouble(&deployment(2, 0, &json!([late(), refused("True")]))).unwrap();
        assert!(found.message.contains(": exceeded quota ("), "{}", found.message);
        assert_eq!(trouble(&deployment(2, 0, &json!([refused("False")]))), None);
    }

    #[test]
    fn a_deployment_of_no_pods_is_told() {
        let mut none = deployment(1, 0, &json!([]));
        none["spec"]["replicas"] = json!(0);
        let found = trouble(&none).unwrap();
        assert!(!found.serves && found.message.contains("replicas: 0"), "{found:?}");
    }
}
