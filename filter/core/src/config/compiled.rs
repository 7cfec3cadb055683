//! A configuration that passed all checks, prepared for sessions.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::HostsByCluster;
use crate::carrier::cookie::SessionCookie;
use crate::config::schema::ReportSessionsConfig;
use crate::moves::Moves;
use crate::name_watch::NameWatch;
use crate::source::{SharedTable, SourceRules, SourceTable};
use crate::time::Timestamp;
use crate::token::{CarrierMode, PayloadForm};

#[derive(Debug)]
pub(crate) struct CompiledConfig {
    pub(crate) policies: BTreeMap<String, Arc<Policy>>,
    /// The entries of each route name, those with a virtual host first.
    pub(crate) routes: HashMap<String, Vec<RouteUse>>,
    pub(crate) default: Option<PolicyUse>,
    pub(crate) access_log: bool,
    pub(crate) report_sessions: Option<ReportSessionsConfig>,
    pub(crate) clock_skew: Duration,
    pub(crate) fences: Fences,
    pub(crate) hosts: HostsByCluster,
}

#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) name: String,
    /// The index among the policies, sorted by name.
    pub(crate) index: usize,
    pub(crate) carrier: Carrier,
    /// Further carriers, in the order of search.
    pub(crate) also: Vec<FurtherCarrier>,
    /// The response header for issued tokens, in lower case.
    pub(crate) tell: Option<String>,
    pub(crate) begin: BeginRule,
    pub(crate) end: Option<EndRule>,
    pub(crate) moves: Option<Moves>,
    pub(crate) rebalance: Option<RebalanceRule>,
    pub(crate) strict: bool,
    pub(crate) strict_status: u16,
    pub(crate) absolute_timeout: Option<Duration>,
    pub(crate) idle_bound: Option<IdleBound>,
    pub(crate) former_lags: Vec<FormerLag>,
    pub(crate) form: PayloadForm,
    pub(crate) keep_cache_control: bool,
    pub(crate) name_watch: NameWatch,
}

impl Policy {
    /// Whether an issued token reaches its client. `redirect`: the response is a redirect that gets the token.
    pub(crate) fn reaches_clients(&self, redirect: bool) -> bool {
        redirect || self.tell.is_some() || !matches!(self.carrier, Carrier::Query { .. })
    }

    /// Whether a request after an internal redirect may have tokens, although the filter took them out.
    pub(crate) fn has_several_carriers(&self) -> bool {
        !self.also.is_empty() || matches!(self.carrier, Carrier::Query { .. })
    }
}

/// What a session begins with; by default, the first response.
#[derive(Debug, Default)]
pub(crate) struct BeginRule {
    pub(crate) sign: Option<ApplicationSign>,
    /// Methods of requests that begin sessions. Empty: all.
    pub(crate) methods: Vec<String>,
}

/// A cookie or header of the application.
#[derive(Debug)]
pub(crate) enum ApplicationSign {
    Cookie(String),
    /// In lower case.
    Header(String),
}

/// A cookie that the application deletes, or a header that it sets.
#[derive(Debug)]
pub(crate) struct EndRule(pub(crate) ApplicationSign);

/// The carrier of a policy's tokens, with header names in lower case.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// The filter's own cookie.
    Cookie {
        name: String,
        cookie: SessionCookie,
        per_scope: bool,
        forward: bool,
    },
    /// In front of the application's cookie value.
    CookiePrefix { name: String },
    /// In place of the application's cookie value.
    CookieRewrite { name: String },
    /// The filter's own header.
    Header { name: String, forward: bool },
    /// In front of the application's header value.
    HeaderPrefix { name: String },
    /// The filter's own parameter of the query.
    Query {
        parameter: FurtherCarrier,
        /// Whether redirects to the same host get the token.
        redirects: bool,
    },
    /// No tokens: the client's address holds the session.
    Source(Source),
}

/// A place where the filter's tokens are accepted, but not issued.
#[derive(Debug)]
pub(crate) struct FurtherCarrier {
    pub(crate) place: CarrierKind,
    /// In lower case for a header.
    pub(crate) name: String,
    pub(crate) forward: bool,
    /// Whether it was the policy's own.
    pub(crate) is_former: bool,
}

impl FurtherCarrier {
    pub(crate) fn mode(&self) -> CarrierMode {
        match self.place {
            CarrierKind::Cookie => CarrierMode::Cookie,
            CarrierKind::Header => CarrierMode::Header,
            CarrierKind::Query => CarrierMode::Query,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarrierKind {
    Cookie,
    Header,
    Query,
}

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) rules: SourceRules,
    table: OnceLock<Arc<dyn SourceTable>>,
}

impl Source {
    pub(crate) fn new(rules: SourceRules) -> Self {
        Self {
            rules,
            table: OnceLock::new(),
        }
    }

