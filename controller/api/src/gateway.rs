use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::Text;
use super::decode::{Spec, text};

/// `GatewayClass`, gateway.networking.k8s.io/v1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// The name of the controller that serves its Gateways.
    pub controller_name: String,
    /// How the Envoys of its Gateways run.
    #[serde(default)]
    pub parameters_ref: Option<ParametersRef>,
}

impl Spec for GatewayClassSpec {
    fn readable(spec: &Value) -> Self {
        Self {
            controller_name: text(spec, "controllerName"),
            ..Self::default()
        }
    }
}

/// `Gateway`, gateway.networking.k8s.io/v1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// The name of its GatewayClass.
    pub gateway_class_name: Text,
    /// Its listeners.
    #[serde(default)]
    pub listeners: Vec<GatewayListener>,
    /// TLS of the whole Gateway.
    #[serde(default)]
    pub tls: Option<GatewayTls>,
    /// The addresses that it asks for.
    #[serde(default)]
    pub addresses: Vec<AddressRequest>,
    /// What the Gateway's infrastructure should be.
    #[serde(default)]
    pub infrastructure: Infrastructure,
}

/// An address that a Gateway asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressRequest {
    /// `IPAddress` (also when left out), `Hostname`, and others that are refused.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// The address; any of its type if it is not set.
    #[serde(default)]
    pub value: Option<String>,
}

/// What the infrastructure of a Gateway should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Infrastructure {
    /// How its Envoys run.
    #[serde(default)]
    pub parameters_ref: Option<ParametersRef>,
    /// Labels for everything that belongs to its Envoys.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations for the same.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// A reference to parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParametersRef {
    /// Its API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, which only a GatewayClass names.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// TLS of a whole Gateway. No field of it is read, so the fields that are set are listed as unread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct GatewayTls {}

impl Spec for GatewaySpec {
    fn readable(spec: &Value) -> Self {
        Self {
            gateway_class_name: text(spec, "gatewayClassName").into(),
            ..Self::default()
        }
    }
}

/// One listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayListener {
    /// Its name, once in each Gateway.
    pub name: String,
    /// The hosts that it serves: a name, `*.` and a suffix, or all.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Its port.
    pub port: u16,
    /// `HTTP`, `HTTPS`, and others that are refused.
    pub protocol: String,
    /// How TLS is terminated.
    #[serde(default)]
    pub tls: Option<ListenerTls>,
    /// Which routes may attach.
    #[serde(default)]
    pub allowed_routes: AllowedRoutes,
}

/// TLS of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// `Terminate` (also when left out) or `Passthrough`.
    #[serde(default)]
    pub mode: Option<String>,
    /// Where the certificates are.
    #[serde(default)]
    pub certificate_refs: Vec<SecretRef>,
}

/// A reference to an object, by default a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Its API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its kind.
    #[serde(default = "secret")]
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; the referring object's if it is not set.
    #[serde(default)]
    pub namespace: Option<String>,
}

fn secret() -> String {
    "Secret".to_owned()
}

/// Which routes may attach to a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedRoutes {
    /// From which namespaces.
    #[serde(default)]
    pub namespaces: RouteNamespaces,
    /// Of which kinds; all kinds that fit the protocol if the list is empty.
    #[serde(default)]
    pub kinds: Vec<KindRef>,
}

/// The namespaces whose routes may attach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteNamespaces {
    /// `Same` (also when left out), `All` or `Selector`; `None` from 1.3 on.
    #[serde(default)]
    pub from: Option<String>,
    /// With `Selector`: the namespaces' labels.
    #[serde(default)]
    pub selector: Option<LabelSelector>,
}

/// A kind of route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindRef {
    /// Its API group.
    #[serde(default = "gateway_group")]
    pub group: String,
    /// Its name.
    pub kind: String,
}

pub(crate) fn gateway_group() -> String {
    crate::GATEWAY_GROUP.to_owned()
}

/// Kubernetes' label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(default)]
    pub match_expressions: Vec<Requirement>,
}

/// One requirement of a label selector.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label's name.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// For `In` and `NotIn`. There may be many, and each namespace is looked up among them.
    #[serde(default)]
    pub values: BTreeSet<String>,
}

impl LabelSelector {
    /// Whether it selects an object with these labels. An unknown operator selects nothing.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        self.match_labels.iter().all(has)
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.holds(labels))
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}
