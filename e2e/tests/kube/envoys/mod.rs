//! The Envoys that the controller keeps, as the API server has them. No kubelet runs their pods here.

mod addresses;
mod by_hand;
mod kept;
mod metrics;
mod parameters;
mod placement;
mod quiet;
mod readiness;
mod refused;
mod rollouts;
mod secrets;
mod tenants;

use anyhow::{Context, Result};
use limpet_api::ObjectName;
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
use limpet_model::envoys_name;
use serde_json::{Value, json};

use crate::site::condition;

const DEFINITION: &str = include_str!("../../../../controller/deploy/crds/envoydeployments.yaml");

const DEPLOYMENT: &str = "apps/v1/Deployment";
const SERVICE: &str = "v1/Service";
const SECRET: &str = "v1/Secret";
const KINDS: [&str; 4] = [
    DEPLOYMENT,
    SERVICE,
    "v1/ServiceAccount",
    "policy/v1/PodDisruptionBudget",
];

/// A class, and a controller that keeps its Gateways' Envoys here.
struct Site {
    cluster: &'static Cluster,
    namespace: Namespace,
    controller: Controller,
}

impl Site {
    async fn start(name: &str, managed: Value) -> Result<Self> {
        let mut site = Self::prepare(name, managed).await?;
        site.launch().await?;
        Ok(site)
    }

    /// As [`Site::start`], but the controller does not run yet.
    async fn prepare(name: &str, managed: Value) -> Result<Self> {
        let (cluster, namespace) = namespace(name).await?;
        let change = |config: &mut Value| config["envoy"]["managed"] = managed;
        let controller = Controller::prepare(cluster.server(), &namespace, change).await?;
        Ok(Self {
            cluster,
            namespace,
            controller,
        })
    }

    async fn launch(&mut self) -> Result<()> {
        self.controller.launch()?;
        self.controller.until_ready().await
    }

    async fn gateway(&self, name: &str, fields: &Value) -> Result<()> {
        gateway(&self.namespace, name, fields).await
    }

    fn envoys(&self, gateway: &str) -> String {
        envoys_name(&ObjectName::new(self.namespace.name(), gateway))
    }

    async fn until(&self, what: &str, kind: &str, gateway: &str, check: impl Fn(&Value) -> bool) -> Result<Value> {
        self.namespace.until(what, kind, &self.envoys(gateway), check).await
    }

    async fn until_all_there(&self, gateway: &str) -> Result<()> {
        for kind in KINDS {
            self.until("it to be there", kind, gateway, |_| true).await?;
        }
        Ok(())
    }

    /// Waits for a condition as `status/reason`. Returns its message.
    async fn until_condition(&self, gateway: &str, kind: &str, expected: &str) -> Result<String> {
        let is_so = |object: &Value| condition(&object["status"]["conditions"], kind) == expected;
        let what = format!("{kind} to be {expected}");
        let object = self.namespace.until(&what, "Gateway", gateway, is_so).await?;
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let mut found = conditions.filter(|condition| condition["type"] == kind);
        let message = found.next().and_then(|condition| condition["message"].as_str());
        Ok(message.unwrap_or_default().to_owned())
    }
}

async fn namespace(name: &str) -> Result<(&'static Cluster, Namespace)> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace(name).await?;
    namespace.define(DEFINITION).await?;
    namespace.gateway_class().await?;
    Ok((cluster, namespace))
}

async fn gateway(namespace: &Namespace, name: &str, fields: &Value) -> Result<()> {
    gateway_of(namespace, namespace.name(), name, fields).await
}

async fn gateway_of(namespace: &Namespace, class: &str, name: &str, fields: &Value) -> Result<()> {
    let mut gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": name},
        "spec": {
            "gatewayClassName": class,
            "listeners": [{"name": "http", "port": 8080, "protocol": "HTTP"}],
        },
    });
    if let (Some(spec), Some(fields)) = (gateway["spec"].as_object_mut(), fields.as_object()) {
        spec.extend(fields.clone());
    }
    namespace.apply_object(&gateway).await.map(drop)
}

/// Adds Secrets to the controller's role for Envoys, as the chart does with `namespace: Gateway`.
async fn allow_secrets(system: &Namespace) -> Result<()> {
    let role = system.cluster_role("limpet-envoys");
    let mut rules = system.get("ClusterRole", &role).await?["rules"].take();
    let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "delete", "list", "patch"]});
    rules.as_array_mut().context("no rules")?.push(secrets);
    system
        .merge("ClusterRole", &role, &json!({"rules": rules}))
        .await
        .map(drop)
}

/// Binds the controller's role for Envoys in a Gateway's namespace, as the chart's `envoys.namespaces` does.
async fn allow_in(system: &Namespace, there: &Namespace) -> Result<()> {
    let account = json!({"kind": "ServiceAccount", "name": "limpet-controller", "namespace": system.name()});
    let role = system.cluster_role("limpet-envoys");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "limpet-envoys"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [account],
    });
    there.apply_object(&binding).await.map(drop)
}

async fn parameters(namespace: &Namespace, name: &str, spec: &Value) -> Result<()> {
    let object = json!({
        "apiVersion": "limpet.dev/v1alpha1",
        "kind": "EnvoyDeployment",
        "metadata": {"name": name},
        "spec": spec,
    });
    namespace.apply_object(&object).await.map(drop)
}

fn refers_to(name: &str) -> Value {
    json!({"infrastructure": {
        "parametersRef": {"group": "limpet.dev", "kind": "EnvoyDeployment", "name": name},
    }})
}
