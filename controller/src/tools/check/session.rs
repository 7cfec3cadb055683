//! The sessions that a configuration of Envoy names.

use super::report::CheckReport;
use crate::envoy_config::node::ConfigNode;
use limpet_core::config::schema::{FilterConfig, PolicyConfig};
use limpet_core::scope_of_cluster;

/// A session, by its policy and scope.
#[derive(Debug, Clone)]
pub(super) struct CheckedSession<'c> {
    policy: &'c str,
    pub(super) config: &'c PolicyConfig,
    pub(super) scope: String,
}

impl<'c> CheckedSession<'c> {
    /// `None` if the filter's configuration has no such policy.
    pub(super) fn new(config: &'c FilterConfig, policy: &str, scope: &str) -> Option<Self> {
        let (policy, config) = config.policies.get_key_value(policy)?;
        Some(Self {
            policy,
            config,
            scope: scope.to_owned(),
        })
    }

    /// The same in one of the clusters of its route.
    pub(super) fn at(&self, cluster: &str) -> Self {
        let scope = scope_of_cluster(self.scope.as_bytes(), cluster.as_bytes());
        Self {
            scope: String::from_utf8_lossy(&scope).into_owned(),
            ..self.clone()
        }
    }

    /// `<policy>/<scope>`, as configurations name it.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.policy, self.scope)
    }
}

/// A session's name, and where Envoy's configuration has it.
#[derive(Debug)]
pub(super) struct NamedSession<'a> {
    pub(super) node: ConfigNode<'a>,
    /// `None` if what stands there is no session; that is reported already.
    pub(super) name: Option<String>,
}

/// The field `session` of the filter's metadata, which is the only one that they may have.
pub(super) fn session_entry<'a>(report: &mut CheckReport, metadata: &ConfigNode<'a>) -> Option<ConfigNode<'a>> {
    for field in metadata.children().filter(|field| !field.path.ends_with(".session")) {
        report.warning(&field, "expected nothing but session here");
    }
    metadata.entry("session")
}

/// The finding about a name that is no session of the filter's configuration.
pub(super) fn expected_session(config: &FilterConfig, found: &str) -> String {
    let known: Vec<&str> = config.policies.keys().map(String::as_str).collect();
    format!(
        "expected <policy>/<scope> with a policy of the filter's configuration ({}), found {found}",
        known.join(", ")
    )
}
