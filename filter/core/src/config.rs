//! The configuration of the filter: [`parse`] reads its text ([`schema`]), and [`crate::Filter`] is its meaning. Any
//! problem refuses it.

mod begin_rules;
mod carrier_rules;
mod compile;
mod compiled;
mod fences_ahead;
mod further_rules;
mod header_names;
mod hosts;
mod keyring_document;
mod keys;
mod move_rules;
mod place;
mod read;
mod rebalance_rules;
mod report_rules;
mod source_rules;
mod well_known;

pub mod schema;

pub use carrier_rules::session_cookie;
pub(crate) use compile::{MAX_SCOPE_LEN, compile};
pub(crate) use compiled::{
    ApplicationSign, BeginRule, Carrier, CarrierKind, CompiledConfig, EndRule, Fences, FurtherCarrier, IdleBound,
    Policy, RebalanceRule, RouteUse, Source,
};
pub use fences_ahead::FencesAhead;
pub use further_rules::MAX_ALSO;
pub(crate) use hosts::HostsByCluster;
pub use keyring_document::{KeyDocument, KeyringDocument};
pub use keys::{ConfigWarning, Environment};
pub(crate) use keys::{in_secret, keyring};
pub use well_known::warnings;

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::backend::whole_seconds;
use crate::time::GatewayDuration;
use schema::{FilterConfig, PolicyConfig};

/// A problem of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field's path, such as `policies.shop.cookie.name` or `keys[0].id`.
    pub field: String,
    /// What was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Every problem of a refused configuration.
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

/// Whether this is a valid policy name.
#[must_use]
pub fn is_policy_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=128).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Reads a configuration from JSON.
///
/// # Errors
/// If the text is not JSON, or with each field that is malformed, unknown or wrong, keys aside.
pub fn parse(json: &[u8]) -> Result<FilterConfig, ConfigError> {
    let of_keys = |field: &str| {
        ["keys", "wrappedKeys", "sdsKeys"]
            .iter()
            .any(|source| field.starts_with(source))
    };
    read::read_json(json, "configuration", of_keys).map_err(|mut unread| {
        if let Some(Err(others)) = unread.rest.as_ref().map(compile) {
            let independent = |problem: &Problem| !unread.broken.iter().any(|broken| follows(&problem.field, broken));
            unread.problems.extend(others.problems.into_iter().filter(independent));
        }
        unread.into()
    })
}

/// Whether a problem may follow from a removal in the object or list `broken`.
fn follows(field: &str, broken: &str) -> bool {
    match broken {
        "" => false,
        "policies" => field.ends_with(".policy"),
        _ => field
            .strip_prefix(broken)
            .is_some_and(|below| !below.starts_with(|c: char| c.is_ascii_alphanumeric())),
    }
}

/// Reads another document, called `whole` in errors.
///
/// # Errors
/// As [`parse`].
pub fn read<T: DeserializeOwned>(json: &[u8], whole: &str) -> Result<T, ConfigError> {
    read::read_json(json, whole, |_| false).map_err(ConfigError::from)
}

/// How long after its last use any policy may honour a token, and a retiring key and a fence must stay.
#[must_use]
pub fn longest_life(config: &FilterConfig) -> Duration {
    let lives = config.policies.values().map(|policy| {
        let life = life(policy, config.max_idle);
        let former = policy.former_lags.iter().map(|former| former.lag.get());
        life + former.fold(life / 10, Duration::max)
    });
    let max_idle = config.max_idle.get();
    // `last_seen` lags by up to a tenth of the bound, and clocks differ.
    lives.max().unwrap_or(max_idle + max_idle / 10) + config.clock_skew.get()
}

/// [`life`] in whole seconds ([`crate::census::Backend::live_for`]).
#[must_use]
pub fn live_for(policy: &PolicyConfig, max_idle: GatewayDuration) -> u32 {
    whole_seconds(life(policy, max_idle))
}

/// How long a session lives after its last request.
#[must_use]
pub fn life(policy: &PolicyConfig, max_idle: GatewayDuration) -> Duration {
    let timeout = policy.source.as_ref().map(|source| source.timeout);
    let bound = timeout.or(policy.idle_timeout).or(policy.absolute_timeout);
    bound.unwrap_or(max_idle).get()
}

/// The lag of tokens in use: a tenth of the idle bound, or nothing if they are not renewed, because there is only an
/// absolute timeout or only redirects.
#[must_use]
pub fn longest_lag(policy: &PolicyConfig, max_idle: GatewayDuration) -> Duration {
    let is_renewed = policy.query.is_none() || policy.tell.is_some();
    match idle_bound(policy, max_idle) {
        Some(bound) if is_renewed => bound / 10,
        _ => life(policy, max_idle),
    }
}

/// The idle time after which tokens are refused; `None` with only an absolute timeout, which implies one.
#[must_use]
pub fn idle_bound(policy: &PolicyConfig, max_idle: GatewayDuration) -> Option<Duration> {
    let max_idle = policy.absolute_timeout.is_none().then_some(max_idle);
    policy.idle_timeout.or(max_idle).map(GatewayDuration::get)
}
