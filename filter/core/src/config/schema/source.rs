//! Sessions by the client's address. Unset fields: the rules of [`super::policy`].

use serde::{Deserialize, Serialize};

use crate::source::SourceRules;
use crate::time::GatewayDuration;

const PREFIX_V4: u8 = SourceRules::DEFAULT.prefix_v4;
const PREFIX_V6: u8 = SourceRules::DEFAULT.prefix_v6;
const ENTRIES: u32 = SourceRules::DEFAULT.entries;

/// A table of clients and their backends. Nothing is sent to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceConfig {
    /// How many bits of an IPv4 address tell one client from another.
    #[serde(default = "prefix_v4", skip_serializing_if = "is_prefix_v4")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 32), extend("default" = PREFIX_V4)))]
    pub prefix_v4: u8,
    /// How many bits of an IPv6 address tell one client from another. A client usually has 64 bits for itself, and
    /// changes them.
    #[serde(default = "prefix_v6", skip_serializing_if = "is_prefix_v6")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 128), extend("default" = PREFIX_V6)))]
    pub prefix_v6: u8,
    /// How long a session may stay unused.
    #[serde(default = "timeout", skip_serializing_if = "is_timeout")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "3h")))]
    pub timeout: GatewayDuration,
    /// The most clients that an Envoy remembers. Beyond it, the least recently used goes first.
    #[serde(default = "entries", skip_serializing_if = "is_entries")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000_000), extend("default" = ENTRIES)))]
    pub entries: u32,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            prefix_v4: PREFIX_V4,
            prefix_v6: PREFIX_V6,
            timeout: timeout(),
            entries: ENTRIES,
        }
    }
}

fn prefix_v4() -> u8 {
    PREFIX_V4
}

fn prefix_v6() -> u8 {
    PREFIX_V6
}

fn timeout() -> GatewayDuration {
    SourceRules::DEFAULT.timeout.into()
}

fn entries() -> u32 {
    ENTRIES
}

// serde passes fields by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_prefix_v4(prefix: &u8) -> bool {
    *prefix == PREFIX_V4
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_prefix_v6(prefix: &u8) -> bool {
    *prefix == PREFIX_V6
}

fn is_timeout(duration: &GatewayDuration) -> bool {
    *duration == timeout()
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_entries(number: &u32) -> bool {
    *number == ENTRIES
}
