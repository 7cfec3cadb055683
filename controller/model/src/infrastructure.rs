//! Which labels and annotations a Gateway may ask for where its Envoys run in another namespace (`spec.infrastructure`,
//! GEP-1762 and GEP-1867).
//!
//! Others act on them with their own rights: an annotation gives a `ServiceAccount` a role of the cloud, a Service a
//! host name in a DNS zone, or a pod a volume. Authors of Gateways elsewhere have no such rights in the controller's
//! namespace, so the operator lists the names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What cloud providers read of a Service for its own load balancer, without names by which a Service takes what may be
/// another's (an address, a certificate, a bucket, a host name, a pool, another balancer).
const BALANCER: &[&str] = &[
    "networking.gke.io/internal-load-balancer-allow-global-access",
    "networking.gke.io/load-balancer-type",
    "service.beta.kubernetes.io/aws-load-balancer-cross-zone-load-balancing-enabled",
    "service.beta.kubernetes.io/aws-load-balancer-healthcheck-*",
    "service.beta.kubernetes.io/aws-load-balancer-internal",
    "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type",
    "service.beta.kubernetes.io/aws-load-balancer-scheme",
    "service.beta.kubernetes.io/aws-load-balancer-type",
    "service.beta.kubernetes.io/azure-load-balancer-internal",
    "service.beta.kubernetes.io/azure-load-balancer-tcp-idle-timeout",
];

/// Names that a Gateway's condition repeats.
const TOLD: usize = 16;

/// The section `envoy.managed.infrastructure` of the controller's configuration: names, by kind. A `*` at the end is
/// for any rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AllowedMetadata {
    /// Of Deployments.
    pub deployment_annotations: Vec<String>,
    /// Of Deployments.
    pub deployment_labels: Vec<String>,
    /// Of pods.
    pub pod_annotations: Vec<String>,
    /// Of pods.
    pub pod_labels: Vec<String>,
    /// Of `ServiceAccount`s.
    pub service_account_annotations: Vec<String>,
    /// Of `ServiceAccount`s.
    pub service_account_labels: Vec<String>,
    /// Of Services, also from the `EnvoyDeployment` of a Gateway.
    pub service_annotations: Vec<String>,
    /// Of Services.
    pub service_labels: Vec<String>,
}

impl Default for AllowedMetadata {
    fn default() -> Self {
        Self {
            deployment_annotations: Vec::new(),
            deployment_labels: Vec::new(),
            pod_annotations: Vec::new(),
            pod_labels: Vec::new(),
            service_account_annotations: Vec::new(),
            service_account_labels: Vec::new(),
            service_annotations: BALANCER.iter().map(|name| (*name).to_owned()).collect(),
            service_labels: Vec::new(),
        }
    }
}

