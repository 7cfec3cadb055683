use std::collections::BTreeMap;
use std::time::Duration;

use limpet_core::time::GatewayDuration;
use serde_json::{Map, Value, json};

use super::name::{ADMIN_PORT, READY_PORT};
use super::{bounds, resources};
use crate::Objects;
use limpet_api::{
    Autoscaling, Container, EnvoyDeploymentSpec, EnvoyPod, EnvoyService, GatewayClassSpec, GatewaySpec, Kind, Object,
    ObjectName, ParametersRef, Patches,
};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ParameterLayer<'a> {
    /// `None`: there is no parametersRef.
    pub(super) object: Option<&'a Object<EnvoyDeploymentSpec>>,
    /// Whether an author of Gateways says it, and not the operator of the cluster.
    pub(super) is_of_a_gateway: bool,
}

impl ParameterLayer<'_> {
    /// # Errors
    /// With the object and the field.
    pub(crate) fn check(&self) -> Result<(), String> {
        let object = self.object.map_or(Ok(()), |object| check(&object.spec));
        object.map_err(|message| self.at(&message))
    }

    pub(super) fn at(&self, message: &str) -> String {
        let name = self.object.map(|object| object.meta.object_name().to_string());
        format!("{} {}: {message}", Kind::EnvoyDeployment, name.unwrap_or_default())
    }
}

/// # Errors
/// If they cannot be had, with the field.
pub(crate) fn of_class<'a>(
    class: &Object<GatewayClassSpec>,
    objects: &'a Objects,
) -> Result<ParameterLayer<'a>, String> {
    let Some(reference) = &class.spec.parameters_ref else {
        return Ok(ParameterLayer::default());
    };
    let Some(namespace) = reference.namespace.as_deref() else {
        return Err("spec.parametersRef.namespace: expected the namespace of the EnvoyDeployment".to_owned());
    };
    layer("spec.parametersRef", reference, namespace, objects)
}

/// The parameters are in the Gateway's namespace.
///
/// # Errors
/// If they cannot be had, with the field.
pub(crate) fn of_gateway<'a>(
    gateway: &Object<GatewaySpec>,
    objects: &'a Objects,
) -> Result<ParameterLayer<'a>, String> {
    match &gateway.spec.infrastructure.parameters_ref {
        None => Ok(ParameterLayer::default()),
        Some(reference) => {
            let field = "spec.infrastructure.parametersRef";
            let layer = layer(field, reference, &gateway.meta.namespace, objects)?;
            Ok(ParameterLayer {
                is_of_a_gateway: true,
                ..layer
            })
        }
    }
}

fn layer<'a>(
    field: &str,
    reference: &ParametersRef,
    namespace: &str,
    objects: &'a Objects,
) -> Result<ParameterLayer<'a>, String> {
    let ParametersRef { group, kind, name, .. } = reference;
    if Kind::find(group, kind) != Some(Kind::EnvoyDeployment) {
        return Err(format!(
            "{field}: expected an {} of group {}, found {kind} of group {group:?}",
            Kind::EnvoyDeployment,
            Kind::EnvoyDeployment.group()
        ));
    }
    let name = ObjectName::new(namespace, name);
    let Some(object) = objects.envoy_deployments.get(&name) else {
        return Err(format!(
            "{field}: expected EnvoyDeployment {name}, which does not exist"
        ));
    };
    let layer = ParameterLayer {
        object: Some(object),
        is_of_a_gateway: false,
    };
    if let Some(error) = &object.malformed {
        return Err(format!("{field}: {}", layer.at(&error.to_string())));
    }
    if let Some(unknown) = object.unread.first() {
        return Err(format!("{field}: {}", layer.at(&no_such_field(unknown))));
    }
    Ok(layer)
}

