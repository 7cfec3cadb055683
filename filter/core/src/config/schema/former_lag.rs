//! `policies.<name>.formerLags`

use serde::{Deserialize, Serialize};

use crate::time::GatewayDuration;

/// How old the tokens of sessions in use may be, because they were issued under a longer idle timeout. A token is
/// renewed only when it is older than a tenth of the idle timeout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FormerLagConfig {
    /// It applies to the scopes `<kind>/<namespace>/…` only, as the controller names the rules of a namespace's routes.
    /// Without it, it applies to all scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub namespace: Option<String>,
    /// A tenth of the former idle timeout; all of it where tokens were not renewed.
    pub lag: GatewayDuration,
    /// Unix time in seconds. Later, the policy's own idle timeout says how old tokens may be.
    pub until: u64,
}
