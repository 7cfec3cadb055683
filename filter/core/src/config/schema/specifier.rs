//! The configuration of a cluster specifier.

use serde::{Deserialize, Serialize};

/// Configuration of the cluster specifier of a split route, for the dynamic module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpecifierConfig {
    /// The clusters that the route leads to.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub destinations: Vec<SpecifierDestinationConfig>,
}

/// A cluster that a route leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpecifierDestinationConfig {
    /// The name of the cluster.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub cluster: String,
    /// Its share of the requests without a session, relative to the other weights. With 0, it gets only its sessions.
    pub weight: u32,
}