/// Checks what no definition of the kind refuses.
///
/// # Errors
/// With the field.
pub(super) fn check(spec: &EnvoyDeploymentSpec) -> Result<(), String> {
    bounds::check("spec.envoy", &spec.envoy)?;
    bounds::check("spec.limpet", &spec.limpet)?;
    bounds::check("spec.service", &spec.service)?;
    bounds::check("spec.pod", &spec.pod)?;
    if spec.replicas.is_some() && spec.autoscaling.is_some() {
        return Err("spec.replicas: remove it: autoscaling is set".to_owned());
    }
    if let Some(autoscaling) = &spec.autoscaling {
        check_autoscaling(autoscaling)?;
    }
    for (field, container) in [("spec.envoy", &spec.envoy), ("spec.limpet", &spec.limpet)] {
        if let Some(resources) = &container.resources {
            resources::check(&format!("{field}.resources"), resources)?;
        }
    }
    if let Some(text) = &spec.drain_time {
        drain_time(text).map_err(|message| format!("spec.drainTime: {message}"))?;
    }
    if let Some(port @ (0 | ADMIN_PORT | READY_PORT)) = spec.metrics_port {
        return Err(format!(
            "spec.metricsPort: expected a port from 1 to 65535 that is not Envoy's own, like {ADMIN_PORT} and \
             {READY_PORT}, found {port}"
        ));
    }
    if spec.service_ref.is_some() && spec.managed != Some(false) {
        return Err("spec.serviceRef: expected it only with managed: false; \
                    the controller knows the Service of managed Envoys"
            .to_owned());
    }
    let patches = [
        ("deployment", &spec.patch.deployment),
        ("service", &spec.patch.service),
        ("podDisruptionBudget", &spec.patch.pod_disruption_budget),
    ];
    for (name, patch) in patches {
        if let Some(patch) = patch {
            let field = format!("spec.patch.{name}");
            bounds::check(&field, patch)?;
            check_patch(&field, patch)?;
        }
    }
    Ok(())
}

/// Checks the configuration's defaults, where no definition refuses anything.
///
/// # Errors
/// With the field.
pub fn check_envoy_defaults(defaults: &Value) -> Result<(), String> {
    let read = limpet_api::object::<EnvoyDeploymentSpec>(&json!({"metadata": {"name": "defaults"}, "spec": defaults}));
    let object = read.map_err(|error| error.to_string())?;
    if let Some(unknown) = object.unread.first() {
        return Err(no_such_field(unknown));
    }
    check(&object.spec)
}

fn no_such_field(field: &str) -> String {
    format!("{field}: there is no such field")
}

/// The listeners of a Gateway also have their ports at its Envoys. `parameters` come from `layers` and defaults.
///
/// # Errors
/// With the field.
pub(super) fn check_ports(
    gateway: &Object<GatewaySpec>,
    layers: &[ParameterLayer<'_>],
    parameters: &EnvoyDeploymentSpec,
) -> Result<(), String> {
    let Some(port) = parameters.metrics_port.filter(|_| parameters.managed != Some(false)) else {
        return Ok(());
    };
    let Some(index) = gateway.spec.listeners.iter().position(|listener| listener.port == port) else {
        return Ok(());
    };
    let says = |layer: &&ParameterLayer<'_>| layer.object.is_some_and(|object| object.spec.metrics_port.is_some());
    let expected =
        format!("expected a port that no listener of the Gateway has, found {port}, as spec.listeners[{index}]");
    Err(match layers.iter().rfind(says) {
        Some(layer) => layer.at(&format!("spec.metricsPort: {expected}")),
        None => format!("the controller's configuration: envoy.managed.defaults.metricsPort: {expected}"),
    })
}

/// How long clients have to go elsewhere. A pod ends within this time, so it is how long a node may have to wait.
pub(super) fn drain_time(text: &str) -> Result<Duration, String> {
    let time = text
        .parse::<GatewayDuration>()
        .map_err(|error| error.about(text))?
        .get();
    let allowed = Duration::from_secs(1)..=Duration::from_secs(3600);
    if time.subsec_nanos() == 0 && allowed.contains(&time) {
        Ok(time)
    } else {
        Err(format!("expected whole seconds from 1s to 1h, found {text}"))
    }
}

/// Authors of Gateways in `namespace` must not run programs next to the controller's keys: neither by an image, nor by
/// labels and annotations that make others change a pod, nor on a node of theirs.
///
/// # Errors
/// With the field.
pub(super) fn check_foreign(spec: &EnvoyDeploymentSpec, namespace: &str) -> Result<(), String> {
    let given = [
        ("spec.envoy.image", spec.envoy.image.is_some()),
        ("spec.limpet.image", spec.limpet.image.is_some()),
        ("spec.pod", spec.pod != EnvoyPod::default()),
        ("spec.patch", spec.patch != Patches::default()),
    ];
    match given.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((field, _)) => Err(format!(
            "{field}: expected it only in the parameters of the GatewayClass, because the Envoys run in namespace \
             {namespace}"
        )),
    }
}

