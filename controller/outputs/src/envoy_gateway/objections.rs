//! Envoy Gateway's objections to objects of ours, from their statuses.

use serde_json::Value;

use crate::manifests::Objection;
use limpet_api::ObjectName;
use limpet_model::Extent;

use super::PATCH_POLICY;

/// Conditions of `PolicyStatus` (Gateway API), with the status that means that something is wrong. `Overridden` is
/// Envoy Gateway's own: another policy takes precedence.
const WRONG: [(&str, &str); 3] = [("Accepted", "False"), ("Programmed", "False"), ("Overridden", "True")];

pub(crate) fn objections(object: &Value) -> Vec<Objection> {
    let metadata = |field: &str| object.pointer(&format!("/metadata/{field}"));
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, namespace) = (text(object.get("kind")), text(metadata("namespace")));
    let is_patch = kind == PATCH_POLICY.kind;
    let place = format!("{kind} {namespace}/{}", text(metadata("name")));
    let mut objections = Vec::new();
    for ancestor in list(object.pointer("/status/ancestors")) {
        let reference = |field: &str| ancestor.get("ancestorRef").and_then(|reference| reference.get(field));
        let gateway = (reference("kind").and_then(Value::as_str) == Some("Gateway")).then(|| {
            let of = text(reference("namespace"));
            ObjectName::new(if of.is_empty() { &namespace } else { &of }, &text(reference("name")))
        });
        for condition in list(ancestor.get("conditions")) {
            let field = |name: &str| text(condition.get(name));
            let is_wrong = WRONG
                .iter()
                .any(|(kind, status)| field("type") == *kind && field("status") == *status);
            if !is_wrong || condition.get("observedGeneration") != metadata("generation") {
                continue;
            }
            let consequence = if is_patch {
                " (sessions do not stay on pods that terminate)"
            } else {
                ""
            };
            objections.push(Objection {
                gateway: gateway.clone(),
                extent: if is_patch { Extent::Part } else { Extent::All },
                message: format!(
                    "{place}: Envoy Gateway says {}: {}{consequence}",
                    field("reason"),
                    field("message")
                ),
            });
        }
    }
    objections
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(kind: &str, generation: u32, condition: &Value) -> Vec<Objection> {
        objections(&json!({
            "kind": kind,
            "metadata": {"namespace": "shop", "name": "limpet-web", "generation": 2},
            "status": {"ancestors": [{
                "ancestorRef": {"kind": "Gateway", "namespace": "infra", "name": "web"},
                "conditions": [
                    {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", "observedGeneration": 2},
                    {
                        "type": condition[0],
                        "status": condition[1],
                        "reason": "Why",
                        "message": "not so",
                        "observedGeneration": generation,
                    },
                ],
            }]},
        }))
    }

    #[test]
    fn a_policy_that_is_not_accepted_brings_no_sessions() {
        let expected = Objection {
            gateway: Some(ObjectName::new("infra", "web")),
            extent: Extent::All,
            message: "EnvoyExtensionPolicy shop/limpet-web: Envoy Gateway says Why: not so".to_owned(),
        };
        let policy = |condition| said("EnvoyExtensionPolicy", 2, &condition);
        assert_eq!(policy(json!(["Accepted", "False"])), std::slice::from_ref(&expected));
        assert_eq!(policy(json!(["Overridden", "True"])), [expected]);
        assert_eq!(policy(json!(["Accepted", "True"])), []);
    }

    #[test]
    fn a_patch_that_is_not_made_costs_a_part() {
        let said = said("EnvoyPatchPolicy", 2, &json!(["Programmed", "False"]));
        assert_eq!(
            said.iter().map(|objection| objection.extent).collect::<Vec<_>>(),
            [Extent::Part]
        );
    }

    #[test]
    fn what_was_said_of_an_object_before_does_not_count() {
        assert_eq!(said("EnvoyExtensionPolicy", 1, &json!(["Accepted", "False"])), []);
        assert_eq!(objections(&json!({"kind": "EnvoyExtensionPolicy"})), []);
    }
}
