//! The Envoys of Gateways, as objects of Kubernetes: for each Gateway a Deployment, a Service, a `ServiceAccount`, a
//! `PodDisruptionBudget` and, on request, a `HorizontalPodAutoscaler`.

mod pod;
mod strategic;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::envoy::{EnvoysNamespace, ManagedOptions};
use crate::manifests::{Manifest, ManifestInputs, ManifestKind, ManifestOwner, Manifests, WriteStage};
use limpet_api::{Autoscaling, GATEWAY_GROUP, Kind, ObjectName, Patches, ServiceType};
use limpet_model::{EnvoyDeployment, Envoys, envoys_labels};

pub use strategic::merge_key;

/// Pods by default.
const REPLICAS: u32 = 2;
/// Seconds without progress until a rollout is reported as stuck. Kubernetes' default is ten minutes. A node that a
/// cluster adds for a pod is mostly there sooner.
const PROGRESS_DEADLINE: u32 = 180;
/// The CPU that pods use at most on average, in percent.
const CPU_UTILIZATION: u32 = 80;

const SERVICE_ACCOUNT: ManifestKind = ManifestKind {
    group: "",
    version: "v1",
    kind: "ServiceAccount",
    plural: "serviceaccounts",
};
/// Of Services.
pub const SERVICE: ManifestKind = ManifestKind {
    group: "",
    version: "v1",
    kind: "Service",
    plural: "services",
};
/// Of Deployments.
pub const DEPLOYMENT: ManifestKind = ManifestKind {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    plural: "deployments",
};
const DISRUPTION_BUDGET: ManifestKind = ManifestKind {
    group: "policy",
    version: "v1",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
};
/// Of horizontal autoscalers.
pub const AUTOSCALER: ManifestKind = ManifestKind {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
};

/// Kinds in the order in which they are written.
pub const DEFINITIONS: &[&ManifestKind] = &[&SERVICE_ACCOUNT, &SERVICE, &DISRUPTION_BUDGET, &DEPLOYMENT, &AUTOSCALER];

/// The objects that should exist.
#[must_use]
pub fn manifests(source: &ManifestInputs<'_>, options: &ManagedOptions) -> Manifests {
    EnvoyObjects::default().catch_up(source, options)
}

/// The objects of each Gateway's Envoys, as they were made last. Patches are applied only where anything differs,
/// because all Gateways wait for a build.
#[derive(Debug, Default)]
pub struct EnvoyObjects(BTreeMap<ObjectName, GatewayObjects>);

#[derive(Debug)]
struct GatewayObjects {
    envoys: Arc<Envoys>,
    owner: Option<ManifestOwner>,
    objects: Vec<Arc<Manifest>>,
}

impl EnvoyObjects {
    /// The objects that should exist. The options are the same every time.
    pub fn catch_up(&mut self, source: &ManifestInputs<'_>, options: &ManagedOptions) -> Manifests {
        let mut manifests = Manifests::default();
        let mut known = std::mem::take(&mut self.0);
        for (gateway, envoys) in &source.graph.envoys {
            if envoys.unchanged {
                manifests.unchanged.insert(gateway.clone());
            } else if let Some(deployment) = &envoys.deployment {
                let owner = owner(source, gateway, options);
                let known = known.remove(gateway);
                let is_same = |known: &GatewayObjects| known.envoys == *envoys && known.owner == owner;
                let made = known.filter(is_same).unwrap_or_else(|| {
                    let wanted = GatewayDeployment {
                        gateway,
                        deployment,
                        options,
                        listen_address: source.options.listen_address,
                        owner: owner.clone(),
                    };
                    GatewayObjects {
                        envoys: Arc::clone(envoys),
                        objects: wanted.manifests().into_iter().map(Arc::new).collect(),
                        owner,
                    }
                });
                manifests.objects.extend(made.objects.iter().cloned());
                self.0.insert(gateway.clone(), made);
            }
        }
        manifests.sort(DEFINITIONS);
        manifests
    }
}

/// Only an object in the same namespace can be an owner.
fn owner(source: &ManifestInputs<'_>, gateway: &ObjectName, options: &ManagedOptions) -> Option<ManifestOwner> {
    let object = source.objects.gateways.get(gateway)?;
    (options.namespace == EnvoysNamespace::Gateway).then(|| ManifestOwner {
        api_version: format!("{GATEWAY_GROUP}/v1"),
        kind: Kind::Gateway.as_str(),
        name: gateway.name.to_string(),
        uid: object.meta.uid.clone(),
    })
}

type Texts = BTreeMap<String, String>;

