//! The pods of a Gateway's Envoys. Nothing in them needs a shell.

use serde_json::{Map, Value, json};

use super::GatewayDeployment;
use crate::envoy::EnvoysNamespace;
use limpet_api::Container;
use limpet_model::{ADMIN_PORT, READY_PORT, envoys_certificate, envoys_keys};

/// Seconds for a pod to end after clients had their time to go elsewhere.
const TIME_TO_END: u64 = 30;

const FOLDER: &str = "/etc/limpet";
/// The folder of the certificate for the xDS server.
const CERTIFICATE: &str = "/etc/limpet-xds";

/// The user of all containers: not root.
const USER: u32 = 65532;

impl GatewayDeployment<'_> {
    pub(super) fn template(&self) -> Value {
        let pod = &self.deployment.parameters.pod;
        // Labels and annotations of pods make others put programs and volumes into them, and lead requests to them: in
        // another namespace, a matter of its operator.
        let names = &self.options.infrastructure;
        let (of_gateway, mut annotations) = self.requested_metadata(&names.pod_labels, &names.pod_annotations);
        let mut labels = pod.labels.clone();
        labels.extend(of_gateway);
        labels.extend(self.own_labels());
        annotations.extend(pod.annotations.clone());
        let mut metadata = json!({"labels": labels});
        if let (false, Value::Object(metadata)) = (annotations.is_empty(), &mut metadata) {
            metadata.insert("annotations".to_owned(), json!(annotations));
        }
        json!({"metadata": metadata, "spec": self.pod()})
    }

    fn pod(&self) -> Value {
        let parameters = &self.deployment.parameters.pod;
        let mut spec = json!({
            "serviceAccountName": self.deployment.name.name,
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
                // Listeners have the ports of their Gateway, such as 80.
                "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
            },
            "terminationGracePeriodSeconds": self.deployment.drain_time().as_secs() + TIME_TO_END,
            "initContainers": [self.install(), self.bootstrap()],
            "containers": [self.envoy()],
            "volumes": self.volumes(),
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": self.selector()},
            }],
        });
        let given = [
            (
                "nodeSelector",
                parameters.node_selector.as_ref().map(|value| json!(value)),
            ),
            ("tolerations", parameters.tolerations.as_ref().map(|value| json!(value))),
            ("affinity", parameters.affinity.as_ref().map(|value| json!(value))),
            (
                "priorityClassName",
                parameters.priority_class_name.as_ref().map(|value| json!(value)),
            ),
            (
                "imagePullSecrets",
                parameters.image_pull_secrets.as_ref().map(|value| json!(value)),
            ),
            (
                "topologySpreadConstraints",
                parameters
                    .topology_spread_constraints
                    .as_ref()
                    .map(|value| json!(value)),
            ),
        ];
        if let Value::Object(spec) = &mut spec {
            let given = given
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)));
            spec.extend(given);
        }
        spec
    }

    fn install(&self) -> Value {
        json!({
            "name": "install",
            "image": self.limpet_image(),
            "args": ["install", "--to", FOLDER],
            "resources": self.limpet_resources(),
            "securityContext": unprivileged(),
            "volumeMounts": [{"name": "limpet", "mountPath": FOLDER}],
        })
    }

    fn bootstrap(&self) -> Value {
        let mut arguments: Vec<String> = ["controller", "bootstrap", "--gateway"].map(str::to_owned).into();
        arguments.extend([
            self.gateway.to_string(),
            "--node-id".to_owned(),
            "$(POD_NAME)".to_owned(),
        ]);
        arguments.extend(["--xds".to_owned(), self.options.xds()]);
        let mut mounts = vec![json!({"name": "limpet", "mountPath": FOLDER})];
        if self.options.surroundings.tls {
            for (option, file) in [("--ca", "ca.crt"), ("--certificate", "tls.crt"), ("--key", "tls.key")] {
                arguments.extend([option.to_owned(), format!("{CERTIFICATE}/{file}")]);
            }
            mounts.push(certificate_mount());
        }
        if self.listen_address.is_ipv6() {
            arguments.extend(["--ready-address".to_owned(), self.listen_address.to_string()]);
        }
        if let Some(port) = self.deployment.parameters.metrics_port {
            arguments.extend(["--metrics-port".to_owned(), port.to_string()]);
        }
        if let Some(heap) = self.max_heap() {
            arguments.extend(["--max-heap".to_owned(), heap.to_string()]);
        }
        arguments.extend(["--write".to_owned(), FOLDER.to_owned()]);
        json!({
            "name": "bootstrap",
            "image": self.limpet_image(),
            "args": arguments,
            "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": self.limpet_resources(),
            "securityContext": unprivileged(),
            "volumeMounts": mounts,
        })
    }

    fn envoy(&self) -> Value {
        let Container { image, resources } = &self.deployment.parameters.envoy;
        let image = image.as_ref().unwrap_or(&self.options.envoy_image);
        let resources = resources.clone().map_or_else(
            || json!({"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}),
            Value::Object,
        );
        let ports = self.deployment.ports.iter();
        let listeners = ports.map(|port| (format!("port-{port}"), *port));
        let metrics = self.deployment.parameters.metrics_port;
        let ports: Vec<Value> = listeners
            .chain(metrics.map(|port| ("metrics".to_owned(), port)))
            .map(|(name, port)| json!({"name": name, "containerPort": port, "protocol": "TCP"}))
            .collect();
        let mut mounts = vec![json!({"name": "limpet", "mountPath": FOLDER, "readOnly": true})];
        if self.options.surroundings.tls {
            mounts.push(certificate_mount());
        }
        let seconds = self.deployment.drain_time().as_secs();
        let mut container = json!({
            "name": "envoy",
            "image": image,
            "command": ["envoy", "-c", format!("{FOLDER}/envoy.yaml"), "--drain-time-s", seconds.to_string()],
            "env": [{"name": "ENVOY_DYNAMIC_MODULES_SEARCH_PATH", "value": FOLDER}],
            "ports": ports,
            "readinessProbe": {
                "httpGet": {"path": "/ready", "port": READY_PORT},
                "periodSeconds": 5,
                // On a busy node an answer may take longer than a second.
                "timeoutSeconds": 5,
            },
            "lifecycle": {"preStop": {"exec": {"command": [
                format!("{FOLDER}/limpet"), "envoy", "drain", "--admin-port", ADMIN_PORT.to_string(),
                "--timeout", format!("{seconds}s"),
            ]}}},
            "resources": resources,
            "securityContext": unprivileged(),
            "volumeMounts": mounts,
        });
        if let (Some(secret), Value::Object(container)) = (self.keys(), &mut container) {
            container.insert("envFrom".to_owned(), json!([{"secretRef": {"name": secret}}]));
        }
        container
    }

    /// The Secret with the key-encryption keys: the controller's own, or a copy of it beside the pods.
    fn keys(&self) -> Option<String> {
        let own = self.options.surroundings.key_encryption_keys.clone()?;
        Some(match self.options.namespace {
            EnvoysNamespace::Controller => own,
            EnvoysNamespace::Gateway => envoys_keys(self.gateway),
        })
    }

    fn volumes(&self) -> Vec<Value> {
        let mut volumes = vec![json!({"name": "limpet", "emptyDir": {"sizeLimit": "128Mi"}})];
        if self.options.surroundings.tls {
            let secret = envoys_certificate(self.gateway);
            volumes.push(json!({"name": "xds", "secret": {"secretName": secret}}));
        }
        volumes
    }

    fn limpet_image(&self) -> &str {
        let image = self.deployment.parameters.limpet.image.as_ref();
        image.unwrap_or(&self.options.limpet_image)
    }

    fn limpet_resources(&self) -> Value {
        let resources = self.deployment.parameters.limpet.resources.clone();
        let default = || json!({"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}});
        resources.map_or_else(default, Value::Object)
    }

    /// The MiB of heap near which Envoy refuses requests: three quarters of its limit, if any.
    fn max_heap(&self) -> Option<u64> {
        let limit = self
            .deployment
            .parameters
            .envoy
            .resources
            .as_ref()?
            .get("limits")?
            .get("memory")?;
        let bytes = bytes(limit)?;
        Some((bytes / 4 * 3) >> 20).filter(|heap| *heap > 0)
    }
}

/// The bytes of a quantity (`k8s.io/apimachinery/pkg/api/resource`), as a string or a number.
fn bytes(quantity: &Value) -> Option<u64> {
    let text = match quantity {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let factors = [
        ("Ki", 2_f64.powi(10)),
        ("Mi", 2_f64.powi(20)),
        ("Gi", 2_f64.powi(30)),
        ("Ti", 2_f64.powi(40)),
        ("Pi", 2_f64.powi(50)),
        ("Ei", 2_f64.powi(60)),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let with_unit = factors
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = with_unit.unwrap_or((&text, 1.0));
    let bytes = number.parse::<f64>().ok()? * factor;
    // What is no number of bytes becomes 0, and what is too large the largest.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates"
    )]
    Some(bytes as u64)
}

fn certificate_mount() -> Value {
    json!({"name": "xds", "mountPath": CERTIFICATE, "readOnly": true})
}

fn unprivileged() -> Map<String, Value> {
    let settings = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    });
    match settings {
        Value::Object(settings) => settings,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_quantity_is_read() {
        for (quantity, expected) in [
            (json!("512Mi"), Some(512 << 20)),
            (json!("0.5Gi"), Some(512 << 20)),
            (json!("1.5Gi"), Some(1536 << 20)),
            (json!("2Ti"), Some(2 << 40)),
            (json!("128974848"), Some(128_974_848)),
            (json!(128_974_848), Some(128_974_848)),
            (json!("129e6"), Some(129_000_000)),
            (json!("129M"), Some(129_000_000)),
            (json!("1E"), Some(1_000_000_000_000_000_000)),
            (json!("128974848000m"), Some(128_974_848)),
            (json!("much"), None),
            (json!({}), None),
        ] {
            assert_eq!(bytes(&quantity), expected, "{quantity}");
        }
    }
}
