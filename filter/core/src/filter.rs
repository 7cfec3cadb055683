//! The configuration in force, which finds the session of a request.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::bound_policies::BoundPolicies;
use crate::bound_policy::{BoundPolicy, PolicyContext};
use crate::config::schema::{FilterConfig, ReportSessionsConfig};
use crate::config::{self, CompiledConfig, ConfigError, ConfigWarning, Environment, Policy, RouteUse};
use crate::keyring::{Keyring, wipe_stack};
use crate::route_session::{RouteSession, RouteSessionError, Split, is_none, scope_of_cluster, without_split};
use crate::session::RequestSession;
use crate::source::{SourceRules, SourceTable};
use crate::token::TokenMemory;
use crate::view::{RequestView, ViewError};

const DEFAULT_SCOPE: &[u8] = b"default";

/// A configuration in force.
#[derive(Debug)]
pub struct Filter {
    config: Arc<CompiledConfig>,
    limits: Arc<PolicyContext>,
    /// `None` until the secret with it arrives.
    keyring: Option<Keyring>,
    /// The default policy, if the configuration gives its scope.
    default: Option<Arc<BoundPolicy>>,
    bound_policies: BoundPolicies,
    /// Only with keys. Dropped last.
    _stack: Option<StackWipe>,
}

/// Overwrites the stack when dropped, because states of keys were moved through it, and later calls may not reach the
/// same places.
#[derive(Debug)]
struct StackWipe;

impl Drop for StackWipe {
    fn drop(&mut self) {
        /// Words of 16 bytes: more than any call of the filter takes.
        const WORDS: usize = 4096;
        wipe_stack::<WORDS>();
    }
}

/// Why a request has no session although its route should have one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The proxy did not answer.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The secret with the keyring has not arrived.
    #[error("no keyring yet: the secret that sdsKeys names is not there, or holds none")]
    NoKeys,
    /// The metadata name no policy of the configuration.
    #[error(
        "filter_metadata.limpet.session: expected <policy>/<scope> with a policy of the filter's configuration, \
         @split/, @specifier/ or @destination/ in front of that, or @destination (of a cluster: <policy>/<scope>, or \
         @none), found {0:?}"
    )]
    UnknownSession(String),
}

impl Filter {
    /// Checks a configuration and puts it in force.
    ///
    /// # Errors
    /// If the configuration is invalid, with every problem.
    pub fn new(config: &FilterConfig, environment: Environment<'_>) -> Result<(Self, Vec<ConfigWarning>), ConfigError> {
        match (config::keyring(config, environment), config::compile(config)) {
            (Ok((keyring, mut warnings)), Ok(compiled)) => {
                warnings.extend(config::warnings(config));
                Ok((Self::keyless(compiled).with_keys(keyring), warnings))
            }
            (keyring, config) => Err(both(keyring.err(), config.err())),
        }
    }

    /// Checks a configuration whose keyring arrives in a secret, by [`Filter::with_keys`].
    ///
    /// # Errors
    /// If the configuration is invalid, with every problem, or its keyring is not in a secret.
    pub fn without_keys(config: &FilterConfig) -> Result<Self, ConfigError> {
        match (config::in_secret(config), config::compile(config)) {
            (Ok(()), Ok(config)) => Ok(Self::keyless(config)),
            (secret, config) => Err(both(secret.err(), config.err())),
        }
    }

    /// The same configuration with this keyring.
    #[must_use]
    pub fn with_keys(&self, keyring: Keyring) -> Self {
        let mut filter = Self {
            config: Arc::clone(&self.config),
            limits: Arc::clone(&self.limits),
            keyring: Some(keyring),
            default: None,
            bound_policies: BoundPolicies::default(),
            _stack: Some(StackWipe),
        };
        filter.default = filter.config.default.as_ref().and_then(|used| {
            let scope = used.scope.as_ref()?;
            filter.bind(&used.policy, scope.as_bytes()).ok()
        });
        filter
    }

    fn keyless(mut config: CompiledConfig) -> Self {
        let limits = PolicyContext {
            clock_skew: config.clock_skew,
            fences: std::mem::take(&mut config.fences),
            hosts: std::mem::take(&mut config.hosts),
            counts: config.report_sessions.is_some(),
            tokens: OnceLock::new(),
        };
        Self {
            config: Arc::new(config),
            limits: Arc::new(limits),
            keyring: None,
            default: None,
            bound_policies: BoundPolicies::default(),
            _stack: None,
        }
    }