struct GatewayDeployment<'a> {
    gateway: &'a ObjectName,
    deployment: &'a EnvoyDeployment,
    options: &'a ManagedOptions,
    listen_address: IpAddr,
    owner: Option<ManifestOwner>,
}

impl GatewayDeployment<'_> {
    fn manifests(&self) -> Vec<Manifest> {
        let mut all = vec![
            self.manifest(&SERVICE_ACCOUNT, Value::Null, |_| None),
            self.manifest(&SERVICE, self.service(), |patches| patches.service.as_ref()),
            self.manifest(&DISRUPTION_BUDGET, self.disruption_budget(), |patches| {
                patches.pod_disruption_budget.as_ref()
            }),
            self.manifest(&DEPLOYMENT, self.pods(), |patches| patches.deployment.as_ref()),
        ];
        if let Some(autoscaling) = &self.deployment.parameters.autoscaling {
            let autoscaler = self.autoscaler(autoscaling);
            all.push(self.manifest(&AUTOSCALER, autoscaler, |_| None));
        }
        all
    }

    /// Patches change neither whose an object is nor which pods belong to it.
    fn manifest(
        &self,
        definition: &'static ManifestKind,
        spec: Value,
        patch_of: impl Fn(&Patches) -> Option<&Map<String, Value>>,
    ) -> Manifest {
        let (mut own_labels, mut annotations) = self.metadata(definition);
        // What the Gateway asks for gives way.
        own_labels.extend(self.own_labels());
        if *definition == SERVICE {
            annotations.extend(self.deployment.parameters.service.annotations.clone());
        }
        let mut object = Map::from_iter([
            (
                "metadata".to_owned(),
                json!({"labels": own_labels, "annotations": annotations}),
            ),
            ("spec".to_owned(), spec),
        ]);
        for patch in self.deployment.patches.iter().filter_map(patch_of) {
            strategic::patch(&mut object, patch);
        }
        let texts = |name: &str| texts(object.get("metadata").and_then(|metadata| metadata.get(name)));
        let mut labels = texts("labels");
        labels.extend(own_labels);
        Manifest {
            stage: WriteStage::Routes,
            definition,
            name: self.deployment.name.clone(),
            gateways: BTreeSet::from([self.gateway.clone()]),
            tenant: self.gateway.namespace.clone(),
            owner: self.owner.clone(),
            labels,
            annotations: texts("annotations"),
            spec: object.remove("spec").unwrap_or_default(),
        }
    }

    /// The labels that pods are selected by, which never change.
    fn selector(&self) -> BTreeMap<String, String> {
        let instance = self.deployment.name.name.to_string();
        let labels = [
            ("app.kubernetes.io/name", "limpet-envoy".to_owned()),
            ("app.kubernetes.io/instance", instance),
        ];
        labels.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn metadata(&self, definition: &ManifestKind) -> (Texts, Texts) {
        let names = &self.options.infrastructure;
        let (labels, annotations): (&[String], &[String]) = match *definition {
            SERVICE => (&names.service_labels, &names.service_annotations),
            SERVICE_ACCOUNT => (&names.service_account_labels, &names.service_account_annotations),
            DEPLOYMENT => (&names.deployment_labels, &names.deployment_annotations),
            _ => (&[], &[]),
        };
        self.requested_metadata(labels, annotations)
    }

    /// Labels and annotations that the Gateway asks for: all of them in its own namespace, and listed ones in another.
    fn requested_metadata(&self, labels: &[String], annotations: &[String]) -> (Texts, Texts) {
        let deployment = self.deployment;
        if self.gateway.namespace == deployment.name.namespace {
            return (deployment.labels.clone(), deployment.annotations.clone());
        }
        let of = limpet_model::allowed_metadata;
        (of(labels, &deployment.labels), of(annotations, &deployment.annotations))
    }

    fn own_labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.extend(envoys_labels(self.gateway));
        labels
    }

    fn pods(&self) -> Value {
        let mut spec = json!({
            "selector": {"matchLabels": self.selector()},
            "progressDeadlineSeconds": PROGRESS_DEADLINE,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": self.template(),
        });
        let parameters = &self.deployment.parameters;
        if let (None, Value::Object(spec)) = (&parameters.autoscaling, &mut spec) {
            let replicas = parameters.replicas.unwrap_or(REPLICAS);
            spec.insert("replicas".to_owned(), replicas.into());
        }
        spec
    }

    fn service(&self) -> Value {
        let parameters = &self.deployment.parameters.service;
        let kind = self.deployment.service_type();
        let ports = self.deployment.ports.iter();
        let ports: Vec<Value> = ports
            .map(|port| json!({"name": format!("port-{port}"), "port": port, "targetPort": port, "protocol": "TCP"}))
            .collect();
        let mut spec = json!({"type": kind, "selector": self.selector(), "ports": ports});
        let Value::Object(fields) = &mut spec else { return spec };
        let mut set = |name: &str, value: Option<Value>| fields.extend(value.map(|value| (name.to_owned(), value)));
        if kind != ServiceType::ClusterIp {
            // By default, Envoy sees the addresses of clients.
            let policy = parameters
                .external_traffic_policy
                .map_or(json!("Local"), |policy| json!(policy));
            set("externalTrafficPolicy", Some(policy));
        }
        if kind == ServiceType::LoadBalancer {
            let class = parameters.load_balancer_class.as_ref();
            set("loadBalancerClass", class.map(|class| json!(class)));
        }
        let asked = self.requested_addresses();
        if kind == ServiceType::LoadBalancer {
            set("loadBalancerIP", asked.first().map(|first| json!(first)));
        } else if kind == ServiceType::ClusterIp
            && let Some(first) = asked.first()
        {
            set("clusterIP", Some(json!(first)));
            set("clusterIPs", Some(json!(asked)));
            set("ipFamilyPolicy", (asked.len() > 1).then(|| json!("RequireDualStack")));
        }
        spec
    }

    /// The first address of each family that the Gateway asks for: a Service can have no more.
    fn requested_addresses(&self) -> Vec<&String> {
        let mut asked: Vec<&String> = Vec::new();
        for address in &self.deployment.addresses {
            let is_v6 = |text: &str| text.contains(':');
            if asked.iter().all(|known| is_v6(known) != is_v6(address)) {
                asked.push(address);
            }
        }
        asked
    }

    fn disruption_budget(&self) -> Value {
        // Not `minAvailable`: the only pod of a Deployment could never be evicted.
        json!({"maxUnavailable": 1, "selector": {"matchLabels": self.selector()}})
    }

    fn autoscaler(&self, autoscaling: &Autoscaling) -> Value {
        let utilization = autoscaling.cpu_utilization.unwrap_or(CPU_UTILIZATION);
        json!({
            "scaleTargetRef": {
                "apiVersion": DEPLOYMENT.api_version(),
                "kind": DEPLOYMENT.kind,
                "name": self.deployment.name.name,
            },
            "minReplicas": autoscaling.min_replicas.unwrap_or(REPLICAS.min(autoscaling.max_replicas)),
            "maxReplicas": autoscaling.max_replicas,
            "metrics": [{
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization}},
            }],
        })
    }
}

