//! The forms that session persistence has in the releases of the Gateway API.

use anyhow::Result;
use limpet_e2e::kube::Release;
use serde_json::{Value, json};

use super::stage::Stage;

/// A form of session persistence in which a session belongs to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `BackendLBPolicy`.
    BackendLbPolicy,
    /// `XBackendTrafficPolicy` with `sessionName`.
    TrafficPolicy,
    /// `XBackendTrafficPolicy` with `cookie` and `header`.
    UnionTrafficPolicy,
    /// `sessionPersistence` of a rule, with `sessionName`.
    Inline,
    /// `sessionPersistence` of a rule, with `cookie` and `header`.
    UnionInline,
}

/// What is asked of a session; a name that is not there is to be made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) name: Option<String>,
    pub(crate) absolute_timeout: Option<&'static str>,
    pub(crate) idle_timeout: Option<&'static str>,
    pub(crate) is_permanent: bool,
}

impl Wanted {
    /// A cookie of this name.
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

    /// The release that it is tested with.
    pub(crate) fn release(self) -> Release {
        match self {
            Self::BackendLbPolicy => Release::V1_2_1,
            Self::TrafficPolicy | Self::Inline => Release::V1_6_1,
            Self::UnionTrafficPolicy | Self::UnionInline => Release::V1_7_0,
        }
    }

    /// What objects of a check are called in this dialect.
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

    fn is_union(self) -> bool {
        matches!(self, Self::UnionTrafficPolicy | Self::UnionInline)
    }

    /// Whether it can say `idleTimeout`.
    pub(crate) fn has_idle_timeout(self) -> bool {
        self == Self::BackendLbPolicy
    }

    /// The field `sessionPersistence`.
    pub(crate) fn persistence(self, wanted: &Wanted) -> Value {
        let mut persistence = json!({});
        let lifetime = if wanted.is_permanent { "Permanent" } else { "Session" };
        if self.is_union() {
            persistence["type"] = "Cookie".into();
            persistence["cookie"] = json!({"lifetimeType": lifetime});
            if let Some(name) = &wanted.name {
                persistence["cookie"]["name"] = name.as_str().into();
            }
        } else {
            persistence["cookieConfig"] = json!({"lifetimeType": lifetime});
            if let Some(name) = &wanted.name {
                persistence["sessionName"] = name.as_str().into();
            }
        }
        for (field, timeout) in [
            ("absoluteTimeout", wanted.absolute_timeout),
            ("idleTimeout", wanted.idle_timeout),
        ] {
            if let Some(timeout) = timeout {
                persistence[field] = timeout.into();
            }
        }
        persistence
    }

    /// Asks for sessions on all rules of a route, or on all of these Services: the route and the policy are called `name`.
    pub(crate) async fn apply(
        self,
        stage: &Stage,
        name: &str,
        services: &[String],
        rules: &[Value],
        wanted: &Wanted,
    ) -> Result<()> {
        let persistence = self.persistence(wanted);
        if self.is_inline() {
            let mut rules = rules.to_vec();
            for rule in &mut rules {
                rule["sessionPersistence"] = persistence.clone();
            }
            return stage.route(name, &rules).await;
        }
        let (api_version, kind) = match self {
            Self::BackendLbPolicy => ("gateway.networking.k8s.io/v1alpha2", "BackendLBPolicy"),
            _ => ("gateway.networking.x-k8s.io/v1alpha1", "XBackendTrafficPolicy"),
        };
        let policy = policy(api_version, kind, name, services, &persistence);
        stage.namespace.apply_object(&policy).await?;
        stage.route(name, rules).await
    }
}

/// A `BackendLBPolicy` for these Services.
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
