//! `reportSessions`

use serde::{Deserialize, Serialize};

use crate::time::GatewayDuration;

/// Whom the filter tells of the sessions that it sees, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportSessionsConfig {
    /// The Envoy cluster of the controller: HTTP/2, and in Envoy's own configuration.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub cluster: String,
    /// `node.cluster` of this Envoy, by which the controller knows which Gateway it serves.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub node_cluster: String,
    /// How often changes are reported: at least 100ms.
    #[serde(default = "two_seconds")]
    pub interval: GatewayDuration,
    /// How many backends are counted separately. Others are counted together.
    #[serde(default = "two_thousand")]
    pub max_backends: usize,
}

impl ReportSessionsConfig {
    /// A configuration with defaults for the rest.
    #[must_use]
    pub fn new(cluster: &str, node_cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            node_cluster: node_cluster.to_owned(),
            interval: two_seconds(),
            max_backends: two_thousand(),
        }
    }
}

fn two_seconds() -> GatewayDuration {
    std::time::Duration::from_secs(2).into()
}

fn two_thousand() -> usize {
    2000
}
