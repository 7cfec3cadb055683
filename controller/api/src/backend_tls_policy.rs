//! TLS towards backends (GEP-1897).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::decode::{Spec, items};

/// `BackendTLSPolicy`, gateway.networking.k8s.io/v1, and v1alpha3 of the releases before 1.4.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsPolicySpec {
    /// What it applies to, in its own namespace.
    pub target_refs: Vec<TlsPolicyTarget>,
    /// How a backend's certificate is verified.
    pub validation: BackendValidation,
    /// What implementations define.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The targets of a malformed policy that cannot be read: their names, as far as these can.
    #[serde(skip)]
    pub unclear_targets: Vec<Option<String>>,
}

impl Spec for BackendTlsPolicySpec {
    fn readable(spec: &Value) -> Self {
        let unclear = |target: &Value| {
            let name = target.get("name").and_then(Value::as_str).map(str::to_owned);
            TlsPolicyTarget::deserialize(target).is_err().then_some(name)
        };
        let unclear_targets = match spec.get("targetRefs") {
            Some(Value::Array(targets)) => targets.iter().filter_map(unclear).collect(),
            _ => vec![None],
        };
        Self {
            target_refs: items(spec, "targetRefs"),
            unclear_targets,
            ..Self::default()
        }
    }
}

/// What a policy applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsPolicyTarget {
    /// Its API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The name of a Service's port; all ports if it is not set.
    #[serde(default)]
    pub section_name: Option<String>,
}

/// How a backend's certificate is verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendValidation {
    /// The objects with the certificates of authorities.
    #[serde(rename = "caCertificateRefs", default)]
    pub ca_certificate_refs: Vec<CaCertificateRef>,
    /// Authorities that need no object: `System`.
    #[serde(rename = "wellKnownCACertificates", default)]
    pub well_known_ca_certificates: Option<String>,
    /// The server name that is asked for (SNI). The certificate must have it unless `subject_alt_names` has any.
    pub hostname: String,
    /// The names of which the certificate must have one.
    #[serde(default)]
    pub subject_alt_names: Vec<PolicySubjectAltName>,
}

/// An object in the namespace of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct CaCertificateRef {
    /// Its API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A name in a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PolicySubjectAltName {
    /// `Hostname` or `URI`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name if it is a hostname.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The name if it is a URI.
    #[serde(default)]
    pub uri: Option<String>,
}
