//! A policy of the API server that refuses some writes in a namespace for a time.

use anyhow::Result;
use limpet_e2e::kube::Namespace;
use serde_json::json;

const POLICY: &str = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy";

/// Refuses new and changed objects where `expression` is false, with this message. The API server needs a moment to
/// know it.
pub(crate) async fn refuse(
    namespace: &Namespace,
    group: &str,
    resources: &[&str],
    expression: &str,
    message: &str,
) -> Result<()> {
    let name = namespace.name();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": resources,
            }]},
            "validations": [{"expression": expression, "message": message}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    namespace.apply_object(&policy).await?;
    namespace.apply_object(&binding).await.map(drop)
}

pub(crate) async fn allow(namespace: &Namespace) -> Result<()> {
    namespace.delete(POLICY, namespace.name()).await
}
