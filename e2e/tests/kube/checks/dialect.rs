//! The forms of session persistence in the Gateway API's releases.

use anyhow::Result;
use limpet_e2e::kube::Release;
use serde_json::{Value, json};

use super::site::{GatewaySite, prefixed};

/// A form in which a session belongs to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    BackendLbPolicy,
    /// With `sessionName`.
    TrafficPolicy,
    /// With `cookie` and `header`.
    UnionTrafficPolicy,
    /// `sessionPersistence` of a rule, with `sessionName`.
    Inline,
    /// `sessionPersistence` of a rule, with `cookie` and `header`.
    UnionInline,
}

/// The controller generates a missing name.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSpec {
    pub(crate) name: Option<String>,
    pub(crate) absolute_timeout: Option<&'static str>,
    pub(crate) idle_timeout: Option<&'static str>,
    pub(crate) is_permanent: bool,
    /// Without their prefix, for what no dialect has a field for.
    pub(crate) annotations: Value,
    /// Whether the dialect decides where the session goes in a split. Otherwise, it stays at its backend.
    pub(crate) leaves_split: bool,
}

impl SessionSpec {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::default()
        }
    }
}

impl Dialect {
    pub(crate) const ALL: [Self; 5] = [
        Self::BackendLbPolicy,
        Self::TrafficPolicy,
        Self::UnionTrafficPolicy,
        Self::Inline,
        Self::UnionInline,
    ];

    /// The release whose cluster tests it.
    pub(crate) fn release(self) -> Release {
        match self {
            Self::BackendLbPolicy => Release::V1_2_1,
            Self::TrafficPolicy | Self::Inline => Release::V1_6_1,
            Self::UnionTrafficPolicy | Self::UnionInline => Release::V1_7_0,
        }
    }

    pub(crate) fn prefix(self, check: &str) -> String {
        let dialect = match self {
            Self::BackendLbPolicy => "lb",
            Self::TrafficPolicy => "traffic",
            Self::UnionTrafficPolicy => "union-traffic",
            Self::Inline => "inline",
            Self::UnionInline => "union-inline",
        };
        format!("{check}-{dialect}")
    }

    fn is_inline(self) -> bool {
        matches!(self, Self::Inline | Self::UnionInline)
    }

    /// The shape from release 1.7 on.
    pub(crate) fn is_union(self) -> bool {
        matches!(self, Self::UnionTrafficPolicy | Self::UnionInline)
    }

    pub(crate) fn has_idle_timeout(self) -> bool {
        self == Self::BackendLbPolicy
    }

    pub(crate) fn persistence(self, spec: &SessionSpec) -> Value {
        let mut persistence = json!({});
        let lifetime = if spec.is_permanent { "Permanent" } else { "Session" };
        if self.is_union() {
            persistence["type"] = "Cookie".into();
            persistence["cookie"] = json!({"lifetimeType": lifetime});
            if let Some(name) = &spec.name {
                persistence["cookie"]["name"] = name.as_str().into();
            }
        } else {
            persistence["cookieConfig"] = json!({"lifetimeType": lifetime});
            if let Some(name) = &spec.name {
                persistence["sessionName"] = name.as_str().into();
            }
        }
        let idle_timeout = spec.idle_timeout.filter(|_| self.has_idle_timeout());
        for (field, timeout) in [
            ("absoluteTimeout", spec.absolute_timeout),
            ("idleTimeout", idle_timeout),
        ] {
            if let Some(timeout) = timeout {
                persistence[field] = timeout.into();
            }
        }
        persistence
    }

    fn annotations(self, spec: &SessionSpec) -> Value {
        let mut annotations = spec.annotations.clone();
        if self.is_union() && !spec.leaves_split {
            annotations["split"] = "keep".into();
        }
        if let Some(timeout) = spec.idle_timeout.filter(|_| !self.has_idle_timeout()) {
            annotations["idle-timeout"] = timeout.into();
        }
        annotations
    }

    /// Applies a route and, if the dialect has one, a policy, both named `name`, with sessions for all rules or for
    /// these Services.
    pub(crate) async fn apply(
        self,
        site: &GatewaySite,
        name: &str,
        services: &[String],
        rules: &[Value],
        spec: &SessionSpec,
    ) -> Result<()> {
        let persistence = self.persistence(spec);
        let annotations = self.annotations(spec);
        if self.is_inline() {
            let mut rules = rules.to_vec();
            for rule in &mut rules {
                rule["sessionPersistence"] = persistence.clone();
            }
            return site.annotated_route(name, &rules, &annotations).await;
        }
        let (api_version, kind) = match self {
            Self::BackendLbPolicy => ("gateway.networking.k8s.io/v1alpha2", "BackendLBPolicy"),
            _ => ("gateway.networking.x-k8s.io/v1alpha1", "XBackendTrafficPolicy"),
        };
        let mut policy = policy(api_version, kind, name, services, &persistence);
        policy["metadata"]["annotations"] = prefixed(&annotations);
        site.namespace.apply_object(&policy).await?;
        site.route(name, rules).await
    }
}

pub(crate) fn lb_policy(name: &str, services: &[&str], persistence: &Value) -> Value {
    let services: Vec<String> = services.iter().map(|name| (*name).to_owned()).collect();
    policy(
        "gateway.networking.k8s.io/v1alpha2",
        "BackendLBPolicy",
        name,
        &services,
        persistence,
    )
}

fn policy(api_version: &str, kind: &str, name: &str, services: &[String], persistence: &Value) -> Value {
    let targets: Vec<Value> = services
        .iter()
        .map(|service| json!({"group": "", "kind": "Service", "name": service}))
        .collect();
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"targetRefs": targets, "sessionPersistence": persistence},
    })
}