fn check_autoscaling(autoscaling: &Autoscaling) -> Result<(), String> {
    let Autoscaling {
        min_replicas,
        max_replicas,
        cpu_utilization,
    } = autoscaling;
    let min = min_replicas.unwrap_or(1);
    if min == 0 {
        return Err("spec.autoscaling.minReplicas: expected at least 1, found 0".to_owned());
    }
    if *max_replicas < min {
        return Err(format!(
            "spec.autoscaling.maxReplicas: expected at least {min}, which is minReplicas, found {max_replicas}"
        ));
    }
    if *cpu_utilization == Some(0) {
        return Err("spec.autoscaling.cpuUtilization: expected at least 1, found 0".to_owned());
    }
    Ok(())
}

/// A patch cannot say whose object it is, nor which pods belong to it.
fn check_patch(field: &str, patch: &Map<String, Value>) -> Result<(), String> {
    let refuse = |path: &str| Err(format!("{field}.{path}: remove it: the controller sets it"));
    if let Some(name) = patch.keys().find(|name| !["metadata", "spec"].contains(&name.as_str())) {
        return Err(format!("{field}.{name}: expected only metadata and spec"));
    }
    let metadata = patch.get("metadata").and_then(Value::as_object).into_iter().flatten();
    if let Some((name, _)) = metadata
        .into_iter()
        .find(|(name, _)| !["labels", "annotations"].contains(&name.as_str()))
    {
        return refuse(&format!("metadata.{name}"));
    }
    if patch.get("spec").is_some_and(|spec| spec.get("selector").is_some()) {
        return refuse("spec.selector");
    }
    Ok(())
}

/// These parameters, and the lower ones where these say nothing, without patches, which are applied one after the
/// other.
pub(super) fn merged_over(upper: EnvoyDeploymentSpec, lower: EnvoyDeploymentSpec) -> EnvoyDeploymentSpec {
    // Either one overrides both of the lower layer.
    let (replicas, autoscaling) = match (upper.replicas, upper.autoscaling) {
        (None, None) => (lower.replicas, lower.autoscaling),
        own => own,
    };
    EnvoyDeploymentSpec {
        managed: upper.managed.or(lower.managed),
        service_ref: upper.service_ref.or(lower.service_ref),
        replicas,
        autoscaling,
        filter: upper.filter.or(lower.filter),
        drain_time: upper.drain_time.or(lower.drain_time),
        metrics_port: upper.metrics_port.or(lower.metrics_port),
        envoy: container(upper.envoy, lower.envoy),
        limpet: container(upper.limpet, lower.limpet),
        service: EnvoyService {
            kind: upper.service.kind.or(lower.service.kind),
            annotations: both(upper.service.annotations, lower.service.annotations),
            external_traffic_policy: upper
                .service
                .external_traffic_policy
                .or(lower.service.external_traffic_policy),
            load_balancer_class: upper.service.load_balancer_class.or(lower.service.load_balancer_class),
        },
        pod: pod(upper.pod, lower.pod),
        patch: Patches::default(),
    }
}

fn container(upper: Container, lower: Container) -> Container {
    Container {
        image: upper.image.or(lower.image),
        resources: upper.resources.or(lower.resources),
    }
}

fn pod(upper: EnvoyPod, lower: EnvoyPod) -> EnvoyPod {
    EnvoyPod {
        labels: both(upper.labels, lower.labels),
        annotations: both(upper.annotations, lower.annotations),
        node_selector: upper.node_selector.or(lower.node_selector),
        tolerations: upper.tolerations.or(lower.tolerations),
        affinity: upper.affinity.or(lower.affinity),
        topology_spread_constraints: upper.topology_spread_constraints.or(lower.topology_spread_constraints),
        priority_class_name: upper.priority_class_name.or(lower.priority_class_name),
        image_pull_secrets: upper.image_pull_secrets.or(lower.image_pull_secrets),
    }
}

fn both(upper: BTreeMap<String, String>, mut lower: BTreeMap<String, String>) -> BTreeMap<String, String> {
    lower.extend(upper);
    lower
}