    /// [`config::parse`] and [`Filter::new`] in one.
    ///
    /// # Errors
    /// If `json` is not a configuration or is invalid.
    pub fn from_json(json: &[u8], environment: Environment<'_>) -> Result<(Self, Vec<ConfigWarning>), ConfigError> {
        Self::new(&config::parse(json)?, environment)
    }

    /// The names of the policies, sorted.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.config.policies.keys().map(String::as_str)
    }

    /// Sets the place of tables of sessions by address; by default, memory.
    pub fn set_tables(&self, table: impl Fn(&str, &SourceRules) -> Arc<dyn SourceTable>) {
        for policy in self.config.policies.values() {
            if let Some(source) = policy.carrier.source() {
                source.set_table(|| table(&policy.name, &source.rules));
            }
        }
    }

    /// Whether a time this late hardly matters: at most a hundredth of each timeout and of `clockSkew`.
    #[must_use]
    pub fn tolerates_late_time(&self, by: Duration) -> bool {
        let times = self.config.policies.values().flat_map(|policy| {
            let idle = policy.idle_bound.map(|idle| idle.bound);
            let table = policy.carrier.source().map(|source| source.rules.timeout);
            let unseen = policy.rebalance.map(|rebalance| rebalance.unseen);
            [policy.absolute_timeout, idle, table, unseen].into_iter().flatten()
        });
        times.chain([self.config.clock_skew]).all(|time| time >= by * 100)
    }

    /// Remembers up to 512 verified tokens, in 80 KB.
    pub fn remember_tokens(&self) {
        self.limits.tokens.get_or_init(TokenMemory::default);
    }

    pub(crate) fn has_table(&self, policy: &str) -> bool {
        let policy = self.config.policies.get(policy);
        policy.is_some_and(|policy| policy.carrier.source().is_some())
    }

    pub(crate) fn has_moves(&self, policy: &str) -> bool {
        let policy = self.config.policies.get(policy);
        policy.is_some_and(|policy| policy.moves.is_some())
    }

    pub(crate) fn keyring(&self) -> Option<&Keyring> {
        self.keyring.as_ref()
    }

    /// How the adapter reports sessions, if it does.
    #[must_use]
    pub fn report_sessions(&self) -> Option<&ReportSessionsConfig> {
        self.config.report_sessions.as_ref()
    }

    /// Whether the adapter writes [`crate::outcome::FILTER_STATE`].
    #[must_use]
    pub fn access_log(&self) -> bool {
        self.config.access_log
    }

    /// The session of a request. The adapter does not touch a request without one.
    ///
    /// # Errors
    /// If the proxy does not answer, the keyring has not arrived, or the metadata name no policy. The adapter does not
    /// touch the request.
    pub fn session(&self, request: &impl RequestView) -> Result<Option<RequestSession>, SessionError> {
        let mut split = None;
        let bound_policy = match request.route_session()? {
            Some(metadata) => {
                let (name, how) = without_split(&metadata);
                split = how;
                let known = || self.bound_policies.get(name);
                // The name of a cluster's session contains the cluster.
                match (how != Some(Split::Destinations)).then(known).flatten() {
                    Some(bound_policy) => Some(bound_policy),
                    None => self.session_of_route(&metadata, request)?,
                }
            }
            None => match self.session_of_table(request)? {
                Some(bound_policy) => Some(bound_policy),
                None => self.session_of_default(request)?,
            },
        };
        // In one place, because a session is large.
        Ok(bound_policy.map(|bound_policy| RequestSession::new(bound_policy, split)))
    }

    /// The session that the route's metadata name; `None` if they leave it to a cluster that defines none.
    fn session_of_route(
        &self,
        metadata: &[u8],
        request: &impl RequestView,
    ) -> Result<Option<Arc<BoundPolicy>>, SessionError> {
        match RouteSession::parse(metadata) {
            Ok(RouteSession::Destination) => self.session_of_destination(request),
            session => self.session_of_rule(session, metadata, request),
        }
    }

    fn session_of_destination(&self, request: &impl RequestView) -> Result<Option<Arc<BoundPolicy>>, SessionError> {
        let Some(metadata) = request.cluster_session()? else {
            return Ok(None);
        };
        let bound_policy = match self.bound_policies.get(&metadata) {
            Some(bound_policy) => bound_policy,
            None if is_none(&metadata) => return Ok(None),
            None => match RouteSession::parse(&metadata) {
                // The scope must be given: the route's name, its default elsewhere, differs between the routes to a
                // cluster.
                session @ Ok(RouteSession::Rule {
                    scope: Some(_),
                    split: None,
                    ..
                }) => return self.session_of_rule(session, &metadata, request),
                _ => return Err(unknown(&metadata)),
            },
        };
        Ok(Some(bound_policy))
    }

    fn session_of_rule(
        &self,
        session: Result<RouteSession<'_>, RouteSessionError>,
        metadata: &[u8],
        request: &impl RequestView,
    ) -> Result<Option<Arc<BoundPolicy>>, SessionError> {
        let Ok(RouteSession::Rule { policy, scope, split }) = session else {
            return Err(unknown(metadata));
        };
        let policy = self.config.policies.get(policy).ok_or_else(|| unknown(metadata))?;
        let scope = scope.map_or_else(
            || route_scope(request).map(Cow::Owned),
            |scope| Ok(Cow::Borrowed(scope)),
        )?;
        if split == Some(Split::Destinations) {
            return self.session_in_cluster(policy, &scope, request);
        }
        self.bound_policy(policy, &scope).map(Some)
    }

    fn session_in_cluster(
        &self,
        policy: &Arc<Policy>,
        scope: &[u8],
        request: &impl RequestView,
    ) -> Result<Option<Arc<BoundPolicy>>, SessionError> {
        if request.cluster_session()?.is_some_and(|session| is_none(&session)) {
            return Ok(None);
        }
        // The route leads to no cluster.
        let Some(cluster) = request.cluster_name()? else {
            return Ok(None);
        };
        self.bound_policy(policy, &scope_of_cluster(scope, &cluster)).map(Some)
    }

    fn session_of_table(&self, request: &impl RequestView) -> Result<Option<Arc<BoundPolicy>>, SessionError> {
        if self.config.routes.is_empty() {
            return Ok(None);
        }
        let name = request.route_name()?.unwrap_or_default();
        let entries = std::str::from_utf8(&name)
            .ok()
            .and_then(|name| self.config.routes.get(name));
        let Some(entries) = entries else {
            return Ok(None);
        };
        let by_host = entries.iter().any(|entry| entry.virtual_host.is_some());
        let host = if by_host { request.virtual_host()? } else { None };
        let entry = entries.iter().find(|entry| match &entry.virtual_host {
            Some(expected) => host.as_deref() == Some(expected.as_bytes()),
            None => true,
        });
        let Some(RouteUse { used, per_cluster, .. }) = entry else {
            return Ok(None);
        };
        let scope = used.scope.as_ref().map_or(scope_of_route(&name), String::as_bytes);
        if *per_cluster {
            return self.session_in_cluster(&used.policy, scope, request);
        }
        self.bound_policy(&used.policy, scope).map(Some)
    }

    fn session_of_default(&self, request: &impl RequestView) -> Result<Option<Arc<BoundPolicy>>, SessionError> {
        match (&self.default, &self.config.default) {
            (Some(bound_policy), _) => Ok(Some(Arc::clone(bound_policy))),
            (None, Some(used)) => {
                let scope = match &used.scope {
                    Some(scope) => scope.as_bytes().to_vec(),
                    None => route_scope(request)?,
                };
                self.bound_policy(&used.policy, &scope).map(Some)
            }
            (None, None) => Ok(None),
        }
    }

    fn bound_policy(&self, policy: &Arc<Policy>, scope: &[u8]) -> Result<Arc<BoundPolicy>, SessionError> {
        let name = [policy.name.as_bytes(), b"/", scope].concat();
        match self.bound_policies.get(&name) {
            Some(bound_policy) => Ok(bound_policy),
            None => Ok(self.bound_policies.insert(&name, self.bind(policy, scope)?)),
        }
    }

    fn bind(&self, policy: &Arc<Policy>, scope: &[u8]) -> Result<Arc<BoundPolicy>, SessionError> {
        let keyring = self.keyring.as_ref();
        if keyring.is_none() && policy.carrier.source().is_none() {
            return Err(SessionError::NoKeys);
        }
        Ok(BoundPolicy::new(keyring, policy, scope, &self.limits))
    }
}

fn both(keys: Option<ConfigError>, rest: Option<ConfigError>) -> ConfigError {
    let problems = keys.into_iter().chain(rest).flat_map(|error| error.problems);
    ConfigError {
        problems: problems.collect(),
    }
}

fn unknown(metadata: &[u8]) -> SessionError {
    SessionError::UnknownSession(String::from_utf8_lossy(metadata).into_owned())
}

fn route_scope(request: &impl RequestView) -> Result<Vec<u8>, ViewError> {
    let name = request.route_name()?.unwrap_or_default();
    Ok(scope_of_route(&name).to_vec())
}

fn scope_of_route(name: &[u8]) -> &[u8] {
    if name.is_empty() { DEFAULT_SCOPE } else { name }
}

#[cfg(test)]
mod tests;
