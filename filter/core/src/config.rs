//! The configuration of the filter: its text ([`schema`]) and its meaning ([`crate::Filter`]).
//!
//! [`parse`] reads the text; `compile` checks it and prepares it for sessions. A configuration with any problem is
//! refused.

mod carrier_rules;
mod compile;
mod compiled;
mod header_names;
mod keyring_document;
mod keys;

mod well_known;

pub mod schema;

pub(crate) use compile::{MAX_SCOPE_LEN, compile};
pub(crate) use compiled::{Carrier, Compiled, Fences, IdleBound, Policy};
pub use keyring_document::{KeyDocument, KeyringDocument};
pub use keys::{Environment, Warning};
pub(crate) use keys::{in_secret, keyring};
pub use well_known::warnings;

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

use schema::{FilterConfig, PolicyConfig};

/// A problem of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The path of the field, such as `policies.shop.cookie.name` or `keys[0].id`.
    pub field: String,
    /// What the field was expected to be.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Why a configuration is refused: every problem of it, or only the first if it cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Whether this is a valid name of a policy.
#[must_use]
pub fn is_policy_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=128).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Reads a configuration from JSON.
///
/// # Errors
/// If the text is not JSON, a field does not have the type of the schema, or the schema lacks a field. The error names
/// the first such field.
pub fn parse(json: &[u8]) -> Result<FilterConfig, ConfigError> {
    let of_keys = |field: &str| {
        ["keys", "wrappedKeys", "sdsKeys"]
            .iter()
            .any(|source| field.starts_with(source))
    };
    read_json(json, "configuration", of_keys)
}

/// How long any policy may honour a token after its session was last used. A retiring key and a fence must stay for
/// this long.
#[must_use]
pub fn longest_life(config: &FilterConfig) -> Duration {
    let life = |policy: &PolicyConfig| {
        let bound = policy.idle_timeout.or(policy.absolute_timeout);
        bound.unwrap_or(config.max_idle).get()
    };
    let longest = config.policies.values().map(life).max();
    let longest = longest.unwrap_or(config.max_idle.get());
    // `last_seen` lags by up to a tenth of the bound, and clocks differ.
    longest + longest / 10 + config.clock_skew.get()
}

/// Reads a document. `whole` names it in errors about no field in particular; `secret` tells from the path of a field
/// whether it may hold a key.
fn read_json<T: DeserializeOwned>(json: &[u8], whole: &str, secret: impl Fn(&str) -> bool) -> Result<T, ConfigError> {
    let unreadable = |field: &str, error: &serde_json::Error| {
        // Without the position: the JSON from Envoy is not the text that the operator wrote.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        // serde repeats the value that it found.
        let message = match message.rsplit_once("expected ") {
            Some((_, expected)) if secret(field) => format!("expected {expected}"),
            _ => message.to_owned(),
        };
        ConfigError {
            problems: vec![Problem {
                field: field.to_owned(),
                message,
            }],
        }
    };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let read = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let field = error.path().to_string();
        let is_whole = field == "." || field == "?";
        unreadable(if is_whole { whole } else { &field }, &error.into_inner())
    })?;
    deserializer.end().map_err(|error| unreadable(whole, &error))?;
    Ok(read)
}
