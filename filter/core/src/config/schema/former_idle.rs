//! The idle timeouts that a policy replaces: everything under `policies.<name>.formerIdleTimeouts`.

use serde::{Deserialize, Serialize};

use crate::time::GatewayDuration;

/// A longer idle timeout that sessions had. Their tokens may be old although the sessions are in use, because a token
/// is renewed only when it lags by a tenth of the idle timeout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FormerIdleTimeoutConfig {
    /// Only sessions of the scopes `<kind>/<namespace>/…` had it, as the controller names the rules of a namespace's
    /// routes. Without it, sessions of all scopes had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub namespace: Option<String>,
    /// How long these sessions could stay unused.
    pub idle_timeout: GatewayDuration,
    /// Unix time in seconds, until which it counts. Sessions that are alive then have the policy's own idle timeout
    /// from then on.
    pub until: u64,
}
