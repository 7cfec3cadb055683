//! The filter's configuration: what is written ([`schema`]) and what it means ([`crate::Filter`]).
//!
//! [`parse`] reads the text, `compile` checks it and makes a filter. A configuration with any problem is refused whole.

mod carrier_rules;
mod compile;
mod keys;

pub mod schema;

pub(crate) use compile::{Carrier, Compiled, Fences, MAX_SCOPE_LEN, Policy, compile};
pub use compile::{Environment, Warning};

use std::fmt;

use schema::FilterConfig;

/// One thing wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field, as `policies.shop.cookie.name` or `keys[0].id`.
    pub field: String,
    /// What was expected of it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Why a configuration is refused: all that is wrong with it, or the first thing where it cannot even be read.
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

/// Whether a policy can have this name.
#[must_use]
pub fn is_policy_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=128).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Reads a configuration from JSON.
///
/// # Errors
/// The first field that does not have the schema's type or is not in the schema.
pub fn parse(json: &[u8]) -> Result<FilterConfig, ConfigError> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let config = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let field = error.path().to_string();
        unreadable(if field == "." { "configuration" } else { &field }, &error.into_inner())
    })?;
    deserializer
        .end()
        .map_err(|error| unreadable("configuration", &error))?;
    Ok(config)
}

fn unreadable(field: &str, error: &serde_json::Error) -> ConfigError {
    // serde's words without the position: the text that Envoy hands over is not the text that was written.
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    // serde repeats what it found. Below these that may be a key.
    let of_keys = field.starts_with("keys") || field.starts_with("wrappedKeys");
    let message = match message.rsplit_once("expected ") {
        Some((_, expected)) if of_keys => format!("expected {expected}"),
        _ => message.to_owned(),
    };
    ConfigError {
        problems: vec![Problem {
            field: field.to_owned(),
            message,
        }],
    }
}
