//! Whether proxies have the environment variables that the filter needs.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Error};

use limpet_outputs::manifests::ProxyPods;

/// The most pods to check: the pods of a Gateway have one template, or two during a rollout.
const LOOKED_AT: u32 = 20;

/// What proxies lack, in words. `None`: nothing, or there is no pod.
pub(super) async fn missing(
    client: &Client,
    proxies: &ProxyPods,
    variables: &BTreeSet<String>,
) -> Result<Option<String>, Error> {
    if variables.is_empty() {
        return Ok(None);
    }
    let pods: Api<Pod> = match &proxies.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let listed = ListParams::default().labels(&proxies.selector).limit(LOOKED_AT);
    let pods = pods.list(&listed).await?;
    Ok(pods.iter().find_map(|pod| lacks(pod, proxies.container, variables)))
}

/// Ignores a pod with `envFrom`, whose ConfigMap or Secret is not read.
fn lacks(pod: &Pod, container: &str, variables: &BTreeSet<String>) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let spec = pod.spec.as_ref()?;
    let native = spec.init_containers.iter().flatten();
    let container = spec.containers.iter().chain(native).find(|one| one.name == container)?;
    if container.env_from.as_ref().is_some_and(|from| !from.is_empty()) {
        return None;
    }
    let has = |variable: &&String| container.env.iter().flatten().any(|known| known.name == **variable);
    let lacking = variables.iter().find(|variable| !has(variable))?;
    Some(format!(
        "expected the environment variable {lacking} in the container {} of pod {namespace}/{name}: \
         without it, the filter has no keys, and there are no sessions",
        container.name
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(container: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "gw-1", "namespace": "web"},
            "spec": {"containers": [{"name": "other"}, container]},
        }))
        .unwrap()
    }

    #[test]
    fn a_variable_that_is_missing_is_named() {
        let variables = BTreeSet::from(["KEY".to_owned()]);
        let found = |container: Value| lacks(&pod(&container), "envoy", &variables);
        let message = found(json!({"name": "envoy", "env": [{"name": "OTHER", "value": "1"}]})).unwrap();
        for part in ["KEY", "envoy", "web/gw-1"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(found(json!({"name": "envoy"})).is_some());
        assert_eq!(found(json!({"name": "envoy", "env": [{"name": "KEY"}]})), None);
        assert_eq!(
            found(json!({"name": "envoy", "envFrom": [{"secretRef": {"name": "x"}}]})),
            None
        );
        // A pod without this container is no proxy.
        assert_eq!(found(json!({"name": "another"})), None);
    }
}