    pub(crate) fn set_table(&self, table: impl FnOnce() -> Arc<dyn SourceTable>) {
        self.table.get_or_init(table);
    }

    pub(crate) fn table(&self) -> &dyn SourceTable {
        &**self.table.get_or_init(|| Arc::new(SharedTable::new(&self.rules)))
    }
}

impl Carrier {
    /// The mode that tokens are bound to; `None` without tokens.
    pub(crate) fn mode(&self) -> Option<CarrierMode> {
        match self {
            Self::Cookie { .. } => Some(CarrierMode::Cookie),
            Self::CookiePrefix { .. } => Some(CarrierMode::CookiePrefix),
            Self::CookieRewrite { .. } => Some(CarrierMode::CookieRewrite),
            Self::Header { .. } => Some(CarrierMode::Header),
            Self::HeaderPrefix { .. } => Some(CarrierMode::HeaderPrefix),
            Self::Query { .. } => Some(CarrierMode::Query),
            Self::Source(_) => None,
        }
    }

    pub(crate) fn source(&self) -> Option<&Source> {
        match self {
            Self::Source(source) => Some(source),
            _ => None,
        }
    }

    /// The session's name; empty without tokens.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Cookie { name, .. }
            | Self::CookiePrefix { name }
            | Self::CookieRewrite { name }
            | Self::Header { name, .. }
            | Self::HeaderPrefix { name } => name,
            Self::Query { parameter, .. } => &parameter.name,
            Self::Source(_) => "",
        }
    }

    pub(crate) fn place(&self) -> Option<CarrierKind> {
        match self {
            Self::Cookie { .. } | Self::CookiePrefix { .. } | Self::CookieRewrite { .. } => Some(CarrierKind::Cookie),
            Self::Header { .. } | Self::HeaderPrefix { .. } => Some(CarrierKind::Header),
            Self::Query { .. } => Some(CarrierKind::Query),
            Self::Source(_) => None,
        }
    }

    /// Whether the filter can set it at any time, and not only when the application does.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Cookie { .. } | Self::Header { .. } | Self::Query { .. })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleBound {
    pub(crate) bound: Duration,
    /// How far `last_seen` may lag behind the last use, until a renewal. A token last seen more than `bound + lag` ago
    /// was unused for `bound`.
    pub(crate) lag: Duration,
}

impl IdleBound {
    /// `is_renewable`: whether tokens are renewed.
    pub(super) fn new(bound: Duration, is_renewable: bool) -> Self {
        let lag = if is_renewable { bound / 10 } else { Duration::ZERO };
        Self { bound, lag }
    }
}

/// How old tokens issued under a longer idle timeout may be.
#[derive(Debug)]
pub(crate) struct FormerLag {
    pub(super) namespace: Option<Box<str>>,
    pub(crate) lag: Duration,
    pub(crate) until: Timestamp,
}

impl FormerLag {
    pub(crate) fn is_of(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RebalanceRule {
    /// The policy's time plus the lag ([`IdleBound::lag`]), so that no client was there since.
    pub(crate) unseen: Duration,
}

#[derive(Debug)]
pub(crate) struct PolicyUse {
    pub(crate) policy: Arc<Policy>,
    pub(crate) scope: Option<String>,
}

#[derive(Debug)]
pub(crate) struct RouteUse {
    pub(crate) virtual_host: Option<String>,
    pub(crate) used: PolicyUse,
    /// Whether each cluster of the route has its own sessions.
    pub(crate) per_cluster: bool,
}

/// Addresses with a new owner, and since when.
#[derive(Debug, Default)]
pub(crate) struct Fences(pub(super) HashMap<IpAddr, Vec<Fence>>);

#[derive(Debug)]
pub(crate) struct Fence {
    pub(super) port: Option<u16>,
    pub(super) namespace: Option<Box<str>>,
    pub(super) not_before: Timestamp,
}

impl Fences {
    /// Whether the session belongs to the address's former owner. `namespace` is its scope's.
    pub(crate) fn refuse(&self, namespace: Option<&str>, host: SocketAddr, issued_at: Timestamp) -> bool {
        // The usual case: do not hash the address.
        !self.0.is_empty()
            && self.0.get(&host.ip()).is_some_and(|fences| {
                fences.iter().any(|fence| {
                    issued_at < fence.not_before
                        && fence.port.is_none_or(|port| port == host.port())
                        && (fence.namespace.is_none() || fence.namespace.as_deref() == namespace)
                })
            })
    }
}