fn texts(map: Option<&Value>) -> BTreeMap<String, String> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    entries.filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use limpet_model::{AllowedMetadata, GATEWAY_NAME, Graph, Objects, envoys_name};

    use super::*;
    use crate::envoy::EnvoyOptions;
    use crate::{FilterInputs, FilterKeys};

    const LABEL: &str = "sidecar.istio.io/inject";
    const ANNOTATION: &str = "sidecar.istio.io/proxyImage";
    const ROLE: &str = "eks.amazonaws.com/role-arn";
    const BALANCER: &str = "networking.gke.io/load-balancer-type";

    fn deployment(gateway: &ObjectName, namespace: &str) -> EnvoyDeployment {
        let extra = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
        EnvoyDeployment {
            name: ObjectName::new(namespace, &envoys_name(gateway)),
            parameters: limpet_api::EnvoyDeploymentSpec::default(),
            patches: Vec::new(),
            ports: BTreeSet::from([80]),
            addresses: Vec::new(),
            labels: extra(&[LABEL]),
            annotations: extra(&[ANNOTATION, ROLE, BALANCER]),
        }
    }

    fn manifests(gateway: &ObjectName, namespace: &str) -> Vec<Manifest> {
        manifests_with(gateway, namespace, &ManagedOptions::default())
    }

    fn manifests_with(gateway: &ObjectName, namespace: &str, options: &ManagedOptions) -> Vec<Manifest> {
        let deployment = deployment(gateway, namespace);
        let wanted = GatewayDeployment {
            gateway,
            deployment: &deployment,
            options,
            listen_address: IpAddr::from([0, 0, 0, 0]),
            owner: None,
        };
        wanted.manifests()
    }

    fn template(namespace: &str) -> Value {
        let all = manifests(&ObjectName::new("shop", "web"), namespace);
        let pods = all.into_iter().find(|one| *one.definition == DEPLOYMENT);
        pods.unwrap().spec["template"]["metadata"].take()
    }

    /// They say what other programs put into pods.
    #[test]
    fn what_a_gateway_asks_for_is_on_no_pod_of_another_namespace() {
        let own = template("shop");
        assert_eq!(own["labels"]["sidecar.istio.io/inject"], "1");
        assert_eq!(own["annotations"]["sidecar.istio.io/proxyImage"], "1");
        let foreign = template("limpet-system");
        assert_eq!(foreign["labels"]["sidecar.istio.io/inject"], Value::Null);
        assert_eq!(foreign["annotations"], Value::Null);
        assert_eq!(foreign["labels"][GATEWAY_NAME], "web");
    }

    /// They give a `ServiceAccount` a role of the cloud, for example.
    #[test]
    fn in_another_namespace_objects_have_what_is_listed_alone() {
        let gateway = ObjectName::new("shop", "web");
        let has = |all: &[Manifest]| {
            let all = all.iter().map(|one| {
                let annotations = [ANNOTATION, ROLE, BALANCER].map(|name| one.annotations.contains_key(name));
                (one.definition.kind, one.labels.contains_key(LABEL), annotations)
            });
            all.collect::<Vec<_>>()
        };
        for (kind, label, annotations) in has(&manifests(&gateway, "shop")) {
            assert!(label && annotations == [true; 3], "{kind}");
        }
        let by_default = has(&manifests(&gateway, "limpet-system"));
        assert_eq!(
            by_default,
            [
                ("ServiceAccount", false, [false; 3]),
                ("Service", false, [false, false, true]),
                ("PodDisruptionBudget", false, [false; 3]),
                ("Deployment", false, [false; 3]),
            ]
        );
        let infrastructure = AllowedMetadata {
            service_labels: vec!["sidecar.istio.io/*".to_owned()],
            service_annotations: Vec::new(),
            service_account_annotations: vec![ROLE.to_owned()],
            deployment_annotations: vec!["*".to_owned()],
            pod_labels: vec![LABEL.to_owned()],
            ..AllowedMetadata::default()
        };
        let options = ManagedOptions {
            infrastructure,
            ..ManagedOptions::default()
        };
        let all = manifests_with(&gateway, "limpet-system", &options);
        assert_eq!(
            has(&all),
            [
                ("ServiceAccount", false, [false, true, false]),
                ("Service", true, [false; 3]),
                ("PodDisruptionBudget", false, [false; 3]),
                ("Deployment", false, [true; 3]),
            ]
        );
        let pods = &all[3].spec["template"]["metadata"];
        assert_eq!(pods["labels"][LABEL], "1");
        assert_eq!(pods["annotations"], Value::Null);
    }

    #[test]
    fn objects_are_made_again_of_what_differs_alone() {
        let [web, api] = ["web", "api"].map(|name| ObjectName::new("shop", name));
        let mut graph = Graph::default();
        let set = |graph: &mut Graph, gateway: &ObjectName, port: u16| {
            let mut envoys = Envoys::default();
            envoys.deployment = Some(EnvoyDeployment {
                ports: BTreeSet::from([port]),
                ..deployment(gateway, "limpet-system")
            });
            graph.envoys.insert(gateway.clone(), Arc::new(envoys));
        };
        let mut made = EnvoyObjects::default();
        let mut build = |graph: &Graph| {
            let source = ManifestInputs {
                objects: &Objects::default(),
                graph,
                options: &EnvoyOptions::default(),
                inputs: &FilterInputs::with_keys(FilterKeys::Listed(Vec::new())),
                retained: &BTreeMap::new(),
            };
            let built = made.catch_up(&source, &ManagedOptions::default());
            assert_eq!(built, super::manifests(&source, &ManagedOptions::default()));
            built.objects
        };
        set(&mut graph, &web, 80);
        set(&mut graph, &api, 80);
        let first = build(&graph);
        set(&mut graph, &web, 80);
        set(&mut graph, &api, 81);
        let second = build(&graph);
        assert_eq!((first.len(), second.len()), (8, 8));
        for (one, other) in first.iter().zip(&second) {
            assert_eq!(Arc::ptr_eq(one, other), one.gateways.contains(&web), "{}", one.name);
        }
        graph.envoys.remove(&web);
        assert_eq!(build(&graph).len(), 4);
    }

    #[test]
    fn all_objects_of_a_gateway_have_one_label_of_its_name() {
        for length in [63, 64, 253] {
            let gateway = ObjectName::new("shop", &"w".repeat(length));
            let secrets = &envoys_labels(&gateway)[GATEWAY_NAME];
            for object in manifests(&gateway, "limpet-system") {
                let label = &object.labels[GATEWAY_NAME];
                assert_eq!(label, secrets, "{}", object.definition.kind);
                assert!(label.len() <= 63, "{label}");
            }
        }
    }
}
