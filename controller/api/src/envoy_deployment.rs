use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::decode::Spec;

/// `EnvoyDeployment`, limpet.dev/v1alpha1: how the Envoys of Gateways run. Every field may be absent, because the
/// parameters of a Gateway, of its class and of the controller are one over the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyDeploymentSpec {
    /// Whether the controller keeps the Envoys. If false, others do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<bool>,
    /// If they are not managed: the Service that leads to them, whose addresses the Gateway's status gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<ServiceRef>,
    /// How many pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Instead of `replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// The build of the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<EnvoyFilterBuild>,
    /// How long clients have to go elsewhere when a pod ends or a listener changes, as a duration of the Gateway API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_time: Option<String>,
    /// Where any client can read the Envoys' statistics; nowhere if it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_port: Option<u16>,
    /// The container with Envoy.
    #[serde(skip_serializing_if = "is_default")]
    pub envoy: Container,
    /// The init containers, which bring the filter and the bootstrap.
    #[serde(skip_serializing_if = "is_default")]
    pub limpet: Container,
    /// The Service.
    #[serde(skip_serializing_if = "is_default")]
    pub service: EnvoyService,
    /// The pods.
    #[serde(skip_serializing_if = "is_default")]
    pub pod: EnvoyPod,
    /// Strategic merge patches for everything else.
    #[serde(skip_serializing_if = "is_default")]
    pub patch: Patches,
}

impl Spec for EnvoyDeploymentSpec {}

/// A reference to a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRef {
    /// Its namespace; the Gateway's if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// How many pods, by their load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaling {
    /// At least so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<u32>,
    /// At most so many.
    pub max_replicas: u32,
    /// The CPU that pods use on average, in percent of what they request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_utilization: Option<u32>,
}

/// The builds of the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EnvoyFilterBuild {
    /// The wasm filter.
    Wasm,
    /// The dynamic module.
    Module,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// As in a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Map<String, Value>>,
}

/// The Service of a Gateway's Envoys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyService {
    /// `ClusterIP`, `NodePort` or `LoadBalancer`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ServiceType>,
    /// More annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// As in a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
    /// As in a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<String>,
}

/// The types of Services that Envoys may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServiceType {
    /// An address within the cluster.
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// Also a port of each node.
    NodePort,
    /// Also an address from the cluster's provider.
    #[default]
    LoadBalancer,
}

/// Where requests from outside the cluster go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TrafficPolicy {
    /// To all pods.
    Cluster,
    /// To the pods of the node that they reach. Envoy then sees the addresses of clients.
    Local,
}

/// The pods of a Gateway's Envoys. Its lists and objects are as in a Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyPod {
    /// More labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// More annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The labels of the nodes that they may run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// The taints of nodes that they tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Map<String, Value>>>,
    /// Which nodes and pods they should be near to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Map<String, Value>>,
    /// How they are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<Map<String, Value>>>,
    /// Their priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The Secrets that their images are pulled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<Map<String, Value>>>,
}

/// Strategic merge patches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Patches {
    /// Of the Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Map<String, Value>>,
    /// Of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Map<String, Value>>,
    /// Of the `PodDisruptionBudget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<Map<String, Value>>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