impl AllowedMetadata {
    fn annotations(&self) -> [(&'static str, &[String]); 4] {
        [
            ("deploymentAnnotations", &self.deployment_annotations),
            ("podAnnotations", &self.pod_annotations),
            ("serviceAccountAnnotations", &self.service_account_annotations),
            ("serviceAnnotations", &self.service_annotations),
        ]
    }

    fn labels(&self) -> [(&'static str, &[String]); 4] {
        [
            ("deploymentLabels", &self.deployment_labels),
            ("podLabels", &self.pod_labels),
            ("serviceAccountLabels", &self.service_account_labels),
            ("serviceLabels", &self.service_labels),
        ]
    }

    /// Checks that `*` is only at the end.
    ///
    /// # Errors
    /// With the field.
    pub fn check(&self) -> Result<(), String> {
        for (field, names) in self.annotations().into_iter().chain(self.labels()) {
            for (index, name) in names.iter().enumerate() {
                let begin = name.strip_suffix('*').unwrap_or(name);
                if name.is_empty() || begin.contains('*') {
                    return Err(format!(
                        "{field}[{index}]: expected a name, or the begin of names and *, found {name:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the names of the annotations that it takes out, because no object may have them.
    pub(super) fn remove_annotations(&self, asked: &mut BTreeMap<String, String>) -> Vec<String> {
        remove_listed(&self.annotations().map(|(_, names)| names), asked)
    }

    /// As [`Self::take_annotations`], for labels.
    pub(super) fn remove_labels(&self, asked: &mut BTreeMap<String, String>) -> Vec<String> {
        remove_listed(&self.labels().map(|(_, names)| names), asked)
    }

    /// As [`Self::take_annotations`], for Services.
    pub(super) fn remove_of_service(&self, asked: &mut BTreeMap<String, String>) -> Vec<String> {
        remove_listed(&[&self.service_annotations], asked)
    }
}

pub(super) fn left_out_message(left_out: &[String], namespace: &str) -> Option<String> {
    let (told, others) = left_out.split_at(left_out.len().min(TOLD));
    let more = if others.is_empty() {
        String::new()
    } else {
        format!(" and {} more", others.len())
    };
    (!told.is_empty()).then(|| {
        format!(
            "On no object in namespace {namespace}, because envoy.managed.infrastructure of the controller's \
             configuration does not list the name: {}{more}",
            told.join(", ")
        )
    })
}

fn remove_listed(lists: &[&[String]], asked: &mut BTreeMap<String, String>) -> Vec<String> {
    let is_on_none = |name: &String| !lists.iter().any(|names| is_allowed(names, name));
    let taken: Vec<String> = asked.keys().filter(|name| is_on_none(name)).cloned().collect();
    for name in &taken {
        asked.remove(name);
    }
    taken
}

/// The labels or annotations that are listed.
#[must_use]
pub fn allowed(names: &[String], asked: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let listed = asked.iter().filter(|(name, _)| is_allowed(names, name));
    listed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn is_allowed(names: &[String], name: &str) -> bool {
    names.iter().any(|listed| match listed.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => listed == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_all_that_begin_so() {
        let names = ["a.example/*", "b.example/one"].map(str::to_owned);
        for (name, expected) in [
            ("a.example/one", true),
            ("a.example/", true),
            ("a.example", false),
            ("b.example/one", true),
            ("b.example/one-more", false),
        ] {
            assert_eq!(is_allowed(&names, name), expected, "{name}");
        }
    }

    #[test]
    fn by_default_nobody_takes_what_may_be_anothers() {
        let names = AllowedMetadata::default();
        assert_eq!(names.check(), Ok(()));
        for taken in [
            "eks.amazonaws.com/role-arn",
            "external-dns.alpha.kubernetes.io/hostname",
            "metallb.io/loadBalancerIPs",
            "metallb.universe.tf/allow-shared-ip",
            "networking.gke.io/load-balancer-ip-addresses",
            "service.beta.kubernetes.io/aws-load-balancer-access-log-s3-bucket-name",
            "service.beta.kubernetes.io/aws-load-balancer-eip-allocations",
            "service.beta.kubernetes.io/aws-load-balancer-name",
            "service.beta.kubernetes.io/aws-load-balancer-security-groups",
            "service.beta.kubernetes.io/aws-load-balancer-ssl-cert",
            "service.beta.kubernetes.io/azure-dns-label-name",
            "service.beta.kubernetes.io/azure-pip-name",
        ] {
            for (field, names) in names.annotations().into_iter().chain(names.labels()) {
                assert!(!is_allowed(names, taken), "{field}: {taken}");
            }
        }
    }

    #[test]
    fn a_star_within_a_name_is_no_name() {
        for wrong in ["", "a*b", "*a", "a**"] {
            let names = AllowedMetadata {
                pod_labels: vec!["a".to_owned(), wrong.to_owned()],
                ..AllowedMetadata::default()
            };
            let error = names.check().unwrap_err();
            assert!(error.starts_with("podLabels[1]: expected a name"), "{error}");
        }
    }
}
