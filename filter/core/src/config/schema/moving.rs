//! Sessions that their application moves.

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::constraints::TOKEN;

/// How the application moves a session to another backend of its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveConfig {
    /// The name of a response header that names the other backend, which clients do not see. Case does not matter.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub header: String,
}
